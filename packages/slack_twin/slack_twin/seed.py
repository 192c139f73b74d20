"""The initial content of a workspace: the default seed and the seed of `POST /twin/seed`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slack_twin.directory import SLACKBOT
from slack_twin.people import App, Channel, ChannelKind, Command, Experience, Shortcut, User, UserGroup
from slack_twin.workspace import Workspace

SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "bookmarks:read",
    "bookmarks:write",
    "channels:history",
    "channels:join",
    "channels:manage",
    "channels:read",
    "chat:write",
    "commands",
    "emoji:read",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "groups:write",
    "im:history",
    "im:read",
    "im:write",
    "links:write",
    "mpim:history",
    "mpim:read",
    "mpim:write",
    "pins:read",
    "pins:write",
    "reactions:read",
    "reactions:write",
    "team:read",
    "usergroups:read",
    "users.profile:read",
    "users:read",
    "users:read.email",
    "users:write",
)


@dataclass(frozen=True, kw_only=True)
class SeedUser:
    name: str
    real_name: str = ""
    display_name: str = ""
    email: str = ""


@dataclass(frozen=True, kw_only=True)
class SeedGuest:
    """A guest, who is a member of these channels only."""

    user: SeedUser
    channels: tuple[str, ...] = ()
    is_single_channel: bool = False


@dataclass(frozen=True, kw_only=True)
class SeedTeam:
    """Another workspace that shares channels with this one; its people are members of these channels only."""

    name: str
    users: tuple[SeedUser, ...] = ()
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SeedApp:
    name: str
    bot_token: str
    app_token: str
    signing_secret: str
    scopes: tuple[str, ...] = SCOPES
    request_url: str | None = None
    channels: tuple[str, ...] | None = None  # None: all public channels
    commands: tuple[Command, ...] | None = None  # None: one command with the app's name
    display_name: str = ""  # the displayed name, if it differs from the name
    events: tuple[str, ...] | None = None  # subscribed events; None: all events that its scopes allow
    shortcuts: tuple[Shortcut, ...] | None = None  # None: any callback id is accepted
    interactivity_url: str | None = None
    options_url: str | None = None
    webhooks: tuple[str, ...] = ()  # channels with an incoming webhook of the app
    experience: Experience | None = None  # None: everything works


@dataclass(frozen=True, kw_only=True)
class SeedChannel:
    name: str
    members: tuple[str, ...] | None = None  # names of people and apps; None: everyone
    is_private: bool = False
    topic: str = ""


@dataclass(frozen=True, kw_only=True)
class SeedUserGroup:
    handle: str
    members: tuple[str, ...] = ()  # names of people
    name: str = ""
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Seed:
    users: tuple[SeedUser, ...] = ()
    channels: tuple[SeedChannel, ...] = ()
    apps: tuple[SeedApp, ...] = ()
    user_groups: tuple[SeedUserGroup, ...] = ()
    guests: tuple[SeedGuest, ...] = ()
    teams: tuple[SeedTeam, ...] = ()
    emoji: Mapping[str, str] = field(default_factory=dict)  # the workspace's own: address, or `alias:name`, by name


DEFAULT = Seed(
    users=(
        SeedUser(name="alice", real_name="Alice Archer", display_name="Alice", email="alice@twin.test"),
        SeedUser(name="bob", real_name="Bob Baker", display_name="Bob", email="bob@twin.test"),
        SeedUser(name="carol", real_name="Carol Cooper", display_name="Carol", email="carol@twin.test"),
    ),
    channels=(
        SeedChannel(name="general", topic="Company-wide announcements"),
        SeedChannel(name="random", topic="Everything else"),
    ),
    apps=(
        SeedApp(
            name="swarm",
            bot_token="xoxb-twin-swarm",
            app_token="xapp-twin-swarm",
            signing_secret="twin-signing-secret",
            commands=(
                Command(
                    name="/swarm",
                    description="Status, agents and tasks of the app",
                    usage_hint="status | agents | tasks | stop | explain | feedback | help",
                ),
            ),
        ),
    ),
)


def plant(workspace: Workspace, seed: Seed) -> None:
    """Adds the content of the seed. Updates existing objects of the same name and keeps messages.

    Raises KeyError with the unknown name if a channel lists an unknown member, or an app, a guest or a team lists an
    unknown channel.
    """
    workspace.directory.emoji.update(seed.emoji)
    for user in seed.users:
        _plant_user(workspace, user)
    for app in seed.apps:
        _plant_app(workspace, app)
    for channel in seed.channels:
        _plant_channel(workspace, channel)
    for guest in seed.guests:
        _plant_guest(workspace, guest)
    for team in seed.teams:
        _plant_team(workspace, team)
    for app in seed.apps:
        _enter_channels(workspace, app)
        _issue_webhooks(workspace, app)
    for group in seed.user_groups:
        _plant_user_group(workspace, group)


def _plant_user(workspace: Workspace, seed: SeedUser) -> None:
    directory = workspace.directory
    is_new = directory.id_of_user(seed.name) is None
    user = _user(workspace, seed)
    directory.put_user(user)
    if is_new:
        _add_to(user.id, [channel for channel in directory.channels.values() if channel.kind is ChannelKind.PUBLIC])


def _user(workspace: Workspace, seed: SeedUser) -> User:
    directory = workspace.directory
    return User(
        id=directory.id_of_user(seed.name) or directory.free_id("U", seed.name),
        name=seed.name,
        real_name=seed.real_name or seed.name.capitalize(),
        display_name=seed.display_name or seed.name.capitalize(),
        email=seed.email,
    )


def _plant_guest(workspace: Workspace, seed: SeedGuest) -> None:
    guest = replace(_user(workspace, seed.user), is_restricted=True, is_ultra_restricted=seed.is_single_channel)
    _enter_only(workspace, guest, seed.channels)


def _plant_team(workspace: Workspace, seed: SeedTeam) -> None:
    team_id = f"T{''.join(filter(str.isalnum, seed.name.upper())):0>8}"
    for name in seed.channels:
        _channel(workspace, name).shared_with[team_id] = None
    for user in seed.users:
        _enter_only(workspace, replace(_user(workspace, user), team_id=team_id), seed.channels)


def _enter_only(workspace: Workspace, user: User, channels: Sequence[str]) -> None:
    """Makes a user a member of these channels and removes the user from all others."""
    wanted = [_channel(workspace, name) for name in channels]
    workspace.directory.put_user(user)
    for channel in workspace.directory.channels.values():
        if channel.kind in (ChannelKind.PUBLIC, ChannelKind.PRIVATE):
            channel.members.pop(user.id, None)
    _add_to(user.id, wanted)


def _channel(workspace: Workspace, name: str) -> Channel:
    """Returns the channel of this name. Raises KeyError."""
    channel = workspace.directory.channel(name)
    if channel is None:
        raise KeyError(name)
    return channel


def _plant_app(workspace: Workspace, seed: SeedApp) -> None:
    directory = workspace.directory
    known = directory.app(seed.name)
    app_id = known.id if known else directory.free_id("A", seed.name)
    bot_user = known.bot_user if known else directory.free_id("U", seed.name)
    shown = seed.display_name or seed.name
    directory.put_user(User(id=bot_user, name=seed.name, real_name=shown, display_name=shown, app_id=app_id))
    directory.put_app(
        App(
            id=app_id,
            name=seed.name,
            bot_id=known.bot_id if known else directory.free_id("B", seed.name),
            bot_user=bot_user,
            bot_token=seed.bot_token,
            app_token=seed.app_token,
            signing_secret=seed.signing_secret,
            scopes=frozenset(seed.scopes),
            request_url=seed.request_url,
            interactivity_url=seed.interactivity_url,
            options_url=seed.options_url,
            events=None if seed.events is None else frozenset(seed.events),
            shortcuts=seed.shortcuts,
            client_id=f"twin-client-{seed.name}",
            client_secret=f"twin-client-secret-{seed.name}",
            experience=seed.experience,
            commands=seed.commands if seed.commands is not None else (_command_of(seed),),
        )
    )


def _command_of(seed: SeedApp) -> Command:
    return Command(name=f"/{seed.name}", description=f"Talk to {seed.name}")


def _plant_channel(workspace: Workspace, seed: SeedChannel) -> None:
    directory = workspace.directory
    members = _ids(workspace, seed.members) if seed.members is not None else _everybody(workspace, seed)
    known = directory.channel(seed.name)
    if known is None:
        known = Channel(
            id=directory.free_id("C", seed.name),
            name=seed.name,
            kind=ChannelKind.PRIVATE if seed.is_private else ChannelKind.PUBLIC,
            created=int(workspace.clock.now()),
            creator=next(iter(members), SLACKBOT.id),
        )
        directory.put_channel(known)
    known.topic = seed.topic or known.topic
    known.members.update(dict.fromkeys(members))


def _plant_user_group(workspace: Workspace, seed: SeedUserGroup) -> None:
    directory = workspace.directory
    known = directory.user_groups.get(seed.handle)
    directory.user_groups[seed.handle] = UserGroup(
        id=known.id if known else directory.free_id("S", seed.handle),
        handle=seed.handle,
        name=seed.name or seed.handle.capitalize(),
        description=seed.description,
        created=known.created if known else int(workspace.clock.now()),
        members=tuple(_ids(workspace, seed.members)),
    )


def _everybody(workspace: Workspace, seed: SeedChannel) -> Sequence[str]:
    users = workspace.directory.users.values()
    return [user.id for user in users if user is not SLACKBOT and not (seed.is_private and user.is_bot)]


def _ids(workspace: Workspace, names: Sequence[str]) -> Sequence[str]:
    """Returns the ids of these names. Raises KeyError with the first unknown name."""
    found = {name: workspace.directory.user(name) for name in names}
    for name, user in found.items():
        if user is None:
            raise KeyError(name)
    return [user.id for user in found.values() if user]


def _enter_channels(workspace: Workspace, seed: SeedApp) -> None:
    """Adds the bot to the app's channels, by default to every public channel."""
    directory = workspace.directory
    app = directory.app(seed.name)
    if app is None:
        return
    public = [channel for channel in directory.channels.values() if channel.kind is ChannelKind.PUBLIC]
    if seed.channels is None:
        _add_to(app.bot_user, public)
        return
    for channel in public:
        channel.members.pop(app.bot_user, None)
    for name in seed.channels:
        _channel(workspace, name).members[app.bot_user] = None


def _issue_webhooks(workspace: Workspace, seed: SeedApp) -> None:
    app = workspace.directory.app(seed.name)
    if app is not None:
        workspace.webhooks.withdraw(app)
        for name in seed.webhooks:
            workspace.webhooks.issue(app, _channel(workspace, name))


def _add_to(user_id: str, channels: Sequence[Channel]) -> None:
    for channel in channels:
        channel.members[user_id] = None
