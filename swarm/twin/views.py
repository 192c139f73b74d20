"""The workspace as people see it: for the control API in plain text, for the page with what it needs to draw."""

from swarm.twin import changes
from swarm.twin.blocks import plain_text
from swarm.twin.errors import Json
from swarm.twin.messages import Message
from swarm.twin.people import Channel, ChannelKind, User
from swarm.twin.text import for_reader
from swarm.twin.workspace import Workspace


class View:
    """Reads a workspace and changes nothing."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._directory = workspace.directory

    def message(self, message: Message) -> Json:
        """A message as a reader sees it: names instead of ids, entities undone."""
        return {
            "ts": message.ts,
            "thread_ts": message.thread_ts,
            "author": message.username or self._name(message.user),
            "kind": "bot" if message.app_id else "user",
            "text": self.readable(message.text or plain_text(message.blocks)),
            "blocks": list(message.blocks),
            "reactions": [
                {"name": reaction.name, "users": [self._name(user) for user in reaction.users]}
                for reaction in message.reactions
            ],
            "files": [{"id": file.id, "name": file.name, "size": len(file.content)} for file in message.files],
            "streaming": False,
            "edited": message.edited is not None,
            "subtype": message.subtype,
            "metadata": message.metadata,
        }

    def readable(self, text: str) -> str:
        return for_reader(text, self._directory.name_of_user, self._directory.name_of_channel)

    def _name(self, user_id: str) -> str:
        return self._directory.name_of_user(user_id) or user_id

    def messages(self, channel: Channel, *, thread_ts: str | None = None) -> list[Json]:
        """The messages of a channel with all replies, or one thread, oldest first."""
        log = channel.messages
        if thread_ts is None:
            return [self.message(message) for message in log.all()]
        found = (log.get(ts) for ts in (thread_ts, *log.replies(thread_ts)))
        return [self.message(message) for message in found if message]

    def drawn(self, channel: Channel, message: Message) -> Json:
        """A message for the page: as a reader sees it, plus Slack's text, ids, and the state of its thread."""
        thread = channel.messages.thread(message.ts)
        return self.message(message) | {
            "channel": channel.id,
            "user": message.user,
            "raw": message.text,
            "reply_count": len(thread.replies) if thread else 0,
            "reply_users": list(thread.authors)[:5] if thread else [],
            "latest_reply": thread.replies[-1] if thread else None,
            "root_text": self._root_text(channel, message),
        }

    def _root_text(self, channel: Channel, message: Message) -> str | None:
        """What a reply that was also sent to the channel answers."""
        root = (
            channel.messages.get(message.thread_ts)
            if message.subtype == "thread_broadcast" and message.thread_ts
            else None
        )
        return self.readable(root.text)[:80] if root else None

    def user(self, user: User) -> Json:
        return {"id": user.id, "name": user.name, "display_name": user.display_name, "is_bot": user.is_bot}

    def channel(self, channel: Channel) -> Json:
        latest = channel.messages.shown()
        return {
            "id": channel.id,
            "name": channel.name,
            "kind": channel.kind.value,
            "members": list(channel.members),
            "topic": channel.topic,
            "latest": latest[-1] if latest else None,
        }

    def state(self, viewer: User) -> Json:
        """Everything the page needs to draw its frame for one person."""
        channels = [self.channel(c) for c in self._directory.channels.values() if viewer.id in c.members]
        return {
            "me": viewer.id,
            "users": [self.user(user) for user in self._directory.users.values()],
            "channels": channels,
            "statuses": [
                {
                    "channel": channel_id,
                    "thread_ts": thread_ts,
                    "app": self._app_name(status.app_id),
                    "text": status.text,
                }
                for (channel_id, thread_ts), status in self._workspace.statuses.items()
                if status.expires_at > self._workspace.clock.now()
                and viewer.id in self._directory.channels[channel_id].members
            ],
        }

    def _app_name(self, app_id: str) -> str:
        app = self._directory.apps.get(app_id)
        return app.name if app else app_id

    def update(self, change: changes.Change) -> Json:
        """A change for the page. It names the message and, for a reply, what its root now looks like."""
        channel = change.channel
        match change:
            case changes.MessagePosted():
                return self._with_root(channel, change.message, "posted")
            case changes.MessageChanged():
                return self._with_root(channel, change.message, "changed")
            case changes.MessageDeleted():
                return self._deleted(change)
            case changes.ReactionAdded() | changes.ReactionRemoved():
                message = channel.messages.get(change.message.ts) or change.message
                return self._with_root(channel, message, "changed")
            case changes.MemberJoined():
                return {"kind": "channels"}
            case changes.EphemeralPosted():
                return self._ephemeral(change)
            case changes.StatusChanged():
                return {
                    "kind": "status",
                    "channel": channel.id,
                    "thread_ts": change.thread_ts,
                    "app": self._app_name(change.app_id),
                    "text": change.text,
                }

    def _with_root(self, channel: Channel, message: Message, kind: str) -> Json:
        root = channel.messages.get(message.thread_ts) if message.thread_ts else None
        return {
            "kind": kind,
            "channel": channel.id,
            "message": self.drawn(channel, message),
            "root": self.drawn(channel, root) if root else None,
            "is_direct": channel.kind is ChannelKind.DIRECT,
        }

    def _deleted(self, change: changes.MessageDeleted) -> Json:
        if change.tombstone is not None:
            return self._with_root(change.channel, change.tombstone, "changed")
        gone = self._with_root(change.channel, change.previous, "deleted")
        return gone | {"message": {"ts": change.previous.ts, "thread_ts": change.previous.thread_ts}}

    def _ephemeral(self, change: changes.EphemeralPosted) -> Json:
        app = self._directory.apps.get(change.app_id)
        return {
            "kind": "ephemeral",
            "channel": change.channel.id,
            "message": self.drawn(
                change.channel,
                Message(
                    ts=change.ts,
                    channel=change.channel.id,
                    user=app.bot_user if app else change.app_id,
                    text=change.text,
                    app_id=change.app_id,
                    thread_ts=change.thread_ts,
                    blocks=change.blocks,
                    subtype="ephemeral",
                ),
            ),
        }
