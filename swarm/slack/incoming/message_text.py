"""Extracts the readable text of a message from its text, blocks and attachments, without duplicates.

The result is in Slack's stored form, which contains ``<@U…>``, ``<https://…|label>`` and ``&amp;``. Every kind of block
is read. In a block of an unknown kind, for example one that Slack has just introduced, all text objects are read in
order.

In people's messages, the text and the blocks have the same content. Bots put a fallback for notifications into ``text``
and the content into blocks and attachments, in any mixture. The content of a bot's blocks and attachments is therefore
added unless the text already contains it, and a text that only repeats their beginning or a part of them is left out.

A forwarded message is also an attachment. Its author is a different person, so it is marked as a quotation, and its
mentions address nobody. Link previews are left out: they contain the text of a web page, arrive later than the message,
and the message already contains the link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Final

from swarm.domain.model.threads import AuthorKind
from swarm.domain.text.slack_text import escape
from swarm.slack.incoming.fields import JsonObject, count_at, is_object, object_at, objects_at, text_at

_DEEPEST: Final = 8  # Slack nests four levels; a malicious payload must not exhaust the stack
_LATEST_SECONDS: Final = 32_503_680_000  # the year 3000

_SILENT: Final = frozenset({"divider", "file", "context_actions"})
"""Blocks without text: the file of a `file` block is one of the message's files; `context_actions` ask for feedback."""

_TEXT_OBJECTS: Final = frozenset({"plain_text", "mrkdwn", "raw_text"})
_WORDS: Final = frozenset({"title", "alt_text", "caption", "author_name", "provider_name"})
"""Fields of blocks that contain text directly, without a text object."""

_ASIDE: Final = frozenset({"confirm", "placeholder", "options", "option_groups", "column_settings"})
"""Fields whose text objects are hidden until the user clicks."""


def _block_pieces(holder: JsonObject) -> list[str]:
    """Returns the text of the blocks: a string for each separate part. Blank parts are left out."""
    return _spoken(piece for block in objects_at(holder, "blocks") for piece in _block(block))


def _label(kind: str, words: str, url: str = "") -> str:
    """Returns a label for a part without text: ``[button: Approve] <https://…>``; empty without words."""
    return _with_link(f"[{kind}: {words}]", url) if words.strip() else ""


def _titled(title: str, url: str) -> str:
    """Returns a title and the link below it; only the link if there is no title."""
    return _with_link(title, url) if url else title


def _moment(seconds: str | float | None) -> str:
    """Returns a Slack time, in seconds since 1970, as ``2026-11-22 18:30 UTC``; empty for an invalid time."""
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
    return text_at(object_at(holder, key), "text")


def _section(block: JsonObject) -> list[str]:
    fields = (text_at(field, "text") for field in objects_at(block, "fields"))
    return [_text(block), *fields, _element(object_at(block, "accessory"))]


def _image(block: JsonObject) -> str:
    title, described = _text(block, "title"), text_at(block, "alt_text")
    return _label("image", title if described in title else " – ".join(filter(None, (title, described))))


def _element(element: JsonObject) -> str:
    """Returns the text of an element in a context, in actions or next to a section: a text, an image, a button or a
    menu.
    """
    kind = text_at(element, "type")
    if kind in _TEXT_OBJECTS:
        return text_at(element, "text")
    if kind == "image":
        return _image(element)
    if kind.endswith("button"):
        return _label("button", _text(element), text_at(element, "url"))
    options = ", ".join(_spoken(map(_text, objects_at(element, "options"))))
    options = _text(object_at(element, "initial_option")) or options  # the visible option
    return _label("choice", ": ".join(filter(None, (_text(element, "placeholder"), options))))


def _elements(block: JsonObject) -> list[str]:
    return [_element(element) for element in objects_at(block, "elements")]


def _video(block: JsonObject) -> list[str]:
    url = text_at(block, "title_url") or text_at(block, "video_url")
    return [_label("video", _text(block, "title") or text_at(block, "alt_text"), url), _text(block, "description")]


def _table(block: JsonObject) -> list[str]:
    """Returns one line per row, with cells separated by bars."""
    given = block.get("rows")
    rows = [row for row in given if isinstance(row, list)] if isinstance(given, list) else []
    return [text_at(block, "caption"), _lines(" | ".join(map(_cell, filter(is_object, row))) for row in rows)]


def _cell(cell: JsonObject) -> str:
    value = cell.get("value")
    words = text_at(cell, "text") or (str(value) if isinstance(value, int | float) else _lines(_rich_text(cell)))
    return words.replace("\n", " ")


def _any_text(value: object, depth: int) -> list[str]:
    """Returns all text objects and words in a block, in order."""
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
    """Returns the text of a rich text element: a leaf has its own text, a list is read line by line, and the rest forms
    one line.
    """
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
    url, words = text_at(element, "url"), escape(text_at(element, "text"))
    return f"<{url}|{words}>" if words else f"<{url}>"


def _leaf_text(element: JsonObject) -> str:
    """Returns the text, with the styles that change its meaning."""
    words, style = escape(text_at(element, "text")), object_at(element, "style")
    if not words.strip():
        return words
    if style.get("code") is True:
        return f"`{words}`"
    return f"~{words}~" if style.get("strike") is True else words


def _date(element: JsonObject) -> str:
    return text_at(element, "fallback") or _moment(count_at(element, "timestamp"))


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


MAX_ADDED_CHARACTERS: Final = 40_000
"""The maximum number of characters that blocks and attachments add to a text: Slack's limit for a text."""

_MOST_ATTACHMENTS: Final = 200  # Slack accepts a hundred
_NO_PREVIEW: Final = "[no preview available]"
_MOST_PIECES: Final = 500  # fifty blocks and a hundred attachments have fewer
_MARKUP = re.compile(r"[*_~`•\s]|&gt;|\[(?:image|button|choice|video|file): |\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class _MessageText:
    """The text of a message. ``quoted`` is the forwarded part at the end of ``text``; it may be empty."""

    text: str
    quoted: str = ""


def message_words(message: JsonObject, kind: AuthorKind) -> _MessageText:
    """Returns the text of a message object. For Swarm's own posts only ``text`` counts, because their blocks add
    buttons and footers.
    """
    text = text_at(message, "text")
    if kind is AuthorKind.AGENT and text.strip():
        return _MessageText(text=text)
    attachments = objects_at(message, "attachments")[:_MOST_ATTACHMENTS]
    pieces = [] if kind is AuthorKind.USER and text.strip() else _block_pieces(message)
    pieces += [piece for one in attachments if not _is_others(one) for piece in _attachment(one)]
    own = _joined(text, pieces)
    forwarded = [one for one in attachments if _is_others(one) and (one.get("is_share") is True or not own.strip())]
    quoted = _bounded([_quotation(one) for one in forwarded])
    return _MessageText(text="\n".join(filter(None, (own, quoted))), quoted=quoted)


def _is_others(attachment: JsonObject) -> bool:
    """Returns whether the attachment shows content by others: a forwarded message or a link preview."""
    return attachment.get("is_share") is True or bool(
        text_at(attachment, "from_url") or text_at(attachment, "original_url")
    )


def _joined(text: str, pieces: list[str]) -> str:
    """Returns the text followed by missing pieces, or only the pieces if they contain the text."""
    below = _bounded(pieces)
    if not text.strip() or not below:
        return text if text.strip() else below
    said = _bare(text[:MAX_ADDED_CHARACTERS])
    if text.rstrip().endswith(("…", "...")):
        said = said[: said.rstrip().rfind(" ") + 1]  # the last word may be cut off
    if said in _bare(below):
        return below
    new = _bounded([piece for piece in pieces[:_MOST_PIECES] if _bare(piece) not in said])
    return "\n".join(filter(None, (text, new)))


def _bare(text: str) -> str:
    """Returns only the words, separated by spaces, without markup and punctuation, to compare texts word by word."""
    words = (word.strip(".,:;!?…") for word in _MARKUP.sub(" ", text).split())
    return f" {' '.join(filter(None, words))} ".casefold()


def _bounded(pieces: list[str]) -> str:
    text = "\n".join(piece for piece in pieces if piece.strip())
    if len(text) <= MAX_ADDED_CHARACTERS:
        return text
    left_out = len(text) - MAX_ADDED_CHARACTERS
    return f"{text[:MAX_ADDED_CHARACTERS]}…\n[{left_out} more characters of blocks and attachments are left out]"


def _attachment(attachment: JsonObject) -> list[str]:
    """Returns the texts of an attachment.

    https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
    """
    fields = (
        ": ".join(filter(None, (text_at(field, "title"), text_at(field, "value"))))
        for field in objects_at(attachment, "fields")
    )
    author = text_at(attachment, "author_name")
    told = [
        text_at(attachment, "pretext"),
        _with_link(author, text_at(attachment, "author_link")) if author else "",
        _titled(text_at(attachment, "title"), text_at(attachment, "title_link")),
        text_at(attachment, "text"),
        *fields,
        *_block_pieces(attachment),
    ]
    if not any(piece.strip() for piece in told):
        told = [fallback for fallback in (text_at(attachment, "fallback"),) if fallback != _NO_PREVIEW]
    buttons = (
        _label(
            "button" if text_at(action, "type") == "button" else "choice",
            text_at(action, "text"),
            text_at(action, "url"),
        )
        for action in objects_at(attachment, "actions")
    )
    footer = text_at(attachment, "footer")
    file = _label("file", text_at(attachment, "filename"))
    image = _label("image", text_at(attachment, "image_url") or text_at(attachment, "thumb_url"))
    pieces = [*told, file, image, *buttons]
    if not any(piece.strip() for piece in (*pieces, footer)):
        return []
    return [*pieces, " · ".join(filter(None, (footer, _time(attachment))))]


def _time(attachment: JsonObject) -> str:
    """Returns the time of an attachment, given as a number or a timestamp."""
    ts = attachment.get("ts")
    return _moment(ts) if isinstance(ts, str | int | float) and not isinstance(ts, bool) else ""


def _quotation(attachment: JsonObject) -> str:
    """Returns a forwarded message with its author and time. Each line has Slack's quotation mark."""
    origin = ", ".join(filter(None, (text_at(attachment, "author_name"), _time(attachment))))
    head = _titled(f"[forwarded: {origin}]" if origin else "[forwarded]", text_at(attachment, "from_url"))
    body = text_at(attachment, "text")
    if not body.strip():
        inner = [object_at(holder, "message") for holder in objects_at(attachment, "message_blocks")]
        body = "\n".join(piece for message in inner for piece in _block_pieces(message))
    body = body if body.strip() else text_at(attachment, "fallback")
    files = [_label("file", text_at(file, "name")) for file in objects_at(attachment, "files")]
    lines = [*body.splitlines(), *filter(None, files)]
    return "\n".join([head, *(f"&gt; {line}" for line in lines)])
