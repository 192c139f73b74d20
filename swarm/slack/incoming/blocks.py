"""Reads the text of Slack's blocks, in Slack's stored form: ``<@U…>``, ``<https://…|label>``, ``&amp;``.

Every kind of block that Slack documents is read. A block of another kind, for example one that Slack has just
introduced, is named by its kind and read as far as it holds text. https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from swarm.domain.text.slack_text import escape, unescape
from swarm.slack.incoming.fields import JsonObject, count_at, is_object, object_at, objects_at, text_at

_DEEPEST: Final = 8  # Slack nests four levels; a malicious payload must not exhaust the stack
_LATEST_SECONDS: Final = 32_503_680_000  # the year 3000

_SILENT: Final = frozenset({"divider", "file", "context_actions"})
"""Blocks without text: the file of a `file` block is one of the message's files; `context_actions` ask for feedback."""

_HOLDERS: Final = frozenset({"alert", "card", "carousel", "container", "plan", "task_card"})
"""Blocks of which all texts are read, in order."""

_TEXT_OBJECTS: Final = frozenset({"plain_text", "mrkdwn", "raw_text"})
_WORDS: Final = re.compile(
    "title|subtitle|text|label|body|description|content|caption|alt_text|author_name|provider_name"
)
"""Fields of blocks that contain text directly, without a text object."""

_ASIDE: Final = frozenset({"confirm", "placeholder", "options", "option_groups", "column_settings"})
"""Fields whose text objects are hidden until the user clicks."""

_MARKS: Final = (("bold", "*"), ("italic", "_"), ("strike", "~"), ("code", "`"))
_FENCE: Final = re.compile("`{3,}")
_BAR: Final = re.compile(r"\|(?![^<>]*>)")  # outside links and mentions


def block_pieces(holder: JsonObject) -> list[str]:
    """Returns the text of the blocks: a string for each separate part. Blank parts are left out."""
    return spoken(piece for block in objects_at(holder, "blocks") for piece in _block(block))


def label(kind: str, words: str, url: str = "") -> str:
    """Returns a label for a part without text: ``[button: Approve] <https://…>``; empty without words."""
    return with_link(f"[{kind}: {words}]", url) if words.strip() else ""


def moment(seconds: str | float | None) -> str:
    """Returns a Slack time, in seconds since 1970, as ``2026-11-22 18:30 UTC``; empty for an invalid time."""
    try:
        at = float(seconds or 0)
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC") if 0 < at < _LATEST_SECONDS else ""
    except ValueError:
        return ""


def with_link(words: str, url: str) -> str:
    """Returns words followed by an address, which is left out if it would break Slack's format."""
    is_plain = url and not set(url) & set(" <>|\n")
    return f"{words} <{url}>".strip() if is_plain else words


def spoken(pieces: Iterable[str]) -> list[str]:
    """Returns the pieces that are not blank."""
    return [piece for piece in pieces if piece.strip()]


def one_line(text: str) -> str:
    """Returns a name or title on one line, without Slack's format."""
    return escape(" ".join(unescape(text).split()))


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(spoken(parts))


def _block(block: JsonObject) -> list[str]:
    kind = text_at(block, "type")
    if kind in _SILENT:
        return []
    if kind in _READERS:
        return _READERS[kind](block)
    name = f"[a block of type {one_line(kind)} that this version cannot read]"
    return [name if kind and kind not in _HOLDERS else "", *_any_text({**block, "type": ""}, _DEEPEST)]


def _text(holder: JsonObject, key: str = "text") -> str:
    return _words(object_at(holder, key))


def _words(text: JsonObject) -> str:
    """Returns the text of a text object. The text of a table's cell is in no format."""
    words = text_at(text, "text")
    return escape(unescape(words)) if text_at(text, "type") == "raw_text" else words


def _section(block: JsonObject) -> list[str]:
    return [_text(block), *map(_words, objects_at(block, "fields")), _element(object_at(block, "accessory"))]


def _image(block: JsonObject) -> str:
    title, described = _text(block, "title"), text_at(block, "alt_text")
    shown = title if described in title else " – ".join(filter(None, (title, described)))
    url = text_at(block, "image_url") or text_at(object_at(block, "slack_file"), "url")
    return label("image", shown, url) or label("image", url)


def _element(element: JsonObject) -> str:
    """Returns the text of an element in a context, in actions or next to a section: a text, an image, a button or a
    menu.
    """
    kind = text_at(element, "type")
    if kind in _TEXT_OBJECTS:
        return _words(element)
    if kind == "image":
        return _image(element)
    if kind.endswith("button"):
        return label("button", _text(element), text_at(element, "url"))
    options = ", ".join(spoken(map(_text, objects_at(element, "options"))))
    options = _text(object_at(element, "initial_option")) or options  # the visible option
    return label("choice", ": ".join(filter(None, (_text(element, "placeholder"), options))))


def _elements(block: JsonObject) -> list[str]:
    return [_element(element) for element in objects_at(block, "elements")]


def _video(block: JsonObject) -> list[str]:
    url = text_at(block, "title_url") or text_at(block, "video_url")
    return [label("video", _text(block, "title") or text_at(block, "alt_text"), url), _text(block, "description")]


def _table(block: JsonObject) -> list[str]:
    """Returns one line per row, with cells separated by bars."""
    given = block.get("rows")
    rows = [row.get("cells") if is_object(row) else row for row in given] if isinstance(given, list) else []
    cells = (map(_cell, row) for row in rows if isinstance(row, list))
    return [text_at(block, "caption"), _lines(" | ".join(row) for row in cells)]


def _cell(cell: object) -> str:
    if not is_object(cell):
        return ""
    value = cell.get("value")
    if "elements" in cell:
        words = _lines(_rich_text(cell))
    elif text_at(cell, "type") in _TEXT_OBJECTS or text_at(cell, "type").endswith("button"):
        words = _element(cell)
    else:
        words = str(value) if isinstance(value, int | float) else _rich(cell, 1)
    return _BAR.sub(r"\\|", words.replace("\n", " "))


def _call(block: JsonObject) -> list[str]:
    call = object_at(object_at(block, "call"), "v1")
    return [label("call", one_line(text_at(call, "name")) or "without title", text_at(call, "join_url"))]


def _chart(block: JsonObject) -> list[str]:
    """Returns the title and the values of a chart: a line for each series."""
    chart = object_at(block, "chart")
    lines = [label("chart", text_at(block, "title"))]
    for series in ({"data": chart.get("segments")}, *objects_at(chart, "series")):
        points = (f"{text_at(point, 'label')} {point.get('value')}" for point in objects_at(series, "data"))
        lines.append(": ".join(filter(None, (text_at(series, "name"), ", ".join(points)))))
    return lines


def _any_text(value: object, depth: int) -> list[str]:
    """Returns all text objects and words in a block, in order."""
    if depth == 0:
        return []
    if isinstance(value, list):
        return [piece for element in value for piece in _any_text(element, depth - 1)]
    if not is_object(value):
        return []
    kind = text_at(value, "type")
    if kind in _READERS:
        return _READERS[kind](value)
    if kind in _TEXT_OBJECTS or kind.endswith("button"):
        return [_element(value)]
    if kind == "url":  # a source of a task
        return [with_link(text_at(value, "text"), text_at(value, "url"))]
    return [
        piece
        for key, field in value.items()
        if key not in _ASIDE
        for piece in (
            [text_at(value, key)] if isinstance(field, str) and _WORDS.fullmatch(key) else _any_text(field, depth - 1)
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
        return _styled(_LEAVES[kind](element), object_at(element, "style"))
    if depth == 0:
        return ""
    if count_at(element, "border"):  # a list or code within a quotation
        return quote_lines(_rich({**element, "border": 0}, depth))
    parts = [_rich(child, depth - 1) for child in objects_at(element, "elements")]
    match kind:
        case "rich_text_list":
            return _list(element, parts)
        case "rich_text_quote":
            return quote_lines("".join(parts))
        case "rich_text_preformatted":
            return _code("".join(parts))
        case _ if "elements" in element:
            return "".join(parts)
        case _:
            return _mentioned(element)


def _mentioned(element: JsonObject) -> str:
    """Returns a rich text element of any other kind: what it is called and leads to, or else its kind."""
    words = text_at(element, "text") or text_at(element, "label") or text_at(element, "title")
    kind, channel = text_at(element, "type"), text_at(element, "channel_id")
    words = escape(words) or f"[{one_line(kind)}{f' in <#{channel}>' if channel else ''}]"
    return with_link(words if kind else "", text_at(element, "url"))


def quote_lines(text: str) -> str:
    """Returns a text with Slack's quotation mark before each of its lines. No text can end such a quotation."""
    return "\n".join(f"&gt; {line}" for line in text.splitlines())


def _code(code: str) -> str:
    """Returns code between fences that it does not contain."""
    fence = "`" * (max(map(len, _FENCE.findall(code)), default=2) + 1)
    return f"{fence}\n{code}\n{fence}" if code else ""


def _list(element: JsonObject, items: list[str]) -> str:
    indent = "    " * min(count_at(element, "indent") or 0, _DEEPEST)
    numbers = enumerate(items, (count_at(element, "offset") or 0) + 1)
    is_ordered = text_at(element, "style") == "ordered"
    return "\n".join(
        f"{indent}{f'{number}.' if is_ordered else '•'} {item}" for number, item in numbers if item.strip()
    )


def _link(element: JsonObject) -> str:
    url, words = escape(text_at(element, "url")), escape(text_at(element, "text"))
    return f"<{url}|{words}>" if words else f"<{url}>"


def _styled(words: str, style: JsonObject) -> str:
    """Returns words with the marks of their styles in Slack's format."""
    core, marks = words.strip(), "".join(mark for name, mark in _MARKS if style.get(name) is True)
    marks = "`" if "`" in marks else marks
    return words.replace(core, f"{marks}{core}{marks[::-1]}", 1) if core and marks else words


def _emoji(element: JsonObject) -> str:
    tone = count_at(element, "skin_tone")
    return f":{text_at(element, 'name')}:" + (f":skin-tone-{tone}:" if tone else "")


def _date(element: JsonObject) -> str:
    return escape(text_at(element, "fallback")) or moment(count_at(element, "timestamp"))


_READERS: Final[dict[str, Callable[[JsonObject], list[str]]]] = {
    "actions": _elements,
    "call": _call,
    "context": _elements,
    "data_table": _table,
    "data_visualization": _chart,
    "header": lambda block: [_text(block)],
    "image": lambda block: [_image(block)],
    "input": lambda block: [_text(block, "label"), _text(block, "hint")],
    "markdown": lambda block: [text_at(block, "text")],
    "rich_text": _rich_text,
    "section": _section,
    "table": _table,
    "video": _video,
}

_LEAVES: Final[dict[str, Callable[[JsonObject], str]]] = {
    "broadcast": lambda element: f"<!{text_at(element, 'range')}>",
    "canvas_user_mention": lambda element: f"<@{text_at(element, 'user_id')}>",
    "channel": lambda element: f"<#{text_at(element, 'channel_id')}>",
    "color": lambda element: text_at(element, "value"),
    "date": _date,
    "emoji": _emoji,
    "link": _link,
    "text": lambda element: escape(text_at(element, "text")),
    "user": lambda element: f"<@{text_at(element, 'user_id')}>",
    "usergroup": lambda element: f"<!subteam^{text_at(element, 'usergroup_id')}>",
}
