"""A person in the workspace, who posts, clicks, fills in forms and reads.

A channel is a name, `#name` or an id, or `@name` for the direct conversation with a person or an app. Unknown names
raise Refused, which lists the valid names.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from slack_twin.control.lookup import find_channel, find_user
from slack_twin.testing.line import Line
from slack_twin.testing.messages import Message, first_of_app, read_messages, with_text
from slack_twin.testing.server import given
from slack_twin.testing.views import View, view_of
from slack_twin.testing.waiting import Steps, waits

__tracebackhide__ = True  # hides this module in tracebacks of failing tests

Files: TypeAlias = Mapping[str, str | bytes | Mapping[str, Any]]
"""Files by name: their content, or the fields of the control API, such as `{"kind": "voice", "transcript": "…"}`."""

# `{action: value}`, `{block: {action: value}}`, or `view.state.values` in Slack's format.
State: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Person:
    """Acts in the workspace immediately.

    Actions wait up to three seconds of workspace time for the app's acknowledgement.

    Raises NotTaken if the app does not acknowledge an action.
    """

    name: str
    id: str
    line: Line = field(repr=False, compare=False)

    def says(
        self,
        text: str = "",
        *,
        channel: str = "general",
        thread: Message | str | None = None,
        files: Files | None = None,
        broadcast: bool = False,
        blocks: Sequence[Mapping[str, Any]] | None = None,
        table: Sequence[Sequence[str]] | None = None,
        attachments: Sequence[Mapping[str, Any]] | None = None,
        forward: Message | None = None,
    ) -> Message:
        """Posts a message, or a reply in `thread`, a message or a timestamp.

        `@name` mentions, and `#name` links a channel. `table` are the rows of a pasted table, and `forward` is the
        message that this one shares.

        If `thread` is a message, its channel is used.
        """
        place = thread.channel if isinstance(thread, Message) else channel
        body = given(
            user=self.id,
            channel=place,
            text=text,
            thread_ts=thread.root_ts if isinstance(thread, Message) else thread,
            files=[_file(name, content) for name, content in (files or {}).items()] or None,
            broadcast=broadcast,
            blocks=blocks,
            table=table,
            attachments=attachments,
            forward=None if forward is None else {"channel": forward.channel, "ts": forward.ts},
        )
        said = self.line.server.ask("POST", "messages", body)
        return Message(ts=said["ts"], channel=said["channel"], author=self.name, text=text, line=self.line).current()

    def forwards(self, message: Message, text: str = "", *, channel: str = "general") -> Message:
        """Forwards a message to a channel, with an optional text above it."""
        return self.says(text, channel=channel, forward=message)

    def edits(self, message: Message, text: str) -> Message:
        """Edits one of the person's own messages and returns the new state."""
        self.line.server.ask("PATCH", "messages", self._about(message, text=text))
        return message.current()

    def deletes(self, message: Message) -> None:
        """Deletes one of the person's own messages."""
        self.line.server.ask("DELETE", "messages", self._about(message))

    def reacts(self, message: Message, name: str) -> None:
        """Adds a reaction. Raises Refused if it exists already."""
        self.line.server.ask("POST", "reactions", self._about(message, name=name))

    def unreacts(self, message: Message, name: str) -> None:
        """Returns the messages of a channel with all replies, or of a thread, oldest first.

        Ephemeral messages come last.
        """
        self.line.server.ask("POST", "reactions", self._about(message, name=name, remove=True))

    def sees(self, channel: str = "general", *, thread: Message | None = None) -> list[Message]:
        """The messages of a channel with all replies, or of a thread, oldest first; ephemeral ones come last."""
        root = thread.root_ts if thread else None
        return read_messages(self.line, self._channel_id(channel), thread=root, seen_by=self.id)

    @waits
    def wait_for_message(
        self,
        channel: str = "general",
        *,
        containing: str = "",
        after: Message | None = None,
        timeout_seconds: float | None = None,
    ) -> Steps[Message]:
        """Waits for an app's first finished message that this person sees in a channel, ephemeral or not.

        Raises NotInTime.

        `after` excludes the messages that existed when `after` was posted.
        """

        def look() -> Message | None:
            return first_of_app(self.sees(channel), containing=containing, after=after)

        what = with_text(f"an app's message to {self.name} in {channel}", containing)
        return (yield from self.line.until(look, what, timeout_seconds))

    @waits
    def presses(
        self,
        place: Message | View,
        action_id: str,
        *,
        value: object = None,
        block_id: str | None = None,
        state: State | None = None,
    ) -> Steps[None]:
        """Presses a button, or selects `value` in a menu, of a message or a view."""
        body = self._in(place, action_id=action_id, value=value, block_id=block_id, state=state)
        yield from self.line.act("actions", body | {"wait_seconds": 0}, f"{self.name} pressed {action_id!r}")

    @waits
    def suggestions(self, place: Message | View, action_id: str, text: str) -> Steps[list[dict[str, Any]]]:
        """Returns the options that an app offers in an external menu for the typed text."""
        body = self._in(place, action_id=action_id, value=text)
        answer = yield self.line.server.asking("POST", "suggestions", body)
        return list(answer["options"])

    @waits
    def command(self, command: str, text: str = "", *, channel: str = "general") -> Steps[None]:
        """Runs a slash command."""
        body: dict[str, object] = {"user": self.id, "channel": channel, "command": command, "text": text}
        yield from self.line.act("commands", body | {"wait_seconds": 0}, f"{self.name} ran {command}")

    @waits
    def shortcut(self, callback_id: str, *, app: str = "app", message: Message | None = None) -> Steps[None]:
        """Runs an app's shortcut: a global shortcut, or a message shortcut if `message` is given."""
        about = {"channel": message.channel, "ts": message.ts} if message else {}
        body: dict[str, object] = {"user": self.id, "app": app, "callback_id": callback_id, "wait_seconds": 0, **about}
        yield from self.line.act("shortcuts", body, f"{self.name} used the shortcut {callback_id!r}")

    @waits
    def submits(self, view: View, state: State | None = None) -> Steps[dict[str, str]]:
        """Fills in and submits a modal. Returns the errors by block; the dict is empty if the modal was accepted."""
        body = given(user=self.id, view_id=view.id, submit=True, state=state, wait_seconds=0)
        return (yield from self.line.act("actions", body, f"{self.name} submitted {view.title!r}"))

    @waits
    def closes(self, view: View, *, everything: bool = False) -> Steps[None]:
        """Closes a modal, or the complete stack of modals."""
        body = given(user=self.id, view_id=view.id, close=True, all=everything, wait_seconds=0)
        yield from self.line.act("actions", body, f"{self.name} closed {view.title!r}")

    def views(self) -> list[View]:
        """Returns the open modals, the front modal last."""
        return [view_of(shape) for shape in self._surfaces()["views"]]

    def home(self, app: str = "app") -> View | None:
        """Returns the home tab that an app has published for this person."""
        shape = self._surfaces()["homes"].get(app)
        return view_of(shape) if shape else None

    def opens_home(self, app: str = "app") -> View | None:
        """Opens an app's home tab, which sends the app an event. Returns the currently published view."""
        self.line.server.ask("POST", "homes", {"user": self.id, "app": app})
        return self.home(app)

    @waits
    def wait_for_view(
        self, *, title: str | None = None, callback_id: str | None = None, timeout_seconds: float | None = None
    ) -> Steps[View]:
        """Waits for a front modal, optionally with a title or a callback id. Raises NotInTime."""

        def look() -> View | None:
            front = next(reversed(self.views()), None)
            fits = front and title in (None, front.title) and callback_id in (None, front.callback_id)
            return front if fits else None

        wanted = " ".join(repr(part) for part in (title, callback_id) if part)
        return (yield from self.line.until(look, f"a modal {wanted} for {self.name}", timeout_seconds))

    @waits
    def wait_for_home(self, app: str = "app", *, timeout_seconds: float | None = None) -> Steps[View]:
        """Waits until an app has published a home tab. Raises NotInTime."""
        return (
            yield from self.line.until(
                lambda: self.home(app), f"the home tab of {app!r} for {self.name}", timeout_seconds
            )
        )

    def opens_assistant(self, app: str = "app", *, viewing: str | None = None) -> Message:
        """Opens an app's assistant pane, optionally next to a channel. Returns the root of the new thread."""
        body = given(user=self.id, app=app, channel=viewing)
        opened = self.line.server.ask("POST", "assistant", body)
        return Message(ts=opened["thread_ts"], channel=opened["channel"], author=app, text="", line=self.line).current()

    def stops(self, thread: Message) -> None:
        """Presses Stop in a thread. Raises Refused if no answer is being written there."""
        self.line.server.ask("POST", "stop", {"user": self.id, "channel": thread.channel, "thread_ts": thread.root_ts})

    def _about(self, message: Message, **more: object) -> dict[str, object]:
        return {"user": self.id, "channel": message.channel, "ts": message.ts, **more}

    def _in(self, place: Message | View, **more: object) -> dict[str, object]:
        where: dict[str, object] = {"view_id": place.id} if isinstance(place, View) else self._about(place)
        return given(**where | {"user": self.id} | more)

    def _surfaces(self) -> dict[str, Any]:
        surfaces: dict[str, Any] = self.line.server.ask("GET", "views", user=self.id)
        return surfaces

    def _channel_id(self, name: str) -> str:
        return self.line.server.do(
            lambda twin: find_channel(twin.workspace, name, find_user(twin.workspace, self.id)).id
        )


def _file(name: str, content: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(content, bytes):
        return {"name": name, "content_base64": b64encode(content).decode()}
    return {"name": name, **({"content": content} if isinstance(content, str) else content)}
