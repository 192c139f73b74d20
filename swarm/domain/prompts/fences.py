"""What makes foreign text harmless: fences that it cannot close, names it cannot leave, lines it cannot break.

Why content cannot leave its fence: ``<`` and ``>`` appear in fence lines and nowhere else, since everything that
comes from outside is escaped; invisible characters and odd line breaks are gone; names are quoted, with quotes in
them escaped, and stay on their line; lines of the history begin with a bar. The marker, new for each prompt, is a
second lock: somebody who writes a fence line that only looks right cannot know it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from swarm.domain.text.characters import for_model
from swarm.domain.text.mrkdwn import escape

_MARKER: Final = re.compile(r"[A-Za-z0-9]{8,64}")
_TS: Final = re.compile(r"(?P<seconds>[0-9]{1,11})(?:\.[0-9]+)?", re.ASCII)
_NOT_IN_IDS: Final = re.compile(r"[^\w.:-]")
_NOT_IN_LINKS: Final = re.compile(r"[\s<>\"]")


def check_marker(marker: str) -> str:
    """The marker itself, if nobody can guess it or read it otherwise; raises ValueError."""
    if not _MARKER.fullmatch(marker):
        raise ValueError("the marker of a prompt must be 8 to 64 ASCII letters and digits")
    return marker


def fenced(name: str, body: str, marker: str) -> str:
    """A body of harmless lines between two lines that only this prompt can have."""
    return f'<{name} marker="{marker}">\n{body}\n</{name} marker="{marker}">'


def harmless(text: str) -> str:
    """Text of any length, with its line breaks, as it may stand in a fence."""
    return escape(for_model(text))


def barred(text: str) -> list[str]:
    """The lines of a text, each behind a bar, so that none can be taken for a line of ours; of no text, none."""
    return [f"| {line}" for line in harmless(text).split("\n")] if text else []


def said_by(author: str, text: str) -> str:
    """What one of several says in a conversation: lines after the first stand behind a bar, so none names another."""
    return "\n| ".join(f"{' '.join(for_model(author).split())}: {for_model(text)}".split("\n"))


def one_line(text: str) -> str:
    """Text on one line, whatever breaks it had."""
    return " ".join(harmless(text).split())


def quoted(name: str) -> str:
    """A name or a title between quotes that it cannot close."""
    return '"' + one_line(name).replace('"', "&quot;") + '"'


def plain_id(value: str) -> str:
    """An id, with nothing in it that could be taken for words around it."""
    return _NOT_IN_IDS.sub("", value)


def plain_link(url: str) -> str:
    """An address that ends where it seems to end."""
    return _NOT_IN_LINKS.sub("", for_model(url))


@lru_cache(maxsize=8192)  # each claim in a long thread shows all its moments again
def moment(ts: str) -> str:
    """A Slack timestamp as a person reads it, in UTC."""
    found = _TS.fullmatch(ts)
    if found is None:
        return "at an unknown time"
    return f"{datetime.fromtimestamp(int(found['seconds']), UTC):%Y-%m-%d %H:%M:%S} UTC"
