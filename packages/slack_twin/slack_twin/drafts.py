"""Converts an app's arguments to a message, for methods, response URLs and acknowledgements."""

from slack_twin.arguments import Arguments
from slack_twin.blocks import MAX_MARKDOWN_CHARACTERS, checked_attachments, checked_blocks
from slack_twin.errors import Json, SlackError
from slack_twin.people import App
from slack_twin.text import from_app
from slack_twin.workspace import Draft

MAX_TEXT_CHARACTERS = 40_000


def read_draft(args: Arguments, app: App) -> Draft:
    """Returns the message; a text of more than 40,000 characters is truncated.

    Raises `no_text`, `msg_too_long`, `markdown_text_conflict`, `invalid_blocks` and similar errors,
    `invalid_attachments`, `too_many_attachments`, `invalid_metadata_format`.
    """
    text, blocks = _text_and_blocks(args)
    attachments = checked_attachments(args.json("attachments"))
    if not (text or blocks or attachments):
        raise SlackError("no_text")
    return Draft(
        user=app.bot_user,
        app_id=app.id,
        text=text,
        blocks=blocks,
        attachments=attachments,
        thread_ts=args.timestamp("thread_ts") or None,
        broadcast=args.flag("reply_broadcast"),
        metadata=message_metadata(args.json("metadata")),
        username=args.optional("username") or None,
    )


def _text_and_blocks(args: Arguments) -> tuple[str, tuple[Json, ...]]:
    """Returns text and blocks. `markdown_text` excludes both and becomes a markdown block."""
    text, markdown = args.optional("text"), args.optional("markdown_text")
    if markdown and ("text" in args or "blocks" in args):
        raise SlackError("markdown_text_conflict")
    if len(markdown) > MAX_MARKDOWN_CHARACTERS:
        raise SlackError("msg_too_long")
    if markdown:
        return markdown, checked_blocks([{"type": "markdown", "text": markdown}])
    return stored_text(text), checked_blocks(args.json("blocks"))


def stored_text(text: str) -> str:
    """Returns the text of an app in Slack's stored format: truncated and escaped."""
    return from_app(text[:MAX_TEXT_CHARACTERS])


def draft_warnings(args: Arguments) -> list[str]:
    """Returns Slack's warnings about the arguments of an accepted message."""
    if len(args.optional("text")) > MAX_TEXT_CHARACTERS:
        return ["message_truncated"]
    return [] if args.optional("text") or args.optional("markdown_text") else ["missing_text_in_message"]


def message_metadata(value: object) -> Json | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise SlackError("invalid_metadata_format")
    kind, payload = value.get("event_type"), value.get("event_payload")
    if not isinstance(kind, str) or not kind or not isinstance(payload, dict):
        raise SlackError("invalid_metadata_format")
    return {"event_type": kind, "event_payload": payload}
