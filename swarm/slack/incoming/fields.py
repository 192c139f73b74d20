"""Reads untrusted JSON safely. Each function returns a value of its type, or an empty value or None."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeGuard

import orjson

from swarm_base.characters import data_for_model

JsonObject = Mapping[str, object]

EMPTY: Final[JsonObject] = {}

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")
_LARGEST_INTEGER: Final = 2**63 - 1  # the largest integer that a database column can store


def _clean(text: str) -> str:
    """Returns text that every database and encoder accepts, without unpaired surrogates and NUL characters."""
    return _LONE_SURROGATE.sub("\ufffd", text).replace("\0", "")


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Returns whether a parsed JSON value is an object."""
    return isinstance(value, dict)


def object_at(source: JsonObject, key: str) -> JsonObject:
    """Returns the object at ``key``, or an empty one."""
    value = source.get(key)
    return value if is_object(value) else EMPTY


def objects_at(source: JsonObject, key: str) -> list[JsonObject]:
    """Returns the objects among an array's elements."""
    value = source.get(key)
    return [element for element in value if is_object(element)] if isinstance(value, list) else []


def text_at(source: JsonObject, key: str) -> str:
    """Returns the cleaned string at ``key``, or an empty one."""
    value = source.get(key)
    return _clean(value) if isinstance(value, str) else ""


MAX_JSON_CHARACTERS: Final = 20_000
"""The maximum length of a `json_text`."""


def json_text(source: JsonObject, key: str) -> str:
    """Returns the array at ``key`` as JSON text without invisible characters, cut at `MAX_JSON_CHARACTERS`; empty
    without elements.
    """
    value = source.get(key)
    if not isinstance(value, list) or not value:
        return ""
    try:
        text = orjson.dumps(data_for_model(value)).decode()
    except (TypeError, RecursionError):  # numbers beyond 64 bits, malicious nesting
        return ""
    left_out = len(text) - MAX_JSON_CHARACTERS
    return text if left_out <= 0 else f"{text[:MAX_JSON_CHARACTERS]}… [{left_out} more characters are left out]"


def id_at(source: JsonObject, key: str) -> str | None:
    """Returns a Slack id, such as ``C024BE91L``, or None."""
    value = source.get(key)
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def ids_at(source: JsonObject, key: str) -> list[str]:
    """Returns the Slack ids among an array's elements."""
    value = source.get(key)
    return [one for one in value if isinstance(one, str) and _ID.fullmatch(one)] if isinstance(value, list) else []


def ts_at(source: JsonObject, key: str) -> str | None:
    """Returns a Slack timestamp, such as ``1700000000.000100``, or None."""
    value = source.get(key)
    return value if isinstance(value, str) and _TS.fullmatch(value) else None


def count_at(source: JsonObject, key: str) -> int | None:
    """Returns a count that fits into a database column, or None."""
    value = source.get(key)
    counts = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_INTEGER
    return value if counts and isinstance(value, int) else None
