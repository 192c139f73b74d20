"""A person's message, as the control API and the page send it: text, blocks, a table, attachments, a forward, files."""

from collections.abc import Sequence
from datetime import UTC, datetime

from slack_twin import file_shapes, shapes
from slack_twin.blocks import checked_attachments, checked_blocks
from slack_twin.blocks.typed import table, text_of, with_rich_text
from slack_twin.control.body import Body, as_body
from slack_twin.control.lookup import find_channel
from slack_twin.directory import SLACKBOT, TEAM_ID
from slack_twin.drafts import MAX_TEXT_CHARACTERS
from slack_twin.errors import ControlError, Json, SlackError
from slack_twin.files import File
from slack_twin.messages import Message
from slack_twin.people import Channel, ChannelKind, User
from slack_twin.text import from_reader
from slack_twin.workspace import Draft, Workspace

FIELDS = "user channel text thread_ts broadcast files blocks table attachments forward"


def draft_of(workspace: Workspace, user: User, body: Body, files: tuple[File, ...]) -> Draft:
    """Returns the message of a body with `FIELDS`, which needs a text or something else to show.

    Raises ControlError 413 for a text that is too long, 422 for blocks that Slack refuses, 404 for an unknown message.
    """
    blocks, (source, shared) = _blocks(body), _forwarded(workspace, user, body)
    attachments = checked_attachments([*shared, *body.items("attachments", lambda attachment: attachment)])
    text = typed_text(workspace, body, required=not (files or blocks or attachments))
    return Draft(
        user=user.id,
        text=text or text_of(blocks),
        blocks=with_rich_text(text, blocks),
        attachments=attachments,
        thread_ts=body.optional("thread_ts"),
        broadcast=body.flag("broadcast"),
        files=files,
        forwarded=source,
    )


def typed_text(workspace: Workspace, body: Body, *, required: bool) -> str:
    """Returns `text` in Slack's stored format. Raises ControlError 413 if it is too long."""
    typed = body.text("text") if required else body.optional("text") or ""
    if len(typed) > MAX_TEXT_CHARACTERS:
        raise ControlError(413, "too_large", f"a message has at most {MAX_TEXT_CHARACTERS} characters")
    directory = workspace.directory
    return from_reader(typed, directory.id_of_user, directory.id_of_channel)


def _blocks(body: Body) -> tuple[Json, ...]:
    """Returns the blocks, with the rows of `table` as the last one."""
    given = list(body.items("blocks", lambda block: block))
    rows = body.items("table", _row)
    try:
        return checked_blocks([*given, *([table(rows)] if rows else [])])
    except SlackError as refusal:
        hint = str(refusal.fields.get("errors", ""))
        raise ControlError(422, refusal.code, "Slack does not accept these blocks", hint) from None


def _row(row: object) -> Sequence[str]:
    if not isinstance(row, list) or not all(isinstance(cell, str) for cell in row):
        raise ControlError(422, "invalid", "'table' must be a list of rows, each a list of strings")
    return row


def _forwarded(workspace: Workspace, user: User, body: Body) -> tuple[tuple[File, ...], list[Json]]:
    """Returns the files of the message that the person forwards, and the attachment that shares it."""
    if (named := body.anything("forward")) is None:
        return (), []
    source = as_body(named, known="channel ts")
    channel = find_channel(workspace, source.text("channel"), user)
    message = workspace.message(channel, source.text("ts"))
    return message.files, [_forward(workspace, channel, message)]


def _forward(workspace: Workspace, channel: Channel, said: Message) -> Json:
    """Returns the attachment that Slack makes of a forwarded message, with its author, words, blocks and files."""
    directory, base_url = workspace.directory, workspace.base_url
    author, is_public = directory.users.get(said.user, SLACKBOT), channel.kind is ChannelKind.PUBLIC
    name, at = said.username or author.display_name, datetime.fromtimestamp(float(said.ts), UTC)
    shape: Json = {
        "from_url": shapes.permalink(said, base_url),
        "ts": said.ts,
        "author_id": said.user,
        "author_name": name,
        "author_subname": author.real_name,
        "author_link": f"{base_url}team/{said.user}",
        "author_icon": shapes.images(directory, 48)["image_48"],
        "channel_id": channel.id,
        "channel_team": TEAM_ID,
        "is_msg_unfurl": True,
        "is_share": True,
        "color": "D0D0D0",
        "fallback": f"[{at:%B %d, %Y %I:%M %p}] {name}: {said.text}",
        "text": said.text,
        "mrkdwn_in": ["text"],
        "footer": f"Posted in #{channel.name}" if is_public else "Slack Conversation",
    }
    shape |= {} if is_public else {"private_channel_prompt": True}
    shape |= {"files": [file_shapes.file(one) for one in said.files]} if said.files else {}
    inner = {"team": TEAM_ID, "channel": channel.id, "ts": said.ts, "message": {"blocks": list(said.blocks)}}
    return shape | ({"message_blocks": [inner]} if said.blocks else {})
