"""Changes of channels: creation, renaming, archiving, topics and members. Each posts a notice in the channel.

https://docs.slack.dev/reference/events/message#subtypes
"""

import unicodedata
from typing import TYPE_CHECKING

from slack_twin.changes import ChannelArchived, ChannelCreated, ChannelRenamed, MemberJoined, MemberLeft
from slack_twin.errors import Json, SlackError
from slack_twin.people import Channel, ChannelKind

if TYPE_CHECKING:
    from slack_twin.workspace import Workspace

_MAX_NAME_CHARACTERS = 80
_PUNCTUATION = "-_"


def checked_name(name: str) -> str:
    """Returns a valid channel name.

    Raises `invalid_name_required`, `invalid_name_maxlength`, `invalid_name_specials`, `invalid_name_punctuation`.
    """
    if not name:
        raise SlackError("invalid_name_required")
    if len(name) > _MAX_NAME_CHARACTERS:
        raise SlackError("invalid_name_maxlength")
    if any(not _is_usual(character) for character in name):
        raise SlackError("invalid_name_specials")
    if not name.strip(_PUNCTUATION):
        raise SlackError("invalid_name_punctuation")
    return name


def _is_usual(character: str) -> bool:
    """Returns whether a character is a digit, a hyphen, an underscore, or a letter that is not upper case."""
    category = unicodedata.category(character)
    return character in _PUNCTUATION or category in ("Nd", "Mn", "Mc") or (category[0] == "L" and category != "Lu")


class Channels:
    """Changes the channels of a workspace. `by` is the user id of the person or bot that makes the change."""

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace

    def create(self, name: str, *, by: str, is_private: bool) -> Channel:
        """Creates a channel with one member. Raises `name_taken`, and the errors of `checked_name`."""
        directory = self._workspace.directory
        self._check_free(checked_name(name))
        channel = Channel(
            id=directory.free_id("C", name),
            name=name,
            kind=ChannelKind.PRIVATE if is_private else ChannelKind.PUBLIC,
            created=int(self._workspace.clock.now()),
            creator=by,
        )
        directory.put_channel(channel)
        self._workspace.announce(ChannelCreated(channel=channel, user=by, ts=self._workspace.next_ts()))
        self.join(channel, by)
        return channel

    def _check_free(self, name: str) -> None:
        if self._workspace.directory.id_of_channel(name) is not None:
            raise SlackError("name_taken")

    def rename(self, channel: Channel, name: str, *, by: str) -> None:
        """Renames a channel; its current name changes nothing.

        Raises `name_taken`, and the errors of `checked_name`.
        """
        former = channel.name
        if checked_name(name) == former:
            return
        self._check_free(name)
        self._workspace.directory.rename_channel(channel, name)
        text = f'<@{by}> has renamed the channel from "{former}" to "{name}"'
        self._say(channel, by, "channel_name", text, {"old_name": former, "name": name})
        self._workspace.announce(ChannelRenamed(channel=channel, user=by, ts=self._workspace.next_ts()))

    def set_topic(self, channel: Channel, topic: str, *, by: str) -> None:
        """Sets the topic; the current topic changes nothing."""
        if topic != channel.topic:
            channel.topic, channel.topic_set = topic, (by, int(self._workspace.clock.now()))
            self._say(channel, by, "channel_topic", f"<@{by}> set the channel topic: {topic}", {"topic": topic})

    def set_purpose(self, channel: Channel, purpose: str, *, by: str) -> None:
        """Sets the purpose; the current purpose changes nothing."""
        if purpose != channel.purpose:
            channel.purpose, channel.purpose_set = purpose, (by, int(self._workspace.clock.now()))
            self._say(
                channel, by, "channel_purpose", f"<@{by}> set the channel purpose: {purpose}", {"purpose": purpose}
            )

    def archive(self, channel: Channel, *, by: str) -> None:
        """Archives a channel, which blocks new messages. Raises `already_archived`."""
        if channel.is_archived:
            raise SlackError("already_archived")
        self._say(channel, by, "channel_archive", f"<@{by}> archived the channel")
        self._set_archived(channel, by, is_archived=True)

    def unarchive(self, channel: Channel, *, by: str) -> None:
        """Unarchives a channel. Raises `not_archived`."""
        if not channel.is_archived:
            raise SlackError("not_archived")
        self._set_archived(channel, by, is_archived=False)
        self._say(channel, by, "channel_unarchive", f"<@{by}> un-archived the channel")

    def _set_archived(self, channel: Channel, by: str, *, is_archived: bool) -> None:
        channel.is_archived = is_archived
        self._workspace.announce(ChannelArchived(channel=channel, user=by, ts=self._workspace.next_ts()))

    def join(self, channel: Channel, user: str, *, inviter: str | None = None) -> bool:
        """Adds a member; returns False if the user was a member already. Raises `is_archived`."""
        if channel.is_archived:
            raise SlackError("is_archived")
        if user in channel.members:
            return False
        channel.members[user] = None
        details: Json = {"inviter": inviter} if inviter else {}
        self._say(channel, user, "channel_join", f"<@{user}> has joined the channel", details, by=inviter)
        ts = self._workspace.next_ts()
        self._workspace.announce(MemberJoined(channel=channel, user=user, ts=ts, inviter=inviter))
        return True

    def leave(self, channel: Channel, user: str, *, removed_by: str | None = None) -> None:
        """Removes a member."""
        self._say(channel, user, "channel_leave", f"<@{user}> has left the channel", by=removed_by)
        del channel.members[user]
        ts = self._workspace.next_ts()
        self._workspace.announce(MemberLeft(channel=channel, user=user, ts=ts, removed_by=removed_by))

    def _say(
        self,
        channel: Channel,
        user: str,
        subtype: str,
        text: str,
        details: Json | None = None,
        *,
        by: str | None = None,
    ) -> None:
        """Posts a notice in the channel; in a private channel, `group_topic` replaces `channel_topic`, and so on."""
        if channel.kind is ChannelKind.PRIVATE:
            subtype = subtype.replace("channel_", "group_")
        self._workspace.note(channel, user=user, text=text, subtype=subtype, details=details, by=by)
