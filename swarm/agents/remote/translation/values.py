"""Values from JSON of unknown origin: checked for their type, bounded, and storable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

import orjson

ID_CHARACTERS: Final = 200
"""Slack accepts no longer id for a card."""

NAME_CHARACTERS: Final = 250

JsonObject = Mapping[str, object]


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether the value is a JSON object."""
    return isinstance(value, dict)


def clean(text: str) -> str:
    """Removes NUL, which PostgreSQL does not store."""
    return text.replace("\0", "")


def id_of(value: object) -> str:
    """Returns an id, at most `ID_CHARACTERS` long; empty without one."""
    return clean(str(value))[:ID_CHARACTERS] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def line_of(value: object, limit: int = NAME_CHARACTERS) -> str:
    """Returns a text in one line of at most ``limit`` characters; empty without one."""
    if not isinstance(value, str):
        return ""
    line = " ".join(clean(value[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def text_of(value: object, limit: int) -> str:
    """Returns a text of at most ``limit`` characters; empty without one."""
    if not isinstance(value, str):
        return ""
    text = clean(value[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def first(value: JsonObject, *names: str) -> object:
    """Returns the first of these fields with a value; None without one."""
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def parsed(text: str) -> object:
    """Parses JSON; None if the text is not valid."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
