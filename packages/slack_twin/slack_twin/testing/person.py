"""A person in the workspace: what they say, press, enter and see.

A channel is a name, `#name` or an id, or `@name` for the direct conversation with that person or app. Whatever names
something that does not exist raises Refused, which lists what there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from slack_twin.control.lookup import find_channel, find_user
from slack_twin.testing.line import Line
from slack_twin.testing.messages import Message, first_of_app, read_messages, with_text
from slack_twin.testing.server import given
from slack_twin.testing.views import View, view_of
from slack_twin.testing.waiting import Steps, waits

__tracebackhide__ = True  # a failing test shows its own lines

Files: TypeAlias = Mapping[str, str]
"""Text files by name."""

# `{action: value}`, `{block: {action: value}}`, or `view.state.values` as Slack writes it.
State: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Person:
    """Speaks and acts at once; what an app has to acknowledge waits for that, three seconds on the workspace's clock.

    What an app does not acknowledge raises NotTaken.
    """

    name: str
    id: str
    line: Line = field(repr=False, compare=False)

    def says(
        self,
        text: str,
        *,
        channel: str = "general",
        thread: Message | str | None = None,
        files: Files | None = None,
        broadcast: bool = False,
    ) -> Message:
        """Write a message, or a reply with `thread`: a message in it, or a timestamp. `@name` mentions, `#name` links.

        With a message for `thread` the channel is that message's.
        """
        place = thread.channel if isinstance(thread, Message) else channel
        body = given(
            user=self.id,
            channel=place,
            text=text,
            thread_ts=thread.root_ts if isinstance(thread, Message) else thread,
            files=[{"name": name, "content": content} for name, content in (files or {}).items()] or None,
            broadcast=broadcast,
        )
        said = self.line.server.ask("POST", "messages", body)
        return Message(ts=said["ts"], channel=said["channel"], author=self.name, text=text, line=self.line).current()

    def edits(self, message: Message, text: str) -> Message:
        """Change one's own message; the message as it is now."""
        self.line.server.ask("PATCH", "messages", self._about(message, text=text))
        return message.current()

    def deletes(self, message: Message) -> None:
        """Delete one's own message."""
        self.line.server.ask("DELETE", "messages", self._about(message))

    def reacts(self, message: Message, name: str) -> None:
        """Add an emoji. Raises Refused when it is there already."""
        self.line.server.ask("POST", "reactions", self._about(message, name=name))

    def unreacts(self, message: Message, name: str) -> None:
        """Take an emoji away. Raises Refused when it is not there."""
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
        """The first finished message of an app that this person sees in a channel, ephemeral or not. Raises NotInTime.

        `after` leaves out what was there when that message was written.
        """

        def look() -> Message | None:
            return first_of_app(self.sees(channel), containing=containing, after=after)

        what = with_text(f"a message of an app to {self.name} in {channel}", containing)
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
        """Press a button, or choose `value` in a menu, of a message or a view."""
        body = self._in(place, action_id=action_id, value=value, block_id=block_id, state=state)
        yield from self.line.act("actions", body | {"wait_seconds": 0}, f"{self.name} pressed {action_id!r}")

    @waits
    def suggestions(self, place: Message | View, action_id: str, text: str) -> Steps[list[dict[str, Any]]]:
        """The options that an app offers in an external menu for what is typed there."""
        body = self._in(place, action_id=action_id, value=text)
        answer = yield self.line.server.asking("POST", "suggestions", body)
        return list(answer["options"])

    @waits
    def command(self, command: str, text: str = "", *, channel: str = "general") -> Steps[None]:
        """Run a slash command."""
        body: dict[str, object] = {"user": self.id, "channel": channel, "command": command, "text": text}
        yield from self.line.act("commands", body | {"wait_seconds": 0}, f"{self.name} ran {command}")

    @waits
    def shortcut(self, callback_id: str, *, app: str = "app", message: Message | None = None) -> Steps[None]:
        """Use a shortcut of an app: a global one, or that of a message."""
        about = {"channel": message.channel, "ts": message.ts} if message else {}
        body: dict[str, object] = {"user": self.id, "app": app, "callback_id": callback_id, "wait_seconds": 0, **about}
        yield from self.line.act("shortcuts", body, f"{self.name} used the shortcut {callback_id!r}")

    @waits
    def submits(self, view: View, state: State | None = None) -> Steps[dict[str, str]]:
        """Fill in and send a modal; what is wrong with it by block, nothing when it was taken."""
        body = given(user=self.id, view_id=view.id, submit=True, state=state, wait_seconds=0)
        return (yield from self.line.act("actions", body, f"{self.name} submitted {view.title!r}"))

    @waits
    def closes(self, view: View, *, everything: bool = False) -> Steps[None]:
        """Close a modal, or all that are open with it."""
        body = given(user=self.id, view_id=view.id, close=True, all=everything, wait_seconds=0)
        yield from self.line.act("actions", body, f"{self.name} closed {view.title!r}")

    def views(self) -> list[View]:
        """The modals that are open, the one in front last."""
        return [view_of(shape) for shape in self._surfaces()["views"]]

    def home(self, app: str = "app") -> View | None:
        """The home tab that an app has published for this person."""
        shape = self._surfaces()["homes"].get(app)
        return view_of(shape) if shape else None

    def opens_home(self, app: str = "app") -> View | None:
        """Open the home tab of an app, which hears of it; what is published there so far."""
        self.line.server.ask("POST", "homes", {"user": self.id, "app": app})
        return self.home(app)

    @waits
    def wait_for_view(
        self, *, title: str | None = None, callback_id: str | None = None, timeout_seconds: float | None = None
    ) -> Steps[View]:
        """The modal in front, once it has this title or callback id, or once there is any. Raises NotInTime."""

        def look() -> View | None:
            front = next(reversed(self.views()), None)
            fits = front and title in (None, front.title) and callback_id in (None, front.callback_id)
            return front if fits else None

        wanted = " ".join(repr(part) for part in (title, callback_id) if part)
        return (yield from self.line.until(look, f"a modal {wanted} for {self.name}", timeout_seconds))

    @waits
    def wait_for_home(self, app: str = "app", *, timeout_seconds: float | None = None) -> Steps[View]:
        """The home tab of an app, once it has published one. Raises NotInTime."""
        return (
            yield from self.line.until(
                lambda: self.home(app), f"the home tab of {app!r} for {self.name}", timeout_seconds
            )
        )

    def opens_assistant(self, app: str = "app", *, viewing: str | None = None) -> Message:
        """Open an app's assistant pane, beside a channel if need be; the root of the new thread."""
        body = given(user=self.id, app=app, channel=viewing)
        opened = self.line.server.ask("POST", "assistant", body)
        return Message(ts=opened["thread_ts"], channel=opened["channel"], author=app, text="", line=self.line).current()

    def stops(self, thread: Message) -> None:
        """Press Stop in a thread. Raises Refused when nothing is being written there."""
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
