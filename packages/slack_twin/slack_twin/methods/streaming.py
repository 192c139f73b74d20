"""chat.startStream, chat.appendStream, chat.stopStream: streamed messages.

https://docs.slack.dev/reference/methods/chat.startStream
"""

from slack_twin import shapes
from slack_twin.assistants import SessionStatus
from slack_twin.blocks import MAX_MARKDOWN_CHARACTERS, checked_blocks
from slack_twin.chunks import Chunk, Content, Display, Text, read_chunks
from slack_twin.directory import TEAM_ID
from slack_twin.drafts import message_metadata
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.methods.sessions import set_session, wanted_status
from slack_twin.people import Channel, ChannelKind
from slack_twin.streams import Mode, Stream
from slack_twin.workspace import Draft


def start(call: Call) -> Json:
    """Starts a streamed message: a reply, or in a channel also a root message, with or without content.

    Raises `missing_recipient_team_id` and `missing_recipient_user_id` outside direct conversations, `user_not_found`
    for a bot, `team_not_found`, `thread_not_found`, and the errors of content.
    """
    channel = call.joined_channel()
    _check_recipient(call, channel)
    mode, chunks = _content(call)
    content = Content(display=_display(call)).with_chunks(chunks)
    message = call.workspace.streams.start(channel, _draft(call, channel), content, mode)
    return {"channel": channel.id, "ts": message.ts}


def _check_recipient(call: Call, channel: Channel) -> None:
    team, person = call.args.optional("recipient_team_id"), call.args.optional("recipient_user_id")
    is_direct = channel.kind is ChannelKind.DIRECT
    if not team and not is_direct:
        raise SlackError("missing_recipient_team_id")
    if not person and not is_direct:
        raise SlackError("missing_recipient_user_id")
    if team and team != TEAM_ID:
        raise SlackError("team_not_found")
    recipient = call.directory.users.get(person)
    if person and (recipient is None or recipient.is_bot):
        raise SlackError("user_not_found")


def _draft(call: Call, channel: Channel) -> Draft:
    thread_ts = call.args.timestamp("thread_ts")
    if not thread_ts and channel.kind is not ChannelKind.PUBLIC and channel.kind is not ChannelKind.PRIVATE:
        raise SlackError("invalid_arguments", messages=["[ERROR] missing required field: thread_ts"])
    return Draft(
        user=call.app.bot_user,
        app_id=call.app.id,
        text="",
        thread_ts=thread_ts or None,
        username=call.args.optional("username") or None,
        live_for=call.args.optional("recipient_user_id") or None,
    )


def _display(call: Call) -> Display:
    try:
        return Display(call.args.optional("task_display_mode") or Display.TIMELINE)
    except ValueError:
        raise SlackError(
            "invalid_arguments", messages=[f"[ERROR] task_display_mode must be one of {', '.join(Display)}"]
        ) from None


def append(call: Call) -> Json:
    """Appends to one of the app's open streams. Raises `no_text` without content, and the errors of `Streams`."""
    stream = _stream(call)
    mode, chunks = _content(call)
    if mode is None:
        raise SlackError("no_text")
    message = call.workspace.streams.append(stream, mode, chunks)
    return {"channel": message.channel, "ts": message.ts}


def stop(call: Call) -> Json:
    """Closes one of the app's open streams, with optional content, blocks below it, metadata and a session status."""
    stream = _stream(call)
    mode, chunks = _content(call)
    status = wanted_status(call, "session_status") if "session_status" in call.args else None
    message = call.workspace.streams.stop(
        stream,
        mode,
        chunks,
        blocks=checked_blocks(call.args.json("blocks")),
        metadata=message_metadata(call.args.json("metadata")),
    )
    if status is not None:
        set_session(call, stream.channel, message.thread_ts or message.ts, SessionStatus(status))
    shape = shapes.message(message, call.directory, log=stream.channel.messages)
    return {"channel": message.channel, "ts": message.ts, "message": shape}


def _stream(call: Call) -> Stream:
    """Returns the stream. Raises `message_not_found`, `message_not_owned_by_app`, `message_not_in_streaming_state`."""
    channel = call.joined_channel()
    return call.workspace.streams.of(call.message(channel, "ts"), call.app.id)


def _content(call: Call) -> tuple[Mode | None, tuple[Chunk, ...]]:
    """Returns text or chunks. Raises `invalid_arguments` for both, `msg_too_long`, `invalid_chunks`."""
    text = call.args.optional("markdown_text")
    chunks = read_chunks(call.args.json("chunks")) if "chunks" in call.args else ()
    if text and chunks:
        raise SlackError("invalid_arguments", messages=["[ERROR] markdown_text and chunks exclude each other"])
    if len(text) > MAX_MARKDOWN_CHARACTERS:
        raise SlackError("msg_too_long")
    if text:
        return Mode.TEXT, (Text(text=text),)
    return (Mode.CHUNKS, chunks) if chunks else (None, ())


METHODS = (
    Method(name="chat.startStream", handle=start, tier=Tier.TIER_2, scopes=("chat:write",)),
    Method(name="chat.appendStream", handle=append, tier=Tier.TIER_4, scopes=("chat:write",)),
    Method(name="chat.stopStream", handle=stop, tier=Tier.TIER_2, scopes=("chat:write",)),
)
