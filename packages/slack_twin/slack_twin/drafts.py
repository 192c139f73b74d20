"""From the arguments of an app to the message it wants to post: by a method, a response URL or an acknowledgement."""

from slack_twin.arguments import Arguments
from slack_twin.blocks import MAX_MARKDOWN_CHARACTERS, checked_attachments, checked_blocks
from slack_twin.errors import Json, SlackError
from slack_twin.people import App
from slack_twin.text import from_app
from slack_twin.workspace import Draft

MAX_TEXT_CHARACTERS = 40_000


def read_draft(args: Arguments, app: App) -> Draft:
    """The message; a text of more than 40,000 characters is cut.

    Raises `no_text`, `msg_too_long`, `markdown_text_conflict`, `invalid_blocks` and its like, `invalid_attachments`,
    `too_many_attachments`, `invalid_metadata_format`."""
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
    """`markdown_text` stands alone and becomes a markdown block."""
    text, markdown = args.optional("text"), args.optional("markdown_text")
    if markdown and ("text" in args or "blocks" in args):
        raise SlackError("markdown_text_conflict")
    if len(markdown) > MAX_MARKDOWN_CHARACTERS:
        raise SlackError("msg_too_long")
    if markdown:
        return markdown, checked_blocks([{"type": "markdown", "text": markdown}])
    return stored_text(text), checked_blocks(args.json("blocks"))


def stored_text(text: str) -> str:
    """The text of an app as Slack keeps it: cut and escaped."""
    return from_app(text[:MAX_TEXT_CHARACTERS])


def draft_warnings(args: Arguments) -> list[str]:
    """What Slack remarks about the arguments of a message that it takes."""
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
