"""Fingerprints of alerts, which are equal for the same alert with other figures, times and ids, and the resolved state
of edited alerts.

What changes from one repeat to the next is left out: numbers with their units, dates and times, ids, hexadecimal
numbers, queries of addresses. What names the thing that is affected stays, because an alert about another host must not
count as a repeat: words such as ``db1`` and ``us-east-1``, and IP addresses. Words and symbols stay too, so that
"Resolved" or another colour of an attachment is another alert.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import orjson

MOST_CHARACTERS: Final = 10_000
"""Only this much of an alert is compared."""

_MONTH: Final = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}\.?"
_UNIT: Final = r"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?)"
_TOKEN: Final = re.compile(
    rf"""
      (?P<date><!date\^[^>]*>)
    | (?P<address>https?://[^\s<>|"]+)
    | (?P<moment>\d{{4}}-\d\d?-\d\d?(?:[T\s]+\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?)
    | (?P<day>\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}\s+{_MONTH}(?=\W|$))
    | (?P<clock>\b\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\s?(?:am|pm|utc|gmt)\b)?)
    | (?P<host>\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?\b)
    | (?P<uuid>\b[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b)
    | (?P<duration>(?<![\w-])\d+(?:\.\d+)?\s?{_UNIT}\b)
    | (?P<name>[^\W\d_]+(?:[-_]\d{{1,3}}[a-z]?)+(?![\w]))
    | (?P<word>[^\W_]+)
    | (?P<symbol>[^\x00-\x7f])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NAMED: Final = re.compile(r"[^\W\d_]+\d{1,3}[a-z]?", re.IGNORECASE)  # db1, p99, s3
_HEX: Final = re.compile(r"[0-9a-f]{6,}", re.IGNORECASE)
_COLOUR: Final = re.compile(r'"color":"(#?\w+)"')
_RESOLVED: Final = re.compile(r"\b(?:resolved|recovered|recovery|closed|cleared|ok|normal)\b|🟢|:large_green_circle:")
_PREVIEW: Final = frozenset({"from_url", "original_url", "is_share"})
_RGB: Final = re.compile(r"#?([0-9a-f]{1,2})([0-9a-f]{1,2})([0-9a-f]{1,2})", re.IGNORECASE)
_CLEARLY: Final = 1.2
_ID_IN_PATH: Final = re.compile(r"[A-Z0-9]{6,}|.*\d.*")


def fingerprint(bot: str, text: str, attachments: str = "") -> str | None:
    """Returns the fingerprint of a bot's alert; None if the alert has no words. ``attachments`` are JSON text."""
    words = [word for found in _TOKEN.finditer(text[:MOST_CHARACTERS]) if (word := _kept(found))]
    if not words:
        return None
    colours = _COLOUR.findall(attachments)
    return hashlib.sha256("\n".join([bot, " ".join(words), *colours]).encode("utf-8", "replace")).hexdigest()


def turned_resolved(previous_text: str | None, text: str, attachments: str = "") -> bool:
    """Whether an edit says that an alert is over: by a word that was not there before, or by the colour green.

    ``attachments`` are JSON text. Previews of links have colours of their own, which say nothing.
    """
    said = [set(_RESOLVED.findall(words[:MOST_CHARACTERS].casefold())) for words in (previous_text or "", text)]
    return bool(said[1] - said[0]) or any(map(_is_green, _own_colours(attachments)))


def _own_colours(attachments: str) -> list[str]:
    try:
        found = orjson.loads(attachments)
    except orjson.JSONDecodeError:  # none, or cut
        return []
    own = (
        [one for one in found if isinstance(one, dict) and not _PREVIEW & one.keys()] if isinstance(found, list) else []
    )
    return [str(one.get("color")) for one in own]


def _is_green(colour: str) -> bool:
    """Whether a colour of Slack is green: ``good``, or a hexadecimal one of which green is by far the largest part."""
    if not (found := _RGB.fullmatch(colour)):
        return colour == "good"
    red, green, blue = (int(part * (3 - len(part)), 16) for part in found.groups())
    return green > _CLEARLY * max(red, blue)


def _kept(found: re.Match[str]) -> str:
    """Returns the part of a token that is the same in each repeat."""
    token = found.group().casefold()
    match found.lastgroup:
        case "host" | "name" | "symbol":
            return token
        case "address":
            return _path(found.group())
        case "word":
            return token if _is_word(token) else ""
        case _:
            return ""


def _is_word(token: str) -> bool:
    """Whether a token is a word or a name, not a number or an id."""
    if not any(map(str.isdigit, token)):
        return True
    return bool(_NAMED.fullmatch(token)) and not _HEX.fullmatch(token)


def _path(address: str) -> str:
    """Returns an address without its query, and without ids in its path."""
    _, _, rest = re.split(r"[?#]", address, maxsplit=1)[0].partition("://")
    host, *path = rest.split("/")
    return "/".join([host, *("" if _ID_IN_PATH.fullmatch(part) else part for part in path)]).casefold()
