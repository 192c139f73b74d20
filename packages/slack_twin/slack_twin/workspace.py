"""The state of one Slack workspace and all operations on it. No I/O; no event loop needed.

Every change is announced to the listeners immediately and in order: delivery sends events to apps, and the page
updates.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import uuid_utils

from slack_twin.assistants import Assistants
from slack_twin.changes import (
    Change,
    EphemeralPosted,
    MessageChanged,
    MessageDeleted,
    MessagePosted,
    PinChanged,
    ReactionAdded,
    ReactionRemoved,
    StatusChanged,
    ViewChanged,
)
from slack_twin.channels import Channels
from slack_twin.clock import Clock
from slack_twin.directory import SLACKBOT, Directory
from slack_twin.ephemerals import Ephemeral, Ephemerals
from slack_twin.errors import Json, SlackError
from slack_twin.files import File, Files
from slack_twin.forms import Forms
from slack_twin.grants import Grants
from slack_twin.messages import Edit, Message, Pin, Reaction
from slack_twin.people import App, Channel, ChannelKind
from slack_twin.response_urls import ResponseUrls
from slack_twin.schedules import Schedules
from slack_twin.streams import Streams
from slack_twin.surfaces import AppView, Surfaces
from slack_twin.triggers import Triggers
from slack_twin.webhooks import Webhooks

STATUS_LIFETIME_SECONDS = 120
RETENTION_MESSAGES = 20_000
TOMBSTONE_TEXT = "This message was deleted."

Listener = Callable[[Change], None]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A message to be posted; its text is in Slack's format."""

    user: str
    text: str
    app_id: str | None = None
    thread_ts: str | None = None
    broadcast: bool = False
    blocks: tuple[Json, ...] = ()
    attachments: tuple[Json, ...] = ()
    metadata: Json | None = None
    files: tuple[File, ...] = ()
    forwarded: tuple[File, ...] = ()  # files of a forwarded message, which is an attachment
    username: str | None = None
    subtype: str | None = None  # the subtype, for an app's own messages
    streaming: bool = False
    live_for: str | None = None  # of a stream: the person who sees it grow
    details: Json | None = None  # additional fields of the subtype
    by: str | None = None  # the person whose action the message describes, if it affected another person


@dataclass(frozen=True, kw_only=True)
class Status:
    """An app's status in a thread while it works (assistant.threads.setStatus)."""

    app_id: str
    text: str
    expires_at: float
    loading_messages: tuple[str, ...] = ()  # shown in rotation


@dataclass
class Workspace:
    """One team: its directory of people, apps and channels, and its messages."""

    clock: Clock
    directory: Directory = field(default_factory=Directory)
    statuses: dict[tuple[str, str], Status] = field(default_factory=dict)
    files: Files = field(default_factory=Files)
    assistants: Assistants = field(default_factory=Assistants)
    retention: int = RETENTION_MESSAGES  # number of messages kept per channel
    own_events: bool = False  # whether apps get the events about their own messages, as in Slack
    listeners: list[Listener] = field(default_factory=list)
    _last_ts: int = 0  # in microseconds
    _last_still: int = 0  # the same as if the clock had never been advanced

    def __post_init__(self) -> None:
        self.streams = Streams(self)
        self.channels = Channels(self)
        self.schedules = Schedules(self)
        self.triggers = Triggers(self.clock)
        self.response_urls = ResponseUrls(self.clock)
        self.webhooks = Webhooks()
        self.grants = Grants(self.clock)
        self.surfaces = Surfaces(self.clock, [self._announce_view])
        self.ephemerals = Ephemerals()
        self.forms = Forms()  # people's unsent input

    @property
    def base_url(self) -> str:
        """The twin's address, with a trailing slash."""
        return self.directory.base_url

    def clear(self) -> None:
        """Removes everything except the listeners; timestamps keep increasing."""
        self.streams.clear()
        self.schedules.clear()
        self.directory = Directory(self.base_url)
        self.statuses.clear()
        self.files.clear()
        self.triggers.clear()
        self.response_urls.clear()
        self.webhooks.clear()
        self.grants.clear()
        self.surfaces.clear()
        self.ephemerals.clear()
        self.forms.clear()
        self.assistants.clear()

    def reset_clock(self) -> None:
        """Resets the clock. New timestamps are later than those of before it was advanced."""
        self.clock.reset()
        self._last_ts = self._last_still

    def next_ts(self) -> str:
        """Returns a message timestamp that is unique and strictly increasing in the workspace, until a reset."""
        self._last_still = max(int(self.clock.still_now() * 1_000_000), self._last_still + 1)
        self._last_ts = max(int(self.clock.now() * 1_000_000), self._last_ts + 1)
        return f"{self._last_ts // 1_000_000:010d}.{self._last_ts % 1_000_000:06d}"

    def message(self, channel: Channel, ts: str) -> Message:
        """Returns a message. Raises `message_not_found`."""
        message = channel.messages.get(ts)
        if message is None:
            raise SlackError("message_not_found")
        return message

    def post(self, channel: Channel, draft: Draft) -> Message:
        """Posts a message. Raises `thread_not_found` if the root is unknown or deleted, `is_archived`."""
        if channel.is_archived:
            raise SlackError("is_archived")
        root = self._root(channel, draft.thread_ts) if draft.thread_ts else None
        broadcast = "thread_broadcast" if root and draft.broadcast else None
        is_slackbot = draft.user == SLACKBOT.id
        message = Message(
            ts=self.next_ts(),
            channel=channel.id,
            user=draft.user,
            text=draft.text,
            app_id=draft.app_id,
            thread_ts=root,
            subtype=broadcast or draft.subtype or ("file_share" if draft.files else None),
            blocks=draft.blocks,
            attachments=draft.attachments,
            metadata=draft.metadata,
            files=draft.files,
            username=draft.username,
            client_msg_id=None if draft.app_id or draft.subtype or is_slackbot else str(uuid_utils.uuid4()),
            streaming=draft.streaming,
            live_for=draft.live_for,
            begun=(draft.text, draft.blocks) if draft.live_for else ("", ()),
            details=draft.details,
        )
        channel.messages.add(message)
        channel.messages.keep(self.retention)
        for shared in (*draft.files, *draft.forwarded):
            self.files.share(shared, channel, message.ts)
        self.announce(MessagePosted(channel=channel, message=message, by=draft.by))
        if draft.app_id and root:
            self._clear_status_of(draft.app_id, channel, root)
        return message

    def note(
        self, channel: Channel, *, user: str, text: str, subtype: str, details: Json | None, by: str | None
    ) -> None:
        """Posts a channel notice about the channel or about `user`."""
        self.post(channel, Draft(user=user, text=text, subtype=subtype, details=details, by=by))

    def _root(self, channel: Channel, ts: str) -> str:
        message = channel.messages.get(ts)
        if message is None or message.subtype == "tombstone":
            raise SlackError("thread_not_found")
        return message.thread_ts or message.ts

    def post_ephemeral(self, channel: Channel, *, to: str, draft: Draft, ts: str | None = None) -> str:
        """Posts an ephemeral message, or with `ts` replaces it; returns its timestamp.

        The message is not in any history, but its buttons work. Raises `is_archived`.
        """
        if channel.is_archived:
            raise SlackError("is_archived")
        message = Message(
            ts=ts or self.next_ts(),
            channel=channel.id,
            user=draft.user,
            text=draft.text,
            app_id=draft.app_id,
            thread_ts=draft.thread_ts,
            blocks=draft.blocks,
            attachments=draft.attachments,
            subtype="ephemeral",
        )
        self.ephemerals.put(Ephemeral(message=message, user_id=to))
        self._announce_ephemeral(channel, message, to)
        return message.ts

    def remove_ephemeral(self, channel: Channel, message: Message, *, seen_by: str) -> None:
        """Removes an ephemeral message."""
        self.ephemerals.remove(message.ts)
        self._announce_ephemeral(channel, message, seen_by, is_gone=True)

    def _announce_ephemeral(self, channel: Channel, message: Message, user_id: str, *, is_gone: bool = False) -> None:
        self.announce(
            EphemeralPosted(
                channel=channel,
                user=user_id,
                app_id=message.app_id or "",
                ts=message.ts,
                text=message.text,
                blocks=message.blocks,
                thread_ts=message.thread_ts,
                is_gone=is_gone,
            )
        )

    def _announce_view(self, view: AppView) -> None:
        app = self.directory.apps[view.app_id]
        channel = self.direct_channel(view.user_id, app.bot_user)
        self.announce(ViewChanged(channel=channel, user=view.user_id, view_id=view.id))

    def edit(self, channel: Channel, previous: Message, message: Message) -> Message:
        """Replaces `previous` with `message`, marked as edited by its author."""
        ts = self.next_ts()
        edited = replace(message, edited=Edit(user=message.user, ts=ts))
        channel.messages.replace(edited)
        self.announce(MessageChanged(channel=channel, message=edited, previous=previous, ts=ts))
        return edited

    def delete(self, channel: Channel, message: Message) -> None:
        """Deletes a message; a root with replies leaves a tombstone."""
        tombstone = None
        if channel.messages.thread(message.ts):
            tombstone = Message(
                ts=message.ts, channel=channel.id, user=SLACKBOT.id, text=TOMBSTONE_TEXT, subtype="tombstone"
            )
            channel.messages.replace(tombstone)
        else:
            channel.messages.remove(message)
        self.announce(MessageDeleted(channel=channel, previous=message, ts=self.next_ts(), tombstone=tombstone))

    def react(self, channel: Channel, message: Message, *, user: str, name: str) -> None:
        """Adds a reaction. Raises `already_reacted`."""
        users = next((r.users for r in message.reactions if r.name == name), ())
        if user in users:
            raise SlackError("already_reacted")
        self._set_reaction(channel, message, name, (*users, user))
        self.announce(ReactionAdded(channel=channel, message=message, user=user, name=name, ts=self.next_ts()))

    def unreact(self, channel: Channel, message: Message, *, user: str, name: str) -> None:
        """Removes a reaction. Raises `no_reaction`."""
        users = next((r.users for r in message.reactions if r.name == name), ())
        if user not in users:
            raise SlackError("no_reaction")
        self._set_reaction(channel, message, name, tuple(u for u in users if u != user))
        self.announce(ReactionRemoved(channel=channel, message=message, user=user, name=name, ts=self.next_ts()))

    def _set_reaction(self, channel: Channel, message: Message, name: str, users: tuple[str, ...]) -> None:
        known = {reaction.name: reaction.users for reaction in message.reactions} | {name: users}
        reactions = tuple(Reaction(name=name, users=users) for name, users in known.items() if users)
        channel.messages.replace(replace(message, reactions=reactions))

    def pin(self, channel: Channel, message: Message, *, user: str) -> None:
        """Pins a message. Raises `already_pinned`."""
        pins = channel.messages.pins
        if message.ts in pins:
            raise SlackError("already_pinned")
        pins[message.ts] = pin = Pin(user=user, created=int(self.clock.now()))
        self.announce(PinChanged(channel=channel, message=message, pin=pin, user=user, ts=self.next_ts()))

    def unpin(self, channel: Channel, message: Message, *, user: str) -> None:
        """Unpins a message. Raises `no_pin`."""
        pin = channel.messages.pins.pop(message.ts, None)
        if pin is None:
            raise SlackError("no_pin")
        ts = self.next_ts()
        self.announce(PinChanged(channel=channel, message=message, pin=pin, user=user, ts=ts, is_gone=True))

    def direct_channel(self, *members: str) -> Channel:
        """Returns the direct conversation of exactly these people, and creates it if necessary."""
        found = self.directory.direct(members)
        if found is not None:
            return found
        kind = ChannelKind.DIRECT if len(set(members)) <= 2 else ChannelKind.GROUP_DIRECT
        return self.directory.open_direct(members, kind=kind, created=int(self.clock.now()))

    def set_status(
        self, channel: Channel, thread_ts: str, *, app: App, text: str, loading_messages: tuple[str, ...] = ()
    ) -> None:
        """Shows the status of `app` in a thread, for at most two minutes; an empty text clears it."""
        now = self.clock.now()
        self.statuses = {place: status for place, status in self.statuses.items() if status.expires_at > now}
        if text:
            self.statuses[channel.id, thread_ts] = Status(
                app_id=app.id, text=text, expires_at=now + STATUS_LIFETIME_SECONDS, loading_messages=loading_messages
            )
        else:
            self.statuses.pop((channel.id, thread_ts), None)
        self.announce(
            StatusChanged(
                channel=channel, thread_ts=thread_ts, app_id=app.id, text=text, loading_messages=loading_messages
            )
        )

    def status(self, channel: Channel, thread_ts: str) -> Status | None:
        """Returns the current status of a thread."""
        status = self.statuses.get((channel.id, thread_ts))
        return status if status and status.expires_at > self.clock.now() else None

    def _clear_status_of(self, app_id: str, channel: Channel, thread_ts: str) -> None:
        """Clears an app's status when the app posts in the thread, as Slack does."""
        status = self.statuses.get((channel.id, thread_ts))
        if status and status.app_id == app_id:
            del self.statuses[channel.id, thread_ts]
            self.announce(StatusChanged(channel=channel, thread_ts=thread_ts, app_id=app_id, text=""))

    def add_file(self, *, name: str, user: str, content: bytes, title: str = "", alt_txt: str = "") -> File:
        """Stores a file for a later message. Raises `file_upload_size_restricted`."""
        upload = self.files.expect(name=name, size=len(content), user=user, alt_txt=alt_txt)
        self.files.receive(upload.ticket, content)
        return self.files.complete(upload, title=title, created=int(self.clock.now()), base_url=self.base_url)

    def announce(self, change: Change) -> None:
        for listener in self.listeners:
            listener(change)
