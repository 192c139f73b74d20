"""The messages of the testing API."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from slack_twin.testing.journals import read_deliveries
from slack_twin.testing.line import Line
from slack_twin.testing.waiting import Steps, waits

__tracebackhide__ = True  # hides this module in tracebacks of failing tests


@dataclass(frozen=True, kw_only=True)
class Message:
    """A snapshot of a message; `current` reads the message again.

    Two messages are equal if they were read with the same content.
    """

    ts: str
    channel: str  # the channel's id
    author: str  # the author's name
    text: str  # the displayed text: with names instead of ids
    thread_ts: str | None = None
    is_from_app: bool = False
    blocks: tuple[dict[str, Any], ...] = ()
    attachments: tuple[dict[str, Any], ...] = ()
    files: tuple[dict[str, Any], ...] = ()
    is_streaming: bool = False
    is_edited: bool = False
    subtype: str | None = None
    metadata: dict[str, Any] | None = None
    seen_by: str | None = None  # the person who read the message; needed to read ephemeral messages again
    line: Line = field(repr=False, compare=False)

    @property
    def root_ts(self) -> str:
        """The timestamp of the first message of this message's thread, or of the message itself."""
        return self.thread_ts or self.ts

    def current(self) -> "Message":
        """Returns the current state of the message. Raises LookupError if the message no longer exists."""
        return _message(self.line, self.channel, self._shape(), self.seen_by)

    def replies(self) -> list["Message"]:
        """Returns the replies in the message's thread, oldest first."""
        return read_messages(self.line, self.channel, thread=self.root_ts, seen_by=self.seen_by)[1:]

    def reactions(self) -> dict[str, list[str]]:
        """Returns the names of people and apps by emoji. Raises LookupError if the message no longer exists."""
        return {reaction["name"]: reaction["users"] for reaction in self._shape()["reactions"]}

    def _shape(self) -> dict[str, Any]:
        shapes = _shapes(self.line, self.channel, seen_by=self.seen_by)
        found = next((shape for shape in shapes if shape["ts"] == self.ts), None)
        if found is None:
            raise LookupError(f"the message {self.ts} is gone: {self.text!r}")
        return found

    @waits
    def wait_for_reply(self, *, containing: str = "", timeout_seconds: float | None = None) -> Steps["Message"]:
        """Waits for an app's first finished reply in the thread after this message. Raises NotInTime."""

        def look() -> Message | None:
            return first_of_app(self.replies(), containing=containing, after=self)

        what = with_text(f"an app's reply to {self.text!r}", containing)
        return (yield from self.line.until(look, what, timeout_seconds))

    @waits
    def wait_for_reaction(
        self, name: str, *, by: str | None = None, timeout_seconds: float | None = None
    ) -> Steps[list[str]]:
        """Waits for a reaction, optionally of one person or app, and returns the names of its authors.

        Raises NotInTime.
        """

        def look() -> list[str]:
            users = self.reactions().get(name, [])
            return users if by is None or by in users else []

        return (yield from self.line.until(look, f"the reaction {name!r} on {self.text!r}", timeout_seconds))

    @waits
    def wait_until(
        self, is_so: Callable[["Message"], object], *, timeout_seconds: float | None = None
    ) -> Steps["Message"]:
        """Waits until `is_so` returns a true value for the message, and returns the message.

        Raises NotInTime, or LookupError if the message no longer exists.
        """

        def look() -> Message | None:
            message = self.current()
            return message if is_so(message) else None

        return (yield from self.line.until(look, f"a change of {self.text!r}", timeout_seconds))

    @waits
    def wait_until_delivered(self, *, timeout_seconds: float | None = None) -> Steps[None]:
        """Waits until an app received the message, and each of its events was acknowledged or dropped.

        Raises NotInTime.
        """

        def look() -> bool:
            about = [one for one in read_deliveries(self.line.server) if one.ts == self.ts]
            done = {(one.app, one.event_id) for one in about if one.acked or one.dropped}
            return bool(about) and done == {(one.app, one.event_id) for one in about}

        yield from self.line.until(look, f"the acknowledgement of {self.text!r}", timeout_seconds)


def first_of_app(messages: Iterable[Message], *, containing: str, after: Message | None) -> Message | None:
    """Returns an app's first finished message after `after`, or None."""
    finished = (one for one in messages if one.is_from_app and not one.is_streaming)
    fresh = (one for one in finished if after is None or one.ts > after.ts)
    return next((one for one in fresh if containing in one.text), None)


def with_text(what: str, containing: str) -> str:
    """Returns the description of a wait for an error message."""
    return f"{what} containing {containing!r}" if containing else what


def read_messages(line: Line, channel: str, *, thread: str | None = None, seen_by: str | None = None) -> list[Message]:
    """Returns the messages of a channel with all replies, or of one thread, oldest first. Raises Refused."""
    shapes = _shapes(line, channel, thread=thread, seen_by=seen_by)
    return [_message(line, channel, shape, seen_by) for shape in shapes]


def _shapes(line: Line, channel: str, *, thread: str | None = None, seen_by: str | None = None) -> list[dict[str, Any]]:
    answer = line.server.ask("GET", "messages", channel=channel, thread_ts=thread, user=seen_by)
    shapes: list[dict[str, Any]] = answer["messages"]
    return shapes


def _message(line: Line, channel: str, shape: dict[str, Any], seen_by: str | None) -> Message:
    return Message(
        ts=shape["ts"],
        channel=channel,
        author=shape["author"],
        text=shape["text"],
        thread_ts=shape["thread_ts"],
        is_from_app=shape["kind"] == "bot",
        blocks=tuple(shape["blocks"]),
        attachments=tuple(shape["attachments"]),
        files=tuple(shape["files"]),
        is_streaming=shape["streaming"],
        is_edited=shape["edited"],
        subtype=shape["subtype"],
        metadata=shape["metadata"],
        seen_by=seen_by,
        line=line,
    )
