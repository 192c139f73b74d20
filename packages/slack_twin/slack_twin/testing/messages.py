"""A message as a test holds it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from slack_twin.testing.journals import read_deliveries
from slack_twin.testing.line import Line
from slack_twin.testing.waiting import Steps, waits

__tracebackhide__ = True  # a failing test shows its own lines


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message as it was when it was read; `current` reads it again.

    Two are equal when they were read with the same content.
    """

    ts: str
    channel: str  # id
    author: str  # name
    text: str  # as a reader sees it: with names, not ids
    thread_ts: str | None = None
    is_from_app: bool = False
    blocks: tuple[dict[str, Any], ...] = ()
    files: tuple[dict[str, Any], ...] = ()
    is_streaming: bool = False
    is_edited: bool = False
    subtype: str | None = None
    metadata: dict[str, Any] | None = None
    seen_by: str | None = None  # whom it was read for: needed to find ephemeral ones again
    line: Line = field(repr=False, compare=False)

    @property
    def root_ts(self) -> str:
        """The first message of the thread that this one is in, or could begin."""
        return self.thread_ts or self.ts

    def current(self) -> "Message":
        """The same message as it is now. Raises LookupError when it is gone."""
        return _message(self.line, self.channel, self._shape(), self.seen_by)

    def replies(self) -> list["Message"]:
        """The replies in its thread, oldest first."""
        return read_messages(self.line, self.channel, thread=self.root_ts, seen_by=self.seen_by)[1:]

    def reactions(self) -> dict[str, list[str]]:
        """Who gave which reaction: names of people and apps by emoji. Raises LookupError when the message is gone."""
        return {reaction["name"]: reaction["users"] for reaction in self._shape()["reactions"]}

    def _shape(self) -> dict[str, Any]:
        shapes = _shapes(self.line, self.channel, seen_by=self.seen_by)
        found = next((shape for shape in shapes if shape["ts"] == self.ts), None)
        if found is None:
            raise LookupError(f"the message {self.ts} is gone: {self.text!r}")
        return found

    @waits
    def wait_for_reply(self, *, containing: str = "", timeout_seconds: float | None = None) -> Steps["Message"]:
        """The first finished reply of an app in the thread, after this message. Raises NotInTime."""

        def look() -> Message | None:
            return first_of_app(self.replies(), containing=containing, after=self)

        what = with_text(f"an app's reply to {self.text!r}", containing)
        return (yield from self.line.until(look, what, timeout_seconds))

    @waits
    def wait_for_reaction(
        self, name: str, *, by: str | None = None, timeout_seconds: float | None = None
    ) -> Steps[list[str]]:
        """Until it has this reaction, of a given person or app if need be; who gave it. Raises NotInTime."""

        def look() -> list[str]:
            users = self.reactions().get(name, [])
            return users if by is None or by in users else []

        return (yield from self.line.until(look, f"the reaction {name!r} on {self.text!r}", timeout_seconds))

    @waits
    def wait_until(
        self, is_so: Callable[["Message"], object], *, timeout_seconds: float | None = None
    ) -> Steps["Message"]:
        """Until something is true of it; the message as it is then. Raises NotInTime, LookupError when it is gone."""

        def look() -> Message | None:
            message = self.current()
            return message if is_so(message) else None

        return (yield from self.line.until(look, f"a change of {self.text!r}", timeout_seconds))

    @waits
    def wait_until_delivered(self, *, timeout_seconds: float | None = None) -> Steps[None]:
        """Until an app got it, and every event about it was acknowledged or given up. Raises NotInTime."""

        def look() -> bool:
            about = [one for one in read_deliveries(self.line.server) if one.ts == self.ts]
            done = {(one.app, one.event_id) for one in about if one.acked or one.dropped}
            return bool(about) and done == {(one.app, one.event_id) for one in about}

        yield from self.line.until(look, f"the acknowledgement of {self.text!r}", timeout_seconds)


def first_of_app(messages: Iterable[Message], *, containing: str, after: Message | None) -> Message | None:
    """The first that an app wrote after another, and is done with."""
    finished = (one for one in messages if one.is_from_app and not one.is_streaming)
    fresh = (one for one in finished if after is None or one.ts > after.ts)
    return next((one for one in fresh if containing in one.text), None)


def with_text(what: str, containing: str) -> str:
    """What is waited for, in words."""
    return f"{what} that contains {containing!r}" if containing else what


def read_messages(line: Line, channel: str, *, thread: str | None = None, seen_by: str | None = None) -> list[Message]:
    """The messages of a channel with all replies, or of one thread, oldest first. Raises Refused."""
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
        files=tuple(shape["files"]),
        is_streaming=shape["streaming"],
        is_edited=shape["edited"],
        subtype=shape["subtype"],
        metadata=shape["metadata"],
        seen_by=seen_by,
        line=line,
    )
