"""Looks up people, channels and apps by the names in a control request. Errors list the valid names."""

from collections.abc import Iterable

from slack_twin.directory import SLACKBOT
from slack_twin.errors import ControlError
from slack_twin.people import App, Channel, User
from slack_twin.workspace import Workspace


def find_user(workspace: Workspace, name: str) -> User:
    """Returns a person by name or id, but no app's user. Raises ControlError 404."""
    user = workspace.directory.user(name.removeprefix("@"))
    if user is None or user.is_bot:
        people = [user.name for user in workspace.directory.users.values() if not user.is_bot and user != SLACKBOT]
        raise _unknown("user", name, people)
    return user


def find_app(workspace: Workspace, name: str) -> App:
    """Returns an app by name or id. Raises ControlError 404."""
    app = workspace.directory.app(name)
    if app is None:
        raise _unknown("app", name, [app.name for app in workspace.directory.apps.values()])
    return app


def find_channel(workspace: Workspace, name: str, user: User | None = None) -> Channel:
    """Returns a channel by name, `#name` or id; `@name` is the direct conversation of `user` with a person or an app.

    Raises ControlError 404 if the channel does not exist, 403 if `user` is not a member.
    """
    channel = _direct(workspace, name, user) if name.startswith("@") else workspace.directory.channel(name)
    if channel is None:
        names = [f"#{channel.name}" for channel in workspace.directory.channels.values() if channel.name]
        raise _unknown("channel", name, [*names, "@name for a direct conversation"])
    if user is not None and user != SLACKBOT and user.id not in channel.members:
        raise ControlError(403, "not_in_channel", f"{user.name} is not a member of {name}")
    return channel


def _direct(workspace: Workspace, name: str, user: User | None) -> Channel:
    if user is None:
        raise ControlError(422, "invalid", f"{name} needs a 'user', whose direct conversation is meant")
    other = workspace.directory.user(name.removeprefix("@"))
    if other is None:
        raise _unknown("user or app", name, [user.name for user in workspace.directory.users.values()])
    return workspace.direct_channel(user.id, other.id)


def _unknown(kind: str, name: str, known: Iterable[str]) -> ControlError:
    return ControlError(404, "not_found", f"no {kind} {name!r}", f"available: {', '.join(known)}")
