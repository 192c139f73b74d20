"""Streamed messages: started, extended and stopped by an app, by a person or by a timeout.

https://docs.slack.dev/reference/methods/chat.startStream. The rules are:

- A stream lives for five minutes of the twin's time. Its message then stays, and `chat.update` can change it.
- While it is open, `chat.update` and `chat.delete` are refused.
- The first content sets its mode: `markdown_text` or `chunks`. The other kind is refused from then on.
- A person ends it with Stop: nothing can be appended, but the app may still close it with `chat.stopStream`.
- Pages see each piece; other apps get events when the message starts and ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from slack_twin.changes import MessageChanged
from slack_twin.chunks import Chunk, Content
from slack_twin.clock import Timer
from slack_twin.errors import Json, SlackError
from slack_twin.messages import Message
from slack_twin.people import Channel

if TYPE_CHECKING:
    from slack_twin.workspace import Draft, Workspace

LIFETIME_SECONDS = 300.0


class Mode(Enum):
    """The kind of a stream's content."""

    TEXT = auto()
    CHUNKS = auto()


@dataclass(kw_only=True)
class Stream:
    """An open streamed message, or a message that a person stopped and its app has not closed yet."""

    app_id: str
    channel: Channel
    ts: str
    content: Content
    mode: Mode | None = None  # None until there is content
    is_stopped: bool = False  # by a person
    timer: Timer | None = field(default=None, repr=False)

    def take(self, mode: Mode) -> None:
        """Sets the mode. Raises `streaming_mode_mismatch`."""
        if self.mode not in (None, mode):
            raise SlackError("streaming_mode_mismatch")
        self.mode = mode


class Streams:
    """The streams of a workspace. Needs a running event loop for the timeouts."""

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace
        self._open: dict[tuple[str, str], Stream] = {}

    def start(self, channel: Channel, draft: "Draft", content: Content, mode: Mode | None) -> Message:
        """Posts a streamed message. Raises `thread_not_found`."""
        shown = replace(draft, text=content.text, blocks=tuple(content.blocks()), streaming=True)
        message = self._workspace.post(channel, shown)
        stream = Stream(app_id=draft.app_id or "", channel=channel, ts=message.ts, content=content, mode=mode)
        clock = self._workspace.clock
        stream.timer = clock.call_at(clock.now() + LIFETIME_SECONDS, lambda: self.expire(channel, message.ts))
        self._open[channel.id, message.ts] = stream
        return message

    def append(self, stream: Stream, mode: Mode, chunks: tuple[Chunk, ...]) -> Message:
        """Appends to an open stream; a refused piece changes nothing.

        Raises `stopped_by_user`, `streaming_mode_mismatch`, `msg_too_long`, `msg_blocks_too_many`.
        """
        if stream.is_stopped:
            raise SlackError("stopped_by_user")
        self._grow(stream, mode, chunks)
        return self._show(stream, is_live=True, streaming=True)

    def stop(
        self,
        stream: Stream,
        mode: Mode | None,
        chunks: tuple[Chunk, ...],
        *,
        blocks: tuple[Json, ...],
        metadata: Json | None,
    ) -> Message:
        """Appends the last chunks and closes the stream; `blocks` follow all other content.

        Raises the errors of `append`.
        """
        if mode is not None:
            self._grow(stream, mode, chunks)
        self._forget(stream)
        return self._show(stream, blocks=blocks, metadata=metadata, streaming=False)

    def _grow(self, stream: Stream, mode: Mode, chunks: tuple[Chunk, ...]) -> None:
        grown = stream.content.with_chunks(chunks)
        stream.take(mode)
        stream.content = grown

    def expire(self, channel: Channel, ts: str) -> None:
        """Ends a stream after its timeout; its content stays. Does nothing if there is no such stream."""
        stream = self._open.get((channel.id, ts))
        if stream is not None:
            self._forget(stream)
            if not stream.is_stopped and channel.messages.get(ts):
                self._show(stream, streaming=False)

    def expire_all(self, app_id: str | None) -> bool:
        """Ends every stream, optionally only those of one app; returns whether there was any."""
        ended = [stream for stream in self._open.values() if app_id in (None, stream.app_id)]
        for stream in ended:
            self.expire(stream.channel, stream.ts)
        return bool(ended)

    def stop_by_person(self, stream: Stream) -> None:
        """Stops a stream for the Stop button: its text stays, and later content is refused."""
        stream.is_stopped = True
        self._show(stream, streaming=False)

    def open_in(self, channel: Channel, root_ts: str) -> Iterator[Stream]:
        """Yields the open streams of a thread."""
        for stream in self._open.values():
            said = channel.messages.get(stream.ts)
            in_thread = said is not None and root_ts in (said.ts, said.thread_ts)
            if stream.channel is channel and in_thread and not stream.is_stopped:
                yield stream

    def of(self, message: Message, app_id: str) -> Stream:
        """Returns the stream of a message. Raises `message_not_owned_by_app`, `message_not_in_streaming_state`."""
        if message.app_id != app_id:
            raise SlackError("message_not_owned_by_app")
        stream = self._open.get((message.channel, message.ts))
        if stream is None:
            raise SlackError("message_not_in_streaming_state")
        return stream

    def _forget(self, stream: Stream) -> None:
        if stream.timer is not None:
            stream.timer.cancel()
        del self._open[stream.channel.id, stream.ts]

    def _show(
        self,
        stream: Stream,
        *,
        streaming: bool,
        is_live: bool = False,
        blocks: tuple[Json, ...] = (),
        metadata: Json | None = None,
    ) -> Message:
        """Updates the message from its stream and announces the change."""
        channel = stream.channel
        previous = self._workspace.message(channel, stream.ts)
        message = replace(
            previous,
            text=stream.content.text,
            blocks=(*stream.content.blocks(), *blocks),
            metadata=metadata or previous.metadata,
            streaming=streaming,
        )
        channel.messages.replace(message)
        ts = self._workspace.next_ts()
        self._workspace.announce(
            MessageChanged(channel=channel, message=message, previous=previous, ts=ts, is_live=is_live)
        )
        return message

    def clear(self) -> None:
        for stream in list(self._open.values()):
            self._forget(stream)
