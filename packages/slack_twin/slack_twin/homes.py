"""Opens the tabs of apps and notifies the apps. https://docs.slack.dev/reference/events/app_home_opened"""

from slack_twin.assistants import CHANNEL_ENTITY
from slack_twin.changes import AppTold
from slack_twin.directory import TEAM_ID
from slack_twin.errors import Json
from slack_twin.people import App, Channel, User
from slack_twin.surfaces import AppView
from slack_twin.view_shapes import view_shape
from slack_twin.workspace import Workspace


def open_home(workspace: Workspace, user: User, app: App) -> AppView | None:
    """Notifies `app` that `user` opened its Home tab; returns the published view."""
    view = workspace.surfaces.home(app.id, user.id)
    shown: Json = {} if view is None else {"view": view_shape(workspace, view)}
    _tell(workspace, user, app, "home", shown)
    return view


def open_messages(workspace: Workspace, user: User, app: App, viewing: Channel | None) -> None:
    """Notifies `app` that `user` opened its Messages tab; an agent also gets the channel that the person views."""
    entities = [{"type": CHANNEL_ENTITY, "value": viewing.id, "team_id": TEAM_ID}] if viewing else []
    context: Json = {"entities": entities} if entities else {}
    _tell(workspace, user, app, "messages", {"context": context} if app.has_tab else {})


def _tell(workspace: Workspace, user: User, app: App, tab: str, more: Json) -> None:
    channel = workspace.direct_channel(user.id, app.bot_user)
    body: Json = {
        "type": "app_home_opened",
        "user": user.id,
        "channel": channel.id,
        "tab": tab,
        "event_ts": workspace.next_ts(),
        **more,
    }
    workspace.announce(AppTold(channel=channel, app_id=app.id, body=body))
