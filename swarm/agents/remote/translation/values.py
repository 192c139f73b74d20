"""Values out of JSON that anybody may have written: of the kind that is expected, bounded, and storable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

import orjson

ID_CHARACTERS: Final = 200
"""Slack takes no longer id for a card, and nobody needs one."""

NAME_CHARACTERS: Final = 250

JsonObject = Mapping[str, object]


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether this is a JSON object."""
    return isinstance(value, dict)


def clean(text: str) -> str:
    """The text without NUL, which PostgreSQL does not store."""
    return text.replace("\0", "")


def id_of(value: object) -> str:
    """An id, at most `ID_CHARACTERS` long; empty if there is none."""
    return clean(str(value))[:ID_CHARACTERS] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def line_of(value: object, limit: int = NAME_CHARACTERS) -> str:
    """A text in one line of at most ``limit`` characters; empty if there is none."""
    if not isinstance(value, str):
        return ""
    line = " ".join(clean(value[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def text_of(value: object, limit: int) -> str:
    """A text of at most ``limit`` characters; empty if there is none."""
    if not isinstance(value, str):
        return ""
    text = clean(value[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def first(value: JsonObject, *names: str) -> object:
    """The first of these fields that says something; None if none does."""
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def parsed(text: str) -> object:
    """The JSON value that a text is; None if it is none."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
