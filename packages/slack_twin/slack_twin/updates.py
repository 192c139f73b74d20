"""Converts a change of the workspace to an update for open pages."""

from slack_twin import changes
from slack_twin.errors import Json
from slack_twin.messages import Message
from slack_twin.page_state import views_of
from slack_twin.people import Channel, ChannelKind
from slack_twin.views import View
from slack_twin.workspace import Workspace


def update_of(workspace: Workspace, change: changes.Change) -> Json | None:
    """Returns the update for the people who see the change, or None if the change is invisible.

    An update of a message contains its current state and, for a reply, its root.
    """
    channel, view = change.channel, View(workspace)
    match change:
        case changes.MessagePosted():
            return _about(view, channel, change.message, "posted")
        case changes.MessageChanged():
            return _about(view, channel, change.message, "changed")
        case changes.ReactionAdded() | changes.ReactionRemoved():
            return _about(view, channel, channel.messages.get(change.message.ts) or change.message, "changed")
        case changes.MessageDeleted():
            return _deleted(view, change)
        case (
            changes.MemberJoined()
            | changes.MemberLeft()
            | changes.ChannelCreated()
            | changes.ChannelRenamed()
            | changes.ChannelArchived()
        ):
            return {"kind": "channels"}
        case changes.EphemeralPosted():
            return _ephemeral(workspace, view, change)
        case changes.StatusChanged():
            told = view.status(channel.id, change.thread_ts, change.app_id, change.text, change.loading_messages)
            return {"kind": "status"} | told
        case changes.AssistantChanged():
            shown = workspace.assistants.get(channel, change.thread_ts, change.app_id)
            return {"kind": "assistant"} | view.assistance(shown)
        case changes.ViewChanged():
            return {"kind": "views"} | views_of(workspace, change.user)
        case changes.AppTold() | changes.PinChanged():
            return None


def _about(view: View, channel: Channel, message: Message, kind: str) -> Json:
    root = channel.messages.get(message.thread_ts) if message.thread_ts else None
    return {
        "kind": kind,
        "channel": channel.id,
        "message": view.drawn(channel, message),
        "root": view.drawn(channel, root) if root else None,
        "is_direct": channel.kind is ChannelKind.DIRECT,
    }


def _deleted(view: View, change: changes.MessageDeleted) -> Json:
    if change.tombstone is not None:
        return _about(view, change.channel, change.tombstone, "changed")
    gone = _about(view, change.channel, change.previous, "deleted")
    return gone | {"message": {"ts": change.previous.ts, "thread_ts": change.previous.thread_ts}}


def _ephemeral(workspace: Workspace, view: View, change: changes.EphemeralPosted) -> Json | None:
    """Returns the update for an ephemeral message; a removed message is treated like a deleted one."""
    if change.is_gone:
        gone = {"ts": change.ts, "thread_ts": change.thread_ts}
        return {"kind": "deleted", "channel": change.channel.id, "message": gone, "root": None}
    message = workspace.ephemerals.get(change.user, change.channel.id, change.ts)
    if message is None:
        return None
    return {"kind": "ephemeral", "channel": change.channel.id, "message": view.drawn(change.channel, message)}
