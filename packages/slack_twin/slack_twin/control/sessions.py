"""People's actions in an app's threads: pressing Stop, opening the assistant pane, switching the viewed channel."""

from starlette.requests import Request

from slack_twin import sessions
from slack_twin.control.body import read_body
from slack_twin.control.lookup import find_app, find_channel, find_user
from slack_twin.errors import Json
from slack_twin.twin import Twin
from slack_twin.views import View


class Sessions:
    """Handlers of `/twin/stop` and `/twin/assistant`."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def stop(self, request: Request) -> Json:
        """Presses Stop in a thread."""
        body = await read_body(request, known="user channel thread_ts")
        workspace = self._twin.workspace
        user = find_user(workspace, body.text("user"))
        channel = find_channel(workspace, body.text("channel"), user)
        stopped = sessions.stop(workspace, channel, body.text("thread_ts"), user)
        apps = workspace.directory.apps
        return {
            "ok": True,
            "stopped": [
                {"app": apps[ended.app_id].name, "streaming_message_ts": list(ended.streaming_message_ts)}
                for ended in stopped
            ],
        }

    async def open(self, request: Request) -> Json:
        """Opens an app's pane next to `channel`; with `thread_ts`, switches the channel next to that open pane."""
        body = await read_body(request, known="user app channel thread_ts")
        workspace = self._twin.workspace
        user, app = find_user(workspace, body.text("user")), find_app(workspace, body.text("app"))
        thread_ts = body.optional("thread_ts")
        if thread_ts:
            viewing = find_channel(workspace, body.text("channel"), user)
            sessions.change_context(workspace, app, user, thread_ts=thread_ts, viewing=viewing)
            return {"ok": True}
        name = body.optional("channel")
        root = sessions.open_pane(workspace, app, user, viewing=find_channel(workspace, name, user) if name else None)
        return {"channel": root.channel, "thread_ts": root.ts}

    async def read(self, request: Request) -> Json:
        """Returns the titles, prompts, sessions and current statuses that apps show in threads."""
        workspace = self._twin.workspace
        view = View(workspace)
        names = workspace.directory.apps
        return {
            "assistants": [view.assistance(shown) for shown in workspace.assistants.all()],
            "statuses": [
                {
                    "channel": channel_id,
                    "thread_ts": thread_ts,
                    "app": names[status.app_id].name if status.app_id in names else status.app_id,
                    "text": status.text,
                    "loading_messages": list(status.loading_messages),
                }
                for (channel_id, thread_ts), status in workspace.statuses.items()
                if status.expires_at > workspace.clock.now()
            ],
        }
