"""The blocks of a message as text in Slack's stored form: ``<@U…>``, ``<https://…|label>``, ``&amp;``.

Every kind of block is read. For an unknown kind, Slack's newer ones among them, all text objects are read in their
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import count
from typing import Final

from swarm.slack.incoming.fields import JsonObject, count_at, is_object, object_at, objects_at, text_at

_DEEPEST: Final = 8  # Slack nests four levels; a made-up payload must not exhaust the stack
_LATEST_SECONDS: Final = 32_503_680_000  # the year 3000

_SILENT: Final = frozenset({"divider", "file", "context_actions"})
"""Blocks without words: the file of a `file` block is among the message's files; `context_actions` ask for feedback."""

_TEXT_OBJECTS: Final = frozenset({"plain_text", "mrkdwn", "raw_text"})
_WORDS: Final = frozenset({"title", "alt_text", "caption", "author_name", "provider_name"})
"""Fields of blocks with words without a text object around them."""

_ASIDE: Final = frozenset({"confirm", "placeholder", "options", "option_groups", "column_settings"})
"""Fields whose text objects are hidden until a click."""


def block_pieces(holder: JsonObject, key: str = "blocks") -> list[str]:
    """The text of the blocks under ``key``: a string for each part that stands by itself, blank ones left out."""
    return _spoken(piece for block in objects_at(holder, key) for piece in _block(block))


def label(kind: str, words: str, url: str = "") -> str:
    """A label for a part without text: ``[button: Approve] <https://…>``; empty without words."""
    return _with_link(f"[{kind}: {words}]", url) if words.strip() else ""


def titled(title: str, url: str) -> str:
    """A title and the link below it; the link alone without a title."""
    return _with_link(title, url) if url else title


def moment(seconds: str | float | None) -> str:
    """A time of Slack's, in seconds since 1970, as ``2026-11-22 18:30 UTC``; empty for an invalid time."""
    try:
        at = float(seconds or 0)
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC") if 0 < at < _LATEST_SECONDS else ""
    except ValueError:
        return ""


def _with_link(words: str, url: str) -> str:
    is_plain = url and not set(url) & set(" <>|\n")
    return f"{words} <{url}>".strip() if is_plain else words


def _spoken(pieces: Iterable[str]) -> list[str]:
    return [piece for piece in pieces if piece.strip()]


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(_spoken(parts))


def _block(block: JsonObject) -> list[str]:
    kind = text_at(block, "type")
    if kind in _SILENT:
        return []
    return _BLOCKS[kind](block) if kind in _BLOCKS else _any_text(block, _DEEPEST)


def _text(holder: JsonObject, key: str = "text") -> str:
    """The text of a text object."""
    return text_at(object_at(holder, key), "text")


def _section(block: JsonObject) -> list[str]:
    fields = (text_at(field, "text") for field in objects_at(block, "fields"))
    return [_text(block), *fields, _element(object_at(block, "accessory"))]


def _image(block: JsonObject) -> str:
    title, described = _text(block, "title"), text_at(block, "alt_text")
    return label("image", title if described in title else " – ".join(filter(None, (title, described))))


def _element(element: JsonObject) -> str:
    """An element of a context, of actions or beside a section: a text, an image, a button, a menu."""
    kind = text_at(element, "type")
    if kind in _TEXT_OBJECTS:
        return text_at(element, "text")
    if kind == "image":
        return _image(element)
    if kind.endswith("button"):
        return label("button", _text(element), text_at(element, "url"))
    options = ", ".join(_spoken(map(_text, objects_at(element, "options"))))
    options = _text(object_at(element, "initial_option")) or options  # the visible option
    return label("choice", ": ".join(filter(None, (_text(element, "placeholder"), options))))


def _elements(block: JsonObject) -> list[str]:
    return [_element(element) for element in objects_at(block, "elements")]


def _video(block: JsonObject) -> list[str]:
    url = text_at(block, "title_url") or text_at(block, "video_url")
    return [label("video", _text(block, "title") or text_at(block, "alt_text"), url), _text(block, "description")]


def _table(block: JsonObject) -> list[str]:
    """One row a line, its cells divided by bars."""
    given = block.get("rows")
    rows = [row for row in given if isinstance(row, list)] if isinstance(given, list) else []
    return [text_at(block, "caption"), _lines(" | ".join(map(_cell, filter(is_object, row))) for row in rows)]


def _cell(cell: JsonObject) -> str:
    value = cell.get("value")
    words = text_at(cell, "text") or (str(value) if isinstance(value, int | float) else _lines(_rich_text(cell)))
    return words.replace("\n", " ")


def _any_text(value: object, depth: int) -> list[str]:
    """All text objects and words in a block, in their order."""
    if depth == 0:
        return []
    if isinstance(value, list):
        return [piece for element in value for piece in _any_text(element, depth - 1)]
    if not is_object(value):
        return []
    if text_at(value, "type") in _TEXT_OBJECTS:
        return [text_at(value, "text")]
    if text_at(value, "type") == "rich_text":
        return _rich_text(value)
    if text_at(value, "type").endswith("button"):
        return [_element(value)]
    inner = {key: field for key, field in value.items() if key not in _ASIDE}
    return [
        piece
        for key, field in inner.items()
        for piece in (
            [text_at(value, key)] if key in _WORDS and isinstance(field, str) else _any_text(field, depth - 1)
        )
    ]


def _rich_text(block: JsonObject) -> list[str]:
    return [_rich(element, _DEEPEST) for element in objects_at(block, "elements")]


def _rich(element: JsonObject, depth: int) -> str:
    """An element of rich text: a leaf has text of its own, a list is read line by line, the rest in one line."""
    kind = text_at(element, "type")
    if kind in _LEAVES:
        return _LEAVES[kind](element)
    if depth == 0:
        return ""
    parts = [_rich(child, depth - 1) for child in objects_at(element, "elements")]
    match kind:
        case "rich_text_list":
            return _list(element, parts)
        case "rich_text_quote":
            return "\n".join(f"&gt; {line}" for line in "".join(parts).splitlines())
        case "rich_text_preformatted":
            return f"```\n{''.join(parts)}\n```" if parts else ""
        case _:
            return "".join(parts)


def _list(element: JsonObject, items: list[str]) -> str:
    indent = "    " * min(count_at(element, "indent") or 0, _DEEPEST)
    numbers = count((count_at(element, "offset") or 0) + 1)
    is_ordered = text_at(element, "style") == "ordered"
    return "\n".join(f"{indent}{f'{next(numbers)}.' if is_ordered else '•'} {item}" for item in _spoken(items))


def _link(element: JsonObject) -> str:
    url, words = text_at(element, "url"), _escaped(text_at(element, "text"))
    return f"<{url}|{words}>" if words else f"<{url}>"


def _leaf_text(element: JsonObject) -> str:
    """Text, with the styles that change its meaning."""
    words, style = _escaped(text_at(element, "text")), object_at(element, "style")
    if not words.strip():
        return words
    if style.get("code") is True:
        return f"`{words}`"
    return f"~{words}~" if style.get("strike") is True else words


def _date(element: JsonObject) -> str:
    return text_at(element, "fallback") or moment(count_at(element, "timestamp"))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_BLOCKS: Final[dict[str, Callable[[JsonObject], list[str]]]] = {
    "actions": _elements,
    "context": _elements,
    "data_table": _table,
    "header": lambda block: [_text(block)],
    "image": lambda block: [_image(block)],
    "input": lambda block: [_text(block, "label")],
    "markdown": lambda block: [text_at(block, "text")],
    "rich_text": _rich_text,
    "section": _section,
    "table": _table,
    "video": _video,
}

_LEAVES: Final[dict[str, Callable[[JsonObject], str]]] = {
    "broadcast": lambda element: f"<!{text_at(element, 'range')}>",
    "channel": lambda element: f"<#{text_at(element, 'channel_id')}>",
    "color": lambda element: text_at(element, "value"),
    "date": _date,
    "emoji": lambda element: f":{text_at(element, 'name')}:",
    "link": _link,
    "text": _leaf_text,
    "user": lambda element: f"<@{text_at(element, 'user_id')}>",
    "usergroup": lambda element: f"<!subteam^{text_at(element, 'usergroup_id')}>",
}
