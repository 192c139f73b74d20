"""Copies of a message: what of its text may stand elsewhere word for word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from swarm.domain.text.mrkdwn import escape, readable, unescape

TOMBSTONE: Final = "[deleted]"
"""Stands where a copy stood."""

SHORTEST_IN_THREAD: Final = 6
SHORTEST_ANYWHERE: Final = 12
"""A shorter copy counts only where it is the whole text: "ok" is not to be cut out of "token"."""

MOST_PARTS: Final = 20
"""So many parts of a message are looked for, the longest ones: each costs a search."""

_CLAUSE_END: Final = re.compile(r"[.,;:!?…]+(?:\s|$)")
_TOKEN: Final = re.compile(r"<([^<>\n]+)>")


def parts_of(text: str, kept: str = "") -> tuple[str, ...]:
    """The text of a message as agents may have copied it, longest first: whole, its lines, longer clauses of these, and
    what links lead to.

    As Slack writes it and as people read it. Mentions part a line, for they are copied as names. What ``kept`` says as
    well, the text of the message after an edit, is left out.
    """
    staying = f"{kept}\n{readable(kept, {})}"
    found = {part.strip() for part in _parts(text)}
    return tuple(sorted((part for part in found if part and part not in staying), key=lambda part: (-len(part), part)))[
        :MOST_PARTS
    ]


def says(text: str, original: str) -> bool:
    """Whether a text says what a message of Slack says now, but for how it names people."""
    return all(unescape(line).strip() in text for line in _TOKEN.sub("\n", original).split("\n"))


def without(text: str, parts: Iterable[str]) -> str:
    """A text with a tombstone in place of each part."""
    for part in parts:
        text = text.replace(part, TOMBSTONE)
    return text


def _parts(text: str) -> Iterator[str]:
    yield from (text, readable(text, {}))
    for token in _TOKEN.findall(text):
        target, _, label = token.partition("|")
        if target[:1] not in ("@", "#", "!"):
            yield from (target, label)
    for line in _TOKEN.sub("\n", text).split("\n"):
        yield from (line, unescape(line))
        for clause in _CLAUSE_END.split(unescape(line)):
            if len(clause) >= SHORTEST_ANYWHERE:
                yield from (clause, escape(clause))
