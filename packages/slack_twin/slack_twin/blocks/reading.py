"""Converts an app's JSON to stored blocks: checks them, and adds an id to every interactive part."""

import secrets
from collections.abc import Sequence

from slack_twin.blocks.layout import Where, check_blocks
from slack_twin.blocks.unique import all_blocks, check_unique, children_of
from slack_twin.elements import INTERACTIVE
from slack_twin.errors import Json, SlackError

MAX_BLOCKS = Where.MESSAGE.most_blocks
MAX_ATTACHMENTS = 100
MAX_MARKDOWN_CHARACTERS = 12_000
NO_FALLBACK = "[no preview available]"
_TABLES = ("table", "data_table")
_COLORS = {"good": "2eb886", "warning": "daa038", "danger": "a30200"}


def checked_blocks(value: object, pointer: str = "/blocks") -> tuple[Json, ...]:
    """Returns the blocks of a message, each with a `block_id`.

    Raises `invalid_blocks_format`, `invalid_blocks` with a message for each error, `msg_blocks_too_long`, and
    `invalid_attachments` for a second table.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SlackError("invalid_blocks_format")
    problems = block_problems(value, Where.MESSAGE, pointer)
    if problems:
        raise SlackError("invalid_blocks", errors=problems, messages=[f"[ERROR] {problem}" for problem in problems])
    shown = [block for block, _ in all_blocks(value)]
    if sum(block["type"] in _TABLES for block in shown) > 1:
        raise SlackError("invalid_attachments", messages=["[ERROR] only_one_table_allowed"])
    if sum(len(str(block["text"])) for block in shown if block["type"] == "markdown") > MAX_MARKDOWN_CHARACTERS:
        raise SlackError("msg_blocks_too_long")
    return all_stored(value)


def block_problems(value: object, where: Where, pointer: str) -> list[str]:
    """Returns the errors in a list of blocks, in Slack's wording."""
    problems = list(check_blocks(where)(value, pointer))
    if problems or not isinstance(value, list):
        return problems
    return list(check_unique(value, pointer))


def checked_attachments(value: object) -> tuple[Json, ...]:
    """Returns attachments whose blocks are checked like those of a message.

    Raises `invalid_attachments`, `too_many_attachments` and the errors of blocks.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(attachment, dict) for attachment in value):
        raise SlackError("invalid_attachments")
    if len(value) > MAX_ATTACHMENTS:
        raise SlackError("too_many_attachments")
    return tuple(_attachment(attachment, place) for place, attachment in enumerate(value))


def _attachment(attachment: Json, place: int) -> Json:
    """Returns an attachment with what Slack adds: its number, a fallback, and its colour in hexadecimal digits."""
    texts = (attachment.get(name) for name in ("fallback", "text", "title", "pretext"))
    shape = attachment | {"id": place + 1, "fallback": next(filter(None, texts), NO_FALLBACK)}
    if isinstance(color := attachment.get("color"), str):
        shape["color"] = _COLORS.get(color, color.removeprefix("#"))
    if "blocks" in attachment:
        shape["blocks"] = list(checked_blocks(attachment["blocks"], f"/attachments/{place}/blocks"))
    return shape


def all_stored(blocks: Sequence[Json]) -> tuple[Json, ...]:
    """Returns the blocks with generated ids where the app has not set one."""
    return tuple(_stored(block) for block in blocks)


def _stored(block: Json) -> Json:
    shape = _with_ids(block)
    if not shape.get("block_id"):
        shape["block_id"] = secrets.token_urlsafe(4)
    return shape | {name: list(all_stored(children)) for name, children in children_of(shape).items()}


def _with_ids(node: Json) -> Json:
    shape = {name: _identified(value) for name, value in node.items() if value is not None}
    if shape.get("type") in INTERACTIVE and not shape.get("action_id"):
        shape["action_id"] = secrets.token_urlsafe(4)
    return shape


def _identified(value: object) -> object:
    if isinstance(value, dict):
        return _with_ids(value)
    return [_identified(part) for part in value] if isinstance(value, list) else value
