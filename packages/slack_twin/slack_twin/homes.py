"""Opens home tabs and notifies their apps. https://docs.slack.dev/reference/events/app_home_opened"""

from slack_twin.changes import AppTold
from slack_twin.errors import Json
from slack_twin.people import App, User
from slack_twin.surfaces import AppView
from slack_twin.view_shapes import view_shape
from slack_twin.workspace import Workspace


def open_home(workspace: Workspace, user: User, app: App) -> AppView | None:
    """Notifies `app` that `user` opened its home tab; returns the published view."""
    view = workspace.surfaces.home(app.id, user.id)
    channel = workspace.direct_channel(user.id, app.bot_user)
    body: Json = {
        "type": "app_home_opened",
        "user": user.id,
        "channel": channel.id,
        "tab": "home",
        "event_ts": workspace.next_ts(),
    }
    if view is not None:
        body["view"] = view_shape(workspace, view)
    workspace.announce(AppTold(channel=channel, app_id=app.id, body=body))
    return view
