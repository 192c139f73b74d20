"""The fields of a form that people fill in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from swarm_base.characters import is_blank

MAX_FIELDS: Final = 50
MAX_OPTIONS: Final = 200
MAX_PROMPT_CHARACTERS: Final = 10_000
MAX_NAME_CHARACTERS: Final = 200


class FieldType(StrEnum):
    """The type of a form field, one per widget; unknown types become text."""

    TEXT = "text"
    TEXTAREA = "textarea"
    NUMBER = "number"
    INTEGER = "integer"
    URL = "url"
    EMAIL = "email"
    SELECT = "select"
    MULTISELECT = "multiselect"
    BOOLEAN = "boolean"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One choice of a select. People see the label; the asker gets the value."""

    value: str
    label: str = ""

    @property
    def title(self) -> str:
        """The label, or the value if there is none."""
        return self.value if is_blank(self.label) else self.label


@dataclass(frozen=True, kw_only=True, slots=True)
class FormField:
    """One field of a form.

    ``min`` and ``max`` limit a number, the length of a text, or the number of choices. A default is a JSON value.
    """

    name: str
    label: str = ""
    type: FieldType = FieldType.TEXT
    required: bool = False
    default: Any = None
    placeholder: str = ""
    description: str = ""
    options: tuple[Option, ...] = ()
    min: float | None = None
    max: float | None = None
    pattern: str | None = None  # a regular expression that a part of the text must match
    secret: bool = False  # the value is shown to nobody but the asker

    @property
    def title(self) -> str:
        """The label, or the name if there is none."""
        return self.name if is_blank(self.label) else self.label


def options(*values: str) -> tuple[Option, ...]:
    """Returns options that are shown as their values."""
    return tuple(Option(value=value) for value in values)
