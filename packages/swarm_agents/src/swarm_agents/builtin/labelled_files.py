"""Files with labelled examples, with which models are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from swarm.domain.errors import ConfigurationError

T = TypeVar("T")


class StrictEntry(BaseModel):
    """A part of a file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class LabelledEntry(StrictEntry):
    """A message, after others, with a label that a subclass adds."""

    say: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    before: list[dict[Literal["user", "assistant"], str]] = Field(default_factory=list)

    @property
    def earlier(self) -> tuple[tuple[str, str], ...]:
        """The earlier messages: ("user" or "assistant", text)."""
        return tuple((speaker, text) for turn in self.before for speaker, text in turn.items())


def load_labelled(path: Path, make: Callable[[Any], T], *, what: str, example: Path) -> T:
    """Returns what ``make`` makes of the file's YAML document.

    Raises ConfigurationError for a file that cannot be read, or for which ``make`` raises a ValueError: with the file,
    the place, and an ``example`` of a file with ``what``.
    """
    try:
        return make(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = " > ".join(str(part + 1) if isinstance(part, int) else str(part) for part in first["loc"])
        problem = f"{where or 'the file'}: {first['msg'].partition(' or instance')[0]}"
        raise _wrong(path, what, problem, example) from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise _wrong(path, what, str(error), example) from error


def _wrong(path: Path, what: str, problem: str, example: Path) -> ConfigurationError:
    return ConfigurationError(f"{path} is not a file with {what}: {problem}", hint=f"{example} shows the format.")
