"""Block Kit, first part: which blocks there are, how many and how long. Fields are checked by the full twin later.

https://docs.slack.dev/reference/block-kit/blocks
"""

import secrets

from swarm.twin.errors import Json, SlackError

MAX_BLOCKS = 50
MAX_SECTION_CHARACTERS = 3_000
MAX_MARKDOWN_CHARACTERS = 12_000

BLOCK_TYPES = frozenset(
    {
        "actions",
        "context",
        "context_actions",
        "divider",
        "file",
        "header",
        "image",
        "input",
        "markdown",
        "plan",
        "rich_text",
        "section",
        "table",
        "task_card",
        "video",
    }
)


def checked_blocks(value: object) -> tuple[Json, ...]:
    """Blocks as they are stored, each with a `block_id`.

    Raises `invalid_blocks_format`, `invalid_blocks`, `msg_blocks_too_long`.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SlackError("invalid_blocks_format")
    if len(value) > MAX_BLOCKS:
        raise _invalid(f"no more than {MAX_BLOCKS} items allowed [json-pointer:/blocks]")
    blocks = tuple(_checked(block, place) for place, block in enumerate(value))
    if sum(len(_text_of(block)) for block in blocks if block["type"] == "markdown") > MAX_MARKDOWN_CHARACTERS:
        raise SlackError("msg_blocks_too_long")
    return blocks


def _checked(block: object, place: int) -> Json:
    if not isinstance(block, dict):
        raise _invalid(f"must be an object [json-pointer:/blocks/{place}]")
    if not (isinstance(block.get("type"), str) and block["type"] in BLOCK_TYPES):
        raise _invalid(f"unsupported type: {block.get('type')} [json-pointer:/blocks/{place}/type]")
    if block["type"] in ("section", "header", "markdown") and not (_text_of(block) or block.get("fields")):
        raise _invalid(f"missing required field: text [json-pointer:/blocks/{place}]")
    if block["type"] == "section" and len(_text_of(block)) > MAX_SECTION_CHARACTERS:
        raise _invalid(f"must be less than 3001 characters [json-pointer:/blocks/{place}/text/text]")
    return {"block_id": secrets.token_urlsafe(4), **block}


def _text_of(block: Json) -> str:
    """The text of a block, be it a string or a text object."""
    text = block.get("text")
    if isinstance(text, dict):
        text = text.get("text")
    return text if isinstance(text, str) else ""


def plain_text(blocks: tuple[Json, ...]) -> str:
    """What a reader of the blocks sees, a line each: for messages that have no text of their own."""
    return "\n".join(line for line in (_visible(block) for block in blocks) if line)


def _visible(node: object) -> str:
    if isinstance(node, list):
        return " ".join(text for text in (_visible(part) for part in node) if text)
    if not isinstance(node, dict):
        return ""
    if isinstance(node.get("text"), str):
        return str(node["text"])
    return _visible([node.get(key) for key in ("text", "fields", "elements", "title") if node.get(key)])


def _invalid(message: str) -> SlackError:
    return SlackError("invalid_blocks", errors=[message], messages=[f"[ERROR] {message}"])
