"""The targets of people's actions on blocks: a message, an ephemeral message, or a view."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slack_twin import payloads
from slack_twin.choices import Choices
from slack_twin.elements import Element, elements_of
from slack_twin.errors import ControlError, Json
from slack_twin.forms import Surface, Values
from slack_twin.messages import Message
from slack_twin.people import App, Channel, User
from slack_twin.surfaces import AppView
from slack_twin.view_shapes import view_shape
from slack_twin.workspace import Workspace


class Target(Protocol):
    """A surface with elements, shown by an app to a person."""

    @property
    def app(self) -> App: ...

    @property
    def user(self) -> User: ...

    @property
    def surface(self) -> Surface:
        """The key of the surface in the forms."""

    @property
    def elements(self) -> Sequence[Element]: ...

    @property
    def choices(self) -> Choices:
        """Converts the person's input on the surface."""

    @property
    def channel(self) -> Channel | None: ...

    @property
    def ts(self) -> str | None: ...

    @property
    def view_id(self) -> str | None: ...

    def place(self) -> Json:
        """The payload's fields for the surface."""

    def state(self, values: Values) -> Json:
        """Returns the payload's fields for the input, except those in `place`."""


@dataclass(frozen=True, kw_only=True)
class MessageTarget:
    """A message of an app. The payload of an ephemeral message contains only its place."""

    workspace: Workspace
    app: App
    user: User
    channel: Channel
    message: Message
    is_ephemeral: bool
    view_id: None = None

    @property
    def surface(self) -> Surface:
        return (self.user.id, self.channel.id, self.message.ts)

    @property
    def elements(self) -> Sequence[Element]:
        return elements_of(self.message.blocks, attachments=self.message.attachments)

    @property
    def choices(self) -> Choices:
        return Choices(self.workspace.directory, self.workspace.forms.offered(self.surface), self.channel.id)

    @property
    def ts(self) -> str:
        return self.message.ts

    def place(self) -> Json:
        return payloads.of_message(self.message, self.channel, self.workspace.directory, is_ephemeral=self.is_ephemeral)

    def state(self, values: Values) -> Json:
        return {"state": {"values": values}}


@dataclass(frozen=True, kw_only=True)
class ViewTarget:
    """A modal or a home tab."""

    workspace: Workspace
    app: App
    user: User
    view: AppView
    channel: None = None
    ts: None = None

    @property
    def surface(self) -> Surface:
        return (self.user.id, self.view.id)

    @property
    def elements(self) -> Sequence[Element]:
        return elements_of(self.view.definition.blocks)

    @property
    def choices(self) -> Choices:
        return Choices(self.workspace.directory, self.workspace.forms.offered(self.surface), self.view.channel_id)

    @property
    def view_id(self) -> str:
        return self.view.id

    def place(self) -> Json:
        return {
            "container": {"type": "view", "view_id": self.view.id},
            "view": view_shape(self.workspace, self.view),
        }

    def state(self, values: Values) -> Json:
        """Returns no fields, because the view itself contains the input."""
        return {}


def message_target(workspace: Workspace, user: User, channel: Channel, ts: str) -> MessageTarget:
    """Returns the target of a message.

    Raises SlackError `message_not_found`, and ControlError 422 if no app posted it.
    """
    ephemeral = workspace.ephemerals.get(user.id, channel.id, ts)
    message = ephemeral or workspace.message(channel, ts)
    app = workspace.directory.apps.get(message.app_id or "")
    if app is None:
        raise ControlError(422, "invalid", "a person's message has no interactive elements")
    return MessageTarget(
        workspace=workspace,
        app=app,
        user=user,
        channel=channel,
        message=message,
        is_ephemeral=ephemeral is not None,
    )


def view_target(workspace: Workspace, user: User, view_id: str) -> ViewTarget:
    """Returns the target of a view. Raises ControlError 404 if the person does not see it."""
    view = workspace.surfaces.shown(view_id)
    if view is None or view.user_id != user.id:
        open_ids = ", ".join(view.id for view in workspace.surfaces.stack(user.id)) or "none"
        raise ControlError(404, "not_found", f"{user.name} does not see a view {view_id!r}", f"open modals: {open_ids}")
    return ViewTarget(workspace=workspace, app=workspace.directory.apps[view.app_id], user=user, view=view)
