"""The sections of the settings that extensions add, each below ``extensions.NAME``."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import PlainValidator, ValidationError, create_model

from swarm import extensions
from swarm.domain.policy.section import Section
from swarm.extensions import Extension


def checked_sections(given: object) -> Section:
    """Returns an object with the section of each extension that has one, by name.

    Raises ValidationError, and ConfigurationError for an extension whose section cannot be used.
    """
    return _sections().model_validate(given)


ExtensionSections = Annotated[Section, PlainValidator(checked_sections)]


@cache
def _sections() -> type[Section]:
    defaults = {name: _default(one, one.section) for name, one in extensions.installed().items() if one.section}
    fields = {name: (type(section), section) for name, section in defaults.items()}
    return create_model("Extensions", __base__=Section, **fields)  # type: ignore[call-overload, no-any-return]


def _default(extension: Extension, target: str) -> Section:
    found = extension.load(target)
    if not (isinstance(found, type) and issubclass(found, Section)):
        raise extension.unusable(target, "it is no subclass of swarm.config.section.Section")
    try:
        return found()
    except ValidationError as error:
        raise extension.unusable(target, "every key needs a default, with which the section is valid") from error
