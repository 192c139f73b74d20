"""The people, apps and channels of the workspace, found by id, name or token."""

import re

from slack_twin.messages import MessageLog
from slack_twin.people import App, Channel, ChannelKind, User, UserGroup

TEAM_ID = "T0TWIN"
TEAM_NAME = "Twin"
TEAM_DOMAIN = "twin"

SLACKBOT = User(id="USLACKBOT", name="slackbot", real_name="Slackbot", display_name="Slackbot")


class Directory:
    """People, apps and channels, with an index for each kind of lookup."""

    def __init__(self, base_url: str = "http://127.0.0.1:8400/") -> None:
        self.revoked: set[str] = set()  # tokens that an app revoked
        self.away: set[str] = set()  # users who set their presence to away
        self.emoji: dict[str, str] = {}  # the workspace's own emoji: their address, or `alias:name`
        self.base_url = base_url  # of the twin, for links in messages, files and images
        self.users: dict[str, User] = {}
        self.apps: dict[str, App] = {}
        self.channels: dict[str, Channel] = {}
        self.user_groups: dict[str, UserGroup] = {}  # by handle
        self._user_by_name: dict[str, User] = {}
        self._user_by_email: dict[str, User] = {}
        self._app_by_bot_token: dict[str, App] = {}
        self._app_by_app_token: dict[str, App] = {}
        self._app_by_bot_user: dict[str, App] = {}
        self._app_by_bot: dict[str, App] = {}
        self._channel_by_name: dict[str, Channel] = {}
        self._direct: dict[frozenset[str], Channel] = {}
        self.put_user(SLACKBOT)

    def put_user(self, user: User) -> None:
        self.users[user.id] = user
        self._user_by_name.setdefault(user.display_name.casefold(), user)
        self._user_by_name[user.name.casefold()] = user
        if user.email:
            self._user_by_email[user.email.casefold()] = user

    def put_app(self, app: App) -> None:
        """Adds an app, or replaces the app with its id; the old tokens become invalid."""
        former = self.apps.get(app.id)
        if former is not None:
            self._app_by_bot_token.pop(former.bot_token, None)
            self._app_by_app_token.pop(former.app_token, None)
        self.revoked.discard(app.bot_token)
        self.apps[app.id] = app
        self._app_by_bot_token[app.bot_token] = app
        self._app_by_app_token[app.app_token] = app
        self._app_by_bot_user[app.bot_user] = app
        self._app_by_bot[app.bot_id] = app

    def put_channel(self, channel: Channel) -> None:
        self.channels[channel.id] = channel
        if channel.name:
            self._channel_by_name[channel.name.casefold()] = channel

    def rename_channel(self, channel: Channel, name: str) -> None:
        del self._channel_by_name[channel.name.casefold()]
        channel.previous_names.insert(0, channel.name)
        channel.name = name
        self.put_channel(channel)

    def user(self, id_or_name: str) -> User | None:
        return self.users.get(id_or_name) or self._user_by_name.get(id_or_name.casefold())

    def user_by_email(self, email: str) -> User | None:
        return self._user_by_email.get(email.casefold())

    def app(self, id_or_name: str) -> App | None:
        user = self._user_by_name.get(id_or_name.casefold())
        return self.apps.get(id_or_name) or (self._app_by_bot_user.get(user.id) if user else None)

    def app_by_bot_token(self, token: str) -> App | None:
        return self._app_by_bot_token.get(token)

    def app_by_app_token(self, token: str) -> App | None:
        return self._app_by_app_token.get(token)

    def revoke(self, token: str) -> None:
        """Ends the validity of a bot token."""
        del self._app_by_bot_token[token]
        self.revoked.add(token)

    def app_of_bot_user(self, user_id: str) -> App | None:
        return self._app_by_bot_user.get(user_id)

    def app_of_bot(self, bot_id: str) -> App | None:
        return self._app_by_bot.get(bot_id)

    def channel(self, id_or_name: str) -> Channel | None:
        """Returns the channel with this id, name, or `#name`."""
        return self.channels.get(id_or_name) or self._channel_by_name.get(id_or_name.removeprefix("#").casefold())

    def direct(self, members: tuple[str, ...]) -> Channel | None:
        return self._direct.get(frozenset(members))

    def open_direct(self, members: tuple[str, ...], *, kind: ChannelKind, created: int) -> Channel:
        letter = "D" if kind is ChannelKind.DIRECT else "G"
        channel = Channel(
            id=f"{letter}{len(self._direct) + 1:08d}",
            name="",
            kind=kind,
            created=created,
            creator=members[0],
            members=dict.fromkeys(members),
            messages=MessageLog(),
        )
        self.put_channel(channel)
        self._direct[frozenset(members)] = channel
        return channel

    def is_shared(self, channel: Channel) -> bool:
        """Returns whether the channel is shared with other workspaces."""
        if channel.kind in (ChannelKind.DIRECT, ChannelKind.GROUP_DIRECT):
            return any(user.team_id for member in channel.members if (user := self.users.get(member)))
        return bool(channel.shared_with)

    def team_of(self, user_id: str) -> str:
        """Returns the workspace of a user."""
        user = self.users.get(user_id)
        return user.team_id if user and user.team_id else TEAM_ID

    def name_of_user(self, user_id: str) -> str | None:
        user = self.users.get(user_id)
        return user.name if user else None

    def name_of_channel(self, channel_id: str) -> str | None:
        channel = self.channels.get(channel_id)
        return channel.name or None if channel else None

    def id_of_user(self, name: str) -> str | None:
        user = self._user_by_name.get(name.casefold())
        return user.id if user else None

    def id_of_channel(self, name: str) -> str | None:
        channel = self._channel_by_name.get(name.casefold())
        return channel.id if channel else None

    def free_id(self, letter: str, name: str) -> str:
        """Returns an unused id that contains the name, like `U000ALICE`."""
        stem = re.sub(r"[^A-Z0-9]", "", name.upper()) or "X"
        groups = {group.id for group in self.user_groups.values()}
        taken = self.users.keys() | self.apps.keys() | self.channels.keys() | self._app_by_bot.keys() | groups
        candidate, number = f"{letter}{stem:0>8}", 1
        while candidate in taken:
            number += 1
            candidate = f"{letter}{stem + str(number):0>8}"
        return candidate
