"""The people, apps and channels of a workspace."""

from dataclasses import dataclass, field
from enum import StrEnum

from slack_twin.errors import Json
from slack_twin.messages import MessageLog


@dataclass(frozen=True, kw_only=True)
class User:
    """A person, or the bot user of an app."""

    id: str
    name: str
    real_name: str
    display_name: str
    email: str = ""
    app_id: str | None = None  # set for bot users only
    is_restricted: bool = False  # a guest
    is_ultra_restricted: bool = False  # a guest of one channel
    team_id: str | None = None  # another workspace that shares channels; None: this workspace

    @property
    def is_bot(self) -> bool:
        return self.app_id is not None


@dataclass(frozen=True, kw_only=True)
class Command:
    """A slash command of an app."""

    name: str  # with the slash
    description: str = ""
    usage_hint: str = ""
    url: str | None = None  # the HTTP address, if it differs from the app's request URL


@dataclass(frozen=True, kw_only=True)
class Shortcut:
    """A shortcut of an app, in the global menu or in a message's menu."""

    callback_id: str
    name: str = ""
    is_global: bool = True


class Experience(StrEnum):
    """How people converse with an app, as its manifest declares: Slack's "messaging experience"."""

    AGENT = "agent"  # in the Messages tab: `features.agent_view`
    ASSISTANT = "assistant"  # in a pane: `features.assistant_view`
    PLAIN = "plain"  # neither


@dataclass(frozen=True, kw_only=True)
class App:
    """An installed app with one bot user. The Web API identifies it by its tokens."""

    id: str
    name: str
    bot_id: str
    bot_user: str
    bot_token: str
    app_token: str
    signing_secret: str
    scopes: frozenset[str]
    request_url: str | None = None  # for signed HTTP delivery; without it the app uses Socket Mode
    commands: tuple[Command, ...] = ()
    events: frozenset[str] | None = None  # subscriptions; None: everything that its scopes allow
    shortcuts: tuple[Shortcut, ...] | None = None  # None: any callback id is accepted
    interactivity_url: str | None = None  # for people's actions, if it differs from the request URL
    client_id: str = ""  # identifies the app in OAuth
    client_secret: str = ""
    options_url: str | None = None  # for options of external menus, if it differs from the interactivity URL
    experience: Experience | None = None  # None: no manifest says, and everything works

    @property
    def has_pane(self) -> bool:
        """Whether people can open an assistant pane."""
        return self.experience in (None, Experience.ASSISTANT) and "assistant:write" in self.scopes

    @property
    def has_tab(self) -> bool:
        """Whether the app may be an agent: prompts belong to its Messages tab, and its threads have sessions."""
        return self.experience in (None, Experience.AGENT)


@dataclass(frozen=True, kw_only=True)
class UserGroup:
    """A named group of people, mentioned as `<!subteam^S…>`."""

    id: str
    handle: str  # the name after the @
    name: str
    description: str
    created: int  # seconds since 1970
    members: tuple[str, ...]


class ChannelKind(StrEnum):
    """The kind of a conversation; the value is Slack's `channel_type` in events."""

    PUBLIC = "channel"
    PRIVATE = "group"
    DIRECT = "im"
    GROUP_DIRECT = "mpim"

    @property
    def listed_as(self) -> str:
        """The kind's name in the `types` argument of `conversations.list`."""
        return {"channel": "public_channel", "group": "private_channel"}.get(self.value, self.value)

    @property
    def scope_family(self) -> str:
        """The first part of the kind's scopes, as in `channels:history`."""
        return {"channel": "channels", "group": "groups"}.get(self.value, self.value)


@dataclass(kw_only=True)
class Channel:
    """A conversation. `members` is in the order of joining."""

    id: str
    name: str
    kind: ChannelKind
    created: int  # seconds since 1970
    creator: str
    members: dict[str, None] = field(default_factory=dict)
    topic: str = ""
    purpose: str = ""
    topic_set: tuple[str, int] = ("", 0)  # the user id and the time in seconds since 1970
    purpose_set: tuple[str, int] = ("", 0)
    previous_names: list[str] = field(default_factory=list)
    is_archived: bool = False
    closed_by: set[str] = field(default_factory=set)  # direct conversations: users who have removed it from their list
    last_read: dict[str, str] = field(default_factory=dict)  # the last read message's timestamp, for bots that set it
    shared_with: dict[str, None] = field(default_factory=dict)  # other workspaces, by id
    messages: MessageLog = field(default_factory=MessageLog)
    bookmarks: dict[str, Json] = field(default_factory=dict)  # by id, in Slack's format
