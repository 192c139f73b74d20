"""Copies of a deleted or edited message: finding and removing its text in other texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from swarm.domain.text.slack_text import escape, readable, title_of, unescape

TOMBSTONE: Final = "[deleted]"
"""The text that replaces a copy of a deleted message."""

SHORTEST_IN_THREAD: Final = 6
SHORTEST_ANYWHERE: Final = 12
"""A shorter copy counts only as the complete text, because "ok" must not be cut out of "token"."""

MOST_PARTS: Final = 20
"""The maximum number of parts searched for, longest first; each part costs a search."""

_CLAUSE_END: Final = re.compile(r"[.,;:!?…]+(?:\s|$)")
_ADDRESS: Final = re.compile(r"^\s*(?:<@[UW][A-Z0-9]*(?:\|[^>]*)?>[\s,:]*)?swarm#[\w-]+[\s,:]*", re.IGNORECASE)
_TOKEN: Final = re.compile(r"<([^<>\n]+)>")


def parts_of(text: str, kept: str = "") -> tuple[str, ...]:
    """Returns the parts of a message that agents may have copied, longest first.

    The parts are the complete text, its lines, their longer clauses, and the targets of links, both in Slack's format
    and as readable text. Mentions split a line, because copies contain names. Parts that also occur in ``kept``, the
    text after an edit, are left out.
    """
    staying = f"{kept}\n{readable(kept, {})}"
    found = {part.strip() for part in _parts(text)}
    return tuple(sorted((part for part in found if part and part not in staying), key=lambda part: (-len(part), part)))[
        :MOST_PARTS
    ]


def says(text: str, original: str) -> bool:
    """Whether a text contains the current text of a Slack message, apart from people's names."""
    return all(unescape(line).strip() in text for line in _TOKEN.sub("\n", original).split("\n"))


def without(text: str, parts: Iterable[str]) -> str:
    """Returns the text with each of the parts replaced by a tombstone."""
    for part in parts:
        text = text.replace(part, TOMBSTONE)
    return text


def _parts(text: str) -> Iterator[str]:
    yield from (text, readable(text, {}), title_of(text))
    if (without_address := _ADDRESS.sub("", text)) != text:  # agents copy what is said, without whom it is said to
        yield from _parts(without_address)
    for token in _TOKEN.findall(text):
        target, _, label = token.partition("|")
        if target[:1] not in ("@", "#", "!"):
            yield from (target, label)
    for line in _TOKEN.sub("\n", text).split("\n"):
        yield from (line, unescape(line))
        for clause in _CLAUSE_END.split(unescape(line)):
            if len(clause) >= SHORTEST_ANYWHERE:
                yield from (clause, escape(clause))
