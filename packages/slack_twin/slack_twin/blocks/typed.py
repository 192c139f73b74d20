"""What people write, as the two forms that Slack's clients send: mrkdwn in `text`, and a `rich_text` block.

https://docs.slack.dev/reference/block-kit/blocks/rich-text-block: clients add such a block to every message.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from slack_twin.blocks.reading import all_stored
from slack_twin.emoji import is_known
from slack_twin.errors import Json
from slack_twin.text import escape, unescape

_PARTS = re.compile(r"```\n?(?P<code>.+?)\n?```\n?|(?P<quote>(?:(?:^|(?<=\n))&gt;[^\n]*(?:\n|\Z))+)", re.DOTALL)
_LEAVES = re.compile(
    r"`(?P<code>[^`\n]+)`|<(?P<sign>[@#!]?)(?P<target>[^<>|]+)(?:\|(?P<label>[^<>]*))?>|:(?P<emoji>[a-z0-9_+\-]+):"
    r"|(?<![\w*])\*(?P<bold>[^\s*](?:[^*\n]*[^\s*])?)\*(?![\w*])"
    r"|(?<![\w_])_(?P<italic>[^\s_](?:[^_\n]*[^\s_])?)_(?![\w_])"
    r"|(?<![\w~])~(?P<strike>[^\s~](?:[^~\n]*[^\s~])?)~(?![\w~])"
)
_STYLES = ("bold", "italic", "strike")
_MARKS = {"code": "`", "bold": "*", "italic": "_", "strike": "~"}
_BULLETS = "•◦▪"


def with_rich_text(text: str, blocks: Sequence[Json] = ()) -> tuple[Json, ...]:
    """Returns the blocks of a person's message: the `rich_text` of its stored text, then the given ones.

    A given `rich_text` block already contains the text.
    """
    has_text = not text or any(block["type"] == "rich_text" for block in blocks)
    return (*(() if has_text else all_stored([rich_text(text)])), *blocks)


def rich_text(text: str) -> Json:
    """Returns stored text as a `rich_text` block."""
    return {"type": "rich_text", "elements": list(_parts(text))}


def table(rows: Sequence[Sequence[str]]) -> Json:
    """Returns a table as Slack's clients send a pasted one: each cell is `rich_text`."""
    cells = [[{"type": "rich_text", "elements": [_element("section", escape(cell))]} for cell in row] for row in rows]
    return {"type": "table", "rows": cells}


def _element(kind: str, text: str) -> Json:
    return {"type": f"rich_text_{kind}", "elements": list(_leaves(text, {}))}


def _parts(text: str) -> Iterator[Json]:
    end = 0
    for found in _PARTS.finditer(text):
        if found.start() > end:
            yield _element("section", text[end : found.start()])
        if found["code"]:
            leaves = [{"type": "text", "text": unescape(found["code"])}]
            yield {"type": "rich_text_preformatted", "elements": leaves}
        else:
            yield _element("quote", re.sub(r"^&gt; ?", "", found["quote"].removesuffix("\n"), flags=re.MULTILINE))
        end = found.end()
    if end < len(text):
        yield _element("section", text[end:])


def _leaves(text: str, style: Mapping[str, bool]) -> Iterator[Json]:
    styled: Json = {"style": dict(style)} if style else {}
    end = 0
    for found in _LEAVES.finditer(text):
        if found["emoji"] and not is_known(found["emoji"]):
            continue  # such as the minutes of a time
        if found.start() > end:
            yield {"type": "text", "text": unescape(text[end : found.start()])} | styled
        end = found.end()
        kind = next(iter(name for name in _STYLES if found[name]), None)
        if kind:
            yield from _leaves(found[kind], {**style, kind: True})
        elif found["code"]:
            yield {"type": "text", "text": unescape(found["code"]), "style": {**style, "code": True}}
        elif found["emoji"]:
            yield {"type": "emoji", "name": found["emoji"]} | styled
        else:
            yield _reference(found["sign"], found["target"], found["label"]) | styled
    if end < len(text):
        yield {"type": "text", "text": unescape(text[end:])} | styled


def _reference(sign: str, target: str, label: str | None) -> Json:
    if sign == "!":
        kind, _, group = target.partition("^")
        return {"type": "usergroup", "usergroup_id": group} if group else {"type": "broadcast", "range": kind}
    if sign:
        kind = {"@": "user", "#": "channel"}[sign]
        return {"type": kind, f"{kind}_id": target}
    link: Json = {"type": "link", "url": unescape(target)}
    return link | ({"text": unescape(label)} if label else {})


def text_of(blocks: Sequence[Json]) -> str:
    """Returns the mrkdwn that Slack derives from `rich_text` blocks. Other blocks, such as tables, add nothing."""
    parts = [part for block in blocks if block["type"] == "rich_text" for part in _objects(block, "elements")]
    return "\n".join(_mrkdwn(part).removesuffix("\n") for part in parts)


def _objects(holder: Json, name: str) -> list[Json]:
    found = holder.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _mrkdwn(part: Json) -> str:
    match part["type"]:
        case "rich_text_list":
            return _listed(part)
        case "rich_text_preformatted":
            return f"```{_joined(part)}```"
        case "rich_text_quote":
            return "\n".join(f"&gt; {line}" for line in _joined(part).split("\n"))
    return _joined(part)


def _listed(part: Json) -> str:
    indent, offset = (int(str(part.get(name) or 0)) for name in ("indent", "offset"))
    bullet = None if part.get("style") == "ordered" else _BULLETS[indent % 3]
    items = enumerate(_objects(part, "elements"), start=offset + 1)
    return "\n".join(f"{'    ' * indent}{bullet or f'{place}.'} {_joined(item)}" for place, item in items)


def _joined(holder: Json) -> str:
    return "".join(_leaf(leaf) for leaf in _objects(holder, "elements"))


def _leaf(leaf: Json) -> str:
    """Returns one element as mrkdwn, between the marks of its style."""
    match leaf["type"]:
        case "user":
            return f"<@{leaf['user_id']}>"
        case "channel":
            return f"<#{leaf['channel_id']}>"
        case "usergroup":
            return f"<!subteam^{leaf['usergroup_id']}>"
        case "broadcast":
            return f"<!{leaf['range']}>"
        case "emoji":
            return f":{leaf['name']}:"
        case "link":
            label = f"|{escape(str(leaf['text']))}" if leaf.get("text") else ""
            shown = f"<{escape(str(leaf['url']))}{label}>"
        case "date":
            shown = escape(str(leaf.get("fallback") or leaf["timestamp"]))
        case "color":
            shown = str(leaf["value"])
        case _:
            shown = escape(str(leaf.get("text", "")))
    style = leaf.get("style")
    marks = "".join(mark for name, mark in _MARKS.items() if isinstance(style, dict) and style.get(name))
    core = shown.strip()
    return shown.replace(core, f"{marks[::-1]}{core}{marks}", 1) if core and marks else shown
