"""Fences: external text in a prompt, made unable to close its fence or to imitate the prompt's own lines.

Why content cannot leave its fence: all external text is escaped, so ``<`` and ``>`` appear only in fence lines.
Invisible characters and unusual line breaks are removed. Names are quoted, with escaped inner quotes, and stay on one
line. Lines of the history begin with a bar. The marker, which is new for each prompt, is a second barrier: the author
of a forged fence line cannot know it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from swarm.domain.text.slack_text import escape
from swarm_base.characters import for_model

_MARKER: Final = re.compile(r"[A-Za-z0-9]{8,64}")
_TS: Final = re.compile(r"(?P<seconds>[0-9]{1,11})(?:\.[0-9]+)?", re.ASCII)
_NOT_IN_IDS: Final = re.compile(r"[^\w.:-]")
_NOT_IN_LINKS: Final = re.compile(r"[\s<>\"]")


def check_marker(marker: str) -> str:
    """Returns the marker. Raises ValueError for a guessable or malformed marker."""
    if not _MARKER.fullmatch(marker):
        raise ValueError("the marker of a prompt must be 8 to 64 ASCII letters and digits")
    return marker


def fenced(name: str, body: str, marker: str) -> str:
    """Returns a body of escaped lines between two fence lines with the marker."""
    return f'<{name} marker="{marker}">\n{body}\n</{name} marker="{marker}">'


def harmless(text: str) -> str:
    """Returns text of any length, with its line breaks, escaped for a fence."""
    return escape(for_model(text))


def barred(text: str) -> list[str]:
    """Returns the lines of a text, each after a bar, so that no line imitates the prompt's own lines; empty without
    text.
    """
    return [f"| {line}" for line in harmless(text).split("\n")] if text else []


def said_by(author: str, text: str) -> str:
    """Returns one speaker's text in a conversation. Later lines begin with a bar, so that no line imitates a
    speaker.
    """
    return "\n| ".join(f"{' '.join(for_model(author).split())}: {for_model(text)}".split("\n"))


def one_line(text: str) -> str:
    """Returns text on one line."""
    return " ".join(harmless(text).split())


def quoted(name: str) -> str:
    """Returns a quoted name or title that cannot close its quotes."""
    return '"' + one_line(name).replace('"', "&quot;") + '"'


def plain_id(value: str) -> str:
    """Returns an id without characters that could be mistaken for surrounding words."""
    return _NOT_IN_IDS.sub("", value)


def plain_link(url: str) -> str:
    """Returns an address without characters that could end it early."""
    return _NOT_IN_LINKS.sub("", for_model(url))


@lru_cache(maxsize=8192)  # each claim in a long thread shows all its times again
def moment(ts: str) -> str:
    """Returns a Slack timestamp as a readable time in UTC."""
    found = _TS.fullmatch(ts)
    if found is None:
        return "at an unknown time"
    return f"{datetime.fromtimestamp(int(found['seconds']), UTC):%Y-%m-%d %H:%M:%S} UTC"
