"""The initial state of an opened page: everything that one person may see."""

from collections.abc import Sequence

from slack_twin.errors import Json
from slack_twin.people import Channel, User
from slack_twin.view_shapes import view_shape
from slack_twin.views import View
from slack_twin.workspace import Workspace


def page_state(workspace: Workspace, viewer: User, channels: Sequence[Channel]) -> Json:
    """Returns people, apps, the viewer's `channels`, and the apps' displays there."""
    seen, directory, view = {channel.id for channel in channels}, workspace.directory, View(workspace)
    return {
        "me": viewer.id,
        "users": [view.user(user) for user in directory.users.values()],
        "groups": [{"id": group.id, "handle": group.handle} for group in directory.user_groups.values()],
        "channels": [view.channel(channel) for channel in channels],
        "apps": [view.app(app) for app in directory.apps.values()],
        "assistants": [view.assistance(shown) for shown in workspace.assistants.all() if shown.channel in seen],
        "statuses": [
            view.status(channel_id, thread_ts, status.app_id, status.text, status.loading_messages)
            for (channel_id, thread_ts), status in workspace.statuses.items()
            if status.expires_at > workspace.clock.now() and channel_id in seen
        ],
    } | views_of(workspace, viewer.id)


def views_of(workspace: Workspace, user_id: str) -> Json:
    """Returns a person's front modal, and the published home tabs by bot user."""
    stack = workspace.surfaces.stack(user_id)
    homes = {app.bot_user: workspace.surfaces.home(app.id, user_id) for app in workspace.directory.apps.values()}
    return {
        "modal": view_shape(workspace, stack[-1]) if stack else None,
        "homes": {bot_user: view_shape(workspace, home) for bot_user, home in homes.items() if home},
    }
