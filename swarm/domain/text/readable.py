"""Slack's text as a reader sees it: names for ids, characters for entities."""

from __future__ import annotations

import re
from collections.abc import Mapping

from swarm.domain.text.mrkdwn import unescape

_TOKEN = re.compile(r"<([^<>\n]+)>")
_ADDRESSED = re.compile(r"^\s*<@[UW][A-Z0-9]*(?:\|[^>]*)?>[\s,:]*")
_USER = re.compile(r"<@([UW][A-Z0-9]*)(?:\|[^>]*)?>")


def mentioned_ids(text: str) -> set[str]:
    """The users whose names :func:`readable` needs."""
    return set(_USER.findall(text))


def readable(text: str, names: Mapping[str, str]) -> str:
    """``<@U1> see <https://a.b|this> &amp; <#C1|random>`` as ``@alice see this (https://a.b) & #random``."""
    return unescape(_TOKEN.sub(lambda found: _word(found.group(1), names), text))


def as_asked(text: str) -> str:
    """The same without whom it is said to, where that stands in front; people whose names are not at hand go by id."""
    return readable(_ADDRESSED.sub("", text), {})


def _word(token: str, names: Mapping[str, str]) -> str:
    target, _, label = token.partition("|")
    match target[:1]:
        case "":
            return label
        case "@":
            return "@" + (names.get(target[1:]) or label or target[1:])
        case "#":
            return "#" + (label or names.get(target[1:]) or target[1:])
        case "!":
            return label if label.startswith("@") else "@" + (label or target[1:].partition("^")[0])
        case _:
            address = target.removeprefix("mailto:")
            return f"{label} ({address})" if label and label != address else address
