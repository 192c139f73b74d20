"""Layout blocks, and the surfaces that allow them: messages, modals or home tabs.

https://docs.slack.dev/reference/block-kit/blocks
"""

from collections.abc import Iterator
from enum import Enum

from slack_twin.blocks.checks import (
    Check,
    also,
    anything,
    flag,
    integer,
    items,
    number,
    one_of,
    shape,
    string,
    typed,
    url,
    wrong,
)
from slack_twin.blocks.elements import (
    BUTTON,
    IMAGE,
    IN_ACTIONS,
    IN_CONTEXT_ACTIONS,
    IN_INPUT,
    IN_SECTION,
    OVERFLOW,
    image,
)
from slack_twin.blocks.objects import IDENTIFIER, URL_SOURCE, plain, text
from slack_twin.blocks.rich_text import ELEMENTS, RICH_TEXT

_BLOCK: dict[str, Check] = {"block_id": IDENTIFIER}


class Where(Enum):
    """The surface that shows the blocks."""

    MESSAGE = "message"
    MODAL = "modal"
    HOME = "home"

    @property
    def most_blocks(self) -> int:
        return 50 if self is Where.MESSAGE else 100


def _block(required: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    return shape(required, _BLOCK | (optional or {}))


def any_field_of(*names: str) -> Check:
    """Checks that at least one of these fields is present."""

    def check(value: object, pointer: str) -> Iterator[str]:
        if isinstance(value, dict) and all(value.get(name) is None for name in names):
            yield wrong(f"missing required field: {names[0]}", pointer)

    return check


def _context_item(value: object, pointer: str) -> Iterator[str]:
    is_image = isinstance(value, dict) and value.get("type") == "image"
    yield from (IMAGE if is_image else text(3_000))(value, pointer)


_SECTION = also(
    _block({}, {"text": text(3_000), "fields": items(text(2_000), most=10), "accessory": IN_SECTION, "expand": flag}),
    any_field_of("text", "fields"),
)
_VIDEO = _block(
    {"alt_text": string(least=1), "title": plain(200), "thumbnail_url": url(), "video_url": url()},
    {
        "author_name": string(most=50),
        "description": plain(200),
        "provider_icon_url": url(),
        "provider_name": string(),
        "title_url": url(),
    },
)
_CELL = typed(
    {
        "raw_text": shape({"text": string(least=1)}),
        "raw_number": shape({"value": number, "text": string(least=1)}),
        "rich_text": shape({"elements": ELEMENTS}, _BLOCK),
    }
)


def _column(value: object, pointer: str) -> Iterator[str]:
    """Checks a column's settings; null stands for a column without settings."""
    if value is not None:
        yield from shape({}, {"align": one_of("left", "center", "right"), "is_wrapped": flag})(value, pointer)


_TABLE = _block({"rows": items(items(_CELL, most=20), most=100)}, {"column_settings": items(_column, most=20, least=0)})
_DATA_TABLE = _block(
    {"caption": string(least=1), "rows": items(items(_CELL, most=20), most=101, least=2)},
    {"page_size": integer(least=1, most=100), "row_header_column_index": integer(least=0, most=19)},
)
_TASK_CARD = _block(
    {"task_id": string(least=1), "title": string(least=1)},
    {
        "status": one_of("pending", "in_progress", "complete", "error"),
        "details": RICH_TEXT,
        "output": RICH_TEXT,
        "sources": items(URL_SOURCE, most=100, least=0),
        "hide_title": flag,
    },
)
_AUTH_PROVIDER = _block(
    {"value": string(most=150, least=1), "name": plain(75), "is_connected": flag},
    {
        "description": plain(150),
        "icon_url": url(),
        "auth_url": url(),
        "disconnect_url": url(),
        "connected_identity": plain(75),
        "connected_context": plain(75),
        "accessory": OVERFLOW,
        "fallback": anything,
    },
)
_CARD = also(
    _block(
        {},
        {
            "hero_image": IMAGE,
            "icon": IMAGE,
            "slack_icon": shape({"name": string(least=1)}, {"type": string()}),
            "title": text(150),
            "subtitle": text(150),
            "body": text(200),
            "actions": items(BUTTON, most=5),
        },
    ),
    any_field_of("title", "hero_image", "actions", "body"),
)
_ALERT = _block({"text": text(3_000)}, {"level": one_of("default", "info", "warning", "error", "success")})

_ANYWHERE = {
    "section": _SECTION,
    "divider": _block({}),
    "header": _block({"text": plain(150)}),
    "image": image(_BLOCK | {"title": plain(2_000)}),
    "context": _block({"elements": items(_context_item, most=10)}),
    "actions": _block({"elements": items(IN_ACTIONS, most=25)}),
    "input": _block(
        {"label": plain(2_000), "element": IN_INPUT},
        {"hint": plain(2_000), "optional": flag, "dispatch_action": flag},
    ),
    "rich_text": _block({"elements": ELEMENTS}),
    "video": _VIDEO,
    "alert": _ALERT,
    "auth_provider": _AUTH_PROVIDER,
    "card": _CARD,
    "carousel": _block({"elements": items(typed({"card": _CARD}), most=10)}),
}
_IN_MESSAGES = {
    "context_actions": _block({"elements": items(IN_CONTEXT_ACTIONS, most=5)}),
    "file": _block({"external_id": string(least=1), "source": one_of("remote")}, {"file_id": string()}),
    "markdown": _block({"text": string(least=1)}),
    "table": _TABLE,
    "data_table": _DATA_TABLE,
    "task_card": _TASK_CARD,
    "plan": _block(
        {"title": string(least=1)},
        {"tasks": items(typed({"task_card": _TASK_CARD}), most=50, least=0), "plan_id": string()},
    ),
}


def _with_containers(blocks: dict[str, Check]) -> Check:
    """Checks that these blocks are valid, alone or grouped in a container."""
    container = also(
        _block(
            {"child_blocks": items(typed(blocks), most=10)},
            {
                "title": plain(150),
                "rich_text_title": RICH_TEXT,
                "subtitle": text(150),
                "width": one_of("narrow", "standard", "wide", "full"),
                "icon": IMAGE,
                "is_collapsible": flag,
                "default_collapsed": flag,
                "has_header_divider": flag,
            },
        ),
        any_field_of("title", "rich_text_title"),
    )
    return typed({**blocks, "container": container})


_HERE = {
    Where.MESSAGE: _with_containers(_ANYWHERE | _IN_MESSAGES),
    Where.MODAL: _with_containers(_ANYWHERE),
    Where.HOME: _with_containers(_ANYWHERE),
}


def check_blocks(where: Where) -> Check:
    """Returns the check for a list of blocks on this surface."""
    return items(_HERE[where], most=where.most_blocks, least=0)
