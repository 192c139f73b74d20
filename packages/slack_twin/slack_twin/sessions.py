"""People's actions in an app's threads: pressing Stop, opening the assistant pane, switching the viewed channel.

https://docs.slack.dev/reference/events/agent_session_stopped and
https://docs.slack.dev/reference/events/assistant_thread_started
"""

from dataclasses import dataclass

from slack_twin.assistants import SessionStatus
from slack_twin.changes import AppTold
from slack_twin.directory import TEAM_ID
from slack_twin.errors import Json, SlackError
from slack_twin.messages import Message
from slack_twin.people import App, Channel, User
from slack_twin.workspace import Draft, Workspace

PANE_SUBTYPE = "assistant_app_thread"


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """One app that a person stopped, and its open streamed messages."""

    app_id: str
    streaming_message_ts: tuple[str, ...]


def stop(workspace: Workspace, channel: Channel, thread_ts: str, user: User) -> list[Stopped]:
    """Presses Stop in a thread: ends its streams, and sends `agent_session_stopped` to each app that works there.

    The status of a session stays, because only its app may change it. Raises `thread_not_found`, and `nothing_to_stop`
    if no session is processing and no message is being streamed.
    """
    root = channel.messages.get(thread_ts)
    if root is None:
        raise SlackError("thread_not_found")
    thread_ts = root.thread_ts or root.ts
    streams = list(workspace.streams.open_in(channel, thread_ts))
    working = [
        shown.app_id
        for shown in workspace.assistants.in_thread(channel, thread_ts)
        if shown.session is SessionStatus.PROCESSING
    ]
    stopped = []
    for app_id in dict.fromkeys([*working, *(stream.app_id for stream in streams)]):
        own = [stream for stream in streams if stream.app_id == app_id]
        for stream in own:
            workspace.streams.stop_by_person(stream)
        stopped.append(Stopped(app_id=app_id, streaming_message_ts=tuple(stream.ts for stream in own)))
    if not stopped:
        raise SlackError("nothing_to_stop")
    for ended in stopped:
        workspace.announce(_stopped(workspace, channel, thread_ts, user, ended))
    return stopped


def _stopped(workspace: Workspace, channel: Channel, thread_ts: str, user: User, ended: Stopped) -> AppTold:
    body: Json = {
        "type": "agent_session_stopped",
        "channel": channel.id,
        "thread_ts": thread_ts,
        "user": user.id,
        "streaming_message_ts": list(ended.streaming_message_ts),
        "event_ts": workspace.next_ts(),
    }
    return AppTold(channel=channel, app_id=ended.app_id, body=body)


def open_pane(workspace: Workspace, app: App, user: User, *, viewing: Channel | None) -> Message:
    """Opens an app's assistant pane: creates a thread in the direct conversation and notifies the app.

    `viewing` is the channel next to the pane. Returns the root of the thread.
    """
    channel = workspace.direct_channel(user.id, app.bot_user)
    text = "New Assistant Thread"
    root = workspace.post(channel, Draft(user=app.bot_user, app_id=app.id, text=text, subtype=PANE_SUBTYPE))
    _tell(workspace, "assistant_thread_started", app, user, channel, root.ts, viewing)
    return root


def change_context(workspace: Workspace, app: App, user: User, *, thread_ts: str, viewing: Channel) -> None:
    """Notifies the app that the person switched to another channel next to its pane. Raises `thread_not_found`."""
    channel = workspace.direct_channel(user.id, app.bot_user)
    root = channel.messages.get(thread_ts)
    if root is None or root.subtype != PANE_SUBTYPE or root.app_id != app.id:
        raise SlackError("thread_not_found")
    _tell(workspace, "assistant_thread_context_changed", app, user, channel, thread_ts, viewing)


def _tell(
    workspace: Workspace, kind: str, app: App, user: User, channel: Channel, thread_ts: str, viewing: Channel | None
) -> None:
    """Sends the event, unless the app has no pane."""
    if not app.has_pane:
        return
    context: Json = {"channel_id": viewing.id, "team_id": TEAM_ID, "enterprise_id": None} if viewing else {}
    pane: Json = {"user_id": user.id, "context": context, "channel_id": channel.id, "thread_ts": thread_ts}
    body: Json = {"type": kind, "assistant_thread": pane, "event_ts": workspace.next_ts()}
    workspace.announce(AppTold(channel=channel, app_id=app.id, body=body))
