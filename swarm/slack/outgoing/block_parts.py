"""Parts of blocks for texts that others wrote: they are shown as they are, and never act as markup or mentions.

``plain_text`` and ``rich_text`` have no markup. Where Slack offers only ``mrkdwn``, `word` makes a text harmless.
https://docs.slack.dev/reference/block-kit/composition-objects/text-object
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from swarm.clock import SECOND, from_iso
from swarm.domain.model.requests import OPERATOR
from swarm.domain.requests.shown import Reader
from swarm.domain.text.slack_text import inert
from swarm_base.characters import strip_invisible
from swarm_base.secrets import without_secrets

Block = dict[str, Any]

MAX_SECTION_CHARACTERS: Final = 3_000

_FORMATTING: Final = re.compile(r"[*~`]|_+(?!\w)")
"""Underscores within names stay: they format only between the beginning of a word and the end of one."""

_USER: Final = re.compile(r"[UW][A-Z0-9]{1,30}")
_IN_UTC: Final = re.compile(r"(?<!\|)\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC")
_GROUP: Final = re.compile(r"S[A-Z0-9]{1,30}")


def cut(text: str, limit: int) -> str:
    """Returns the beginning of a text, marked with "…" if it is longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def visible(text: str) -> str:
    """Returns a text without invisible characters and secrets."""
    return without_secrets(strip_invisible(text))


def plain(text: str, limit: int) -> Block:
    """Returns a ``plain_text`` object. Slack refuses an empty one."""
    return {"type": "plain_text", "text": cut(visible(text).strip() or "…", limit)}


def word(text: str, limit: int = 150) -> str:
    """Returns somebody else's text as one line of mrkdwn without formatting, links and mentions."""
    return inert(_FORMATTING.sub("", cut(" ".join(visible(text).split()), limit)))


def person(person_id: str) -> str:
    """Returns a person as mrkdwn."""
    if person_id == OPERATOR:
        return "the operator"
    return f"<@{person_id}>" if _USER.fullmatch(person_id) else word(person_id)


def group(group_id: str) -> str:
    """Returns a user group as mrkdwn."""
    return f"<!subteam^{group_id}>" if _GROUP.fullmatch(group_id) else word(group_id)


def date(at_us: int) -> str:
    """Returns a time as mrkdwn, which Slack shows in each reader's time zone."""
    seconds = at_us // SECOND
    fallback = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{seconds}^{{date_short_pretty}} {{time}}|{fallback}>"


def with_dates(text: str) -> str:
    """Returns mrkdwn whose times in UTC, such as "2026-09-21 14:14 UTC", Slack shows in each reader's time zone."""
    for moment in {*_IN_UTC.findall(text)}:
        with suppress(ValueError):  # no such day: somebody else's text
            text = text.replace(f"{moment} UTC", date(from_iso(moment)))
    return text


def redacted(name: str, text: str) -> str:
    """Returns a named value without secrets, with what cannot be seen named; the name tells whether it is a secret."""
    return Reader().text(text, name, is_line=True)


def section(text: str) -> Block:
    """Returns a section of mrkdwn."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def context(*texts: str) -> Block:
    """Returns small lines of mrkdwn."""
    elements = [{"type": "mrkdwn", "text": text, "verbatim": True} for text in texts if text]
    return {"type": "context", "elements": elements}


def actions(*elements: Block, block_id: str = "") -> Block:
    """Returns a row of buttons."""
    return {"type": "actions", "elements": list(elements)} | ({"block_id": block_id} if block_id else {})


def button(action_id: str, label: str, value: str, *, style: str | None = None, confirm: Block | None = None) -> Block:
    """Returns a button."""
    made: Block = {"type": "button", "action_id": action_id, "text": plain(label, 75), "value": value}
    more = {"style": style, "confirm": confirm}
    return made | {name: part for name, part in more.items() if part}


def rich(*parts: Block) -> Block:
    """Returns a ``rich_text`` block."""
    return {"type": "rich_text", "elements": list(parts)}


def line(*runs: tuple[str, str]) -> Block:
    """Returns a paragraph of ``rich_text`` from texts and their styles: "bold", "italic", "code", or none."""
    elements = [{"type": "text", "text": text} | ({"style": {style: True}} if style else {}) for text, style in runs]
    return {"type": "rich_text_section", "elements": elements}


def quote(text: str) -> Block:
    """Returns quoted ``rich_text``."""
    return {"type": "rich_text_quote", "elements": [{"type": "text", "text": text or " "}]}


def preformatted(text: str) -> Block:
    """Returns preformatted ``rich_text``."""
    return {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text or " "}]}
