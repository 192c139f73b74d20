"""What a message says that has no text of its own: read out of its blocks, or else its attachments.

Bots and workflows post such messages. The result is text as Slack stores it: ``<@U…>``, ``<https://…|label>``,
``&amp;``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from swarm.slack.fields import JsonObject, object_at, objects_at, text_at

_DEEPEST: Final = 8  # Slack nests four levels; a made-up payload must not exhaust the stack


def block_text(message: JsonObject) -> str:
    """The readable text of a message's blocks; failing that, of its attachments. Empty if there is none."""
    return _blocks(message) or _lines(_attachment(attachment) for attachment in objects_at(message, "attachments"))


def _blocks(holder: JsonObject) -> str:
    return _lines(_block(block) for block in objects_at(holder, "blocks"))


def _block(block: JsonObject) -> str:
    kind = text_at(block, "type")
    return _BLOCKS[kind](block) if kind in _BLOCKS else ""


def _section(block: JsonObject) -> str:
    fields = (text_at(field, "text") for field in objects_at(block, "fields"))
    return _lines([text_at(object_at(block, "text"), "text"), *fields])


def _rich_text(block: JsonObject) -> str:
    return _lines(_rich(element, _DEEPEST) for element in objects_at(block, "elements"))


def _rich(element: JsonObject, depth: int) -> str:
    """An element of rich text: a leaf says something itself, a list is read line by line, the rest in one line."""
    kind = text_at(element, "type")
    if kind in _LEAVES:
        return _LEAVES[kind](element)
    if depth == 0:
        return ""
    parts = (_rich(child, depth - 1) for child in objects_at(element, "elements"))
    return _lines(parts) if kind == "rich_text_list" else "".join(parts)


def _link(element: JsonObject) -> str:
    url, label = text_at(element, "url"), _escaped(text_at(element, "text"))
    return f"<{url}|{label}>" if label else f"<{url}>"


def _attachment(attachment: JsonObject) -> str:
    told = _lines(text_at(attachment, key) for key in ("pretext", "title", "text"))
    return told or _blocks(attachment) or text_at(attachment, "fallback")


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part.strip())


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_BLOCKS: Final[dict[str, Callable[[JsonObject], str]]] = {
    "context": lambda block: _lines(text_at(element, "text") for element in objects_at(block, "elements")),
    "header": lambda block: text_at(object_at(block, "text"), "text"),
    "image": lambda block: text_at(block, "alt_text"),
    "markdown": lambda block: text_at(block, "text"),
    "rich_text": _rich_text,
    "section": _section,
}

_LEAVES: Final[dict[str, Callable[[JsonObject], str]]] = {
    "broadcast": lambda element: f"<!{text_at(element, 'range')}>",
    "channel": lambda element: f"<#{text_at(element, 'channel_id')}>",
    "emoji": lambda element: f":{text_at(element, 'name')}:",
    "link": _link,
    "text": lambda element: _escaped(text_at(element, "text")),
    "user": lambda element: f"<@{text_at(element, 'user_id')}>",
    "usergroup": lambda element: f"<!subteam^{text_at(element, 'usergroup_id')}>",
}
