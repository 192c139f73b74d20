"""One call of a Web API method, and the description of a method."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from slack_twin.arguments import Arguments
from slack_twin.directory import Directory
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.messages import Message
from slack_twin.people import App, Channel, ChannelKind
from slack_twin.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call whose token, scope and rate have been checked."""

    workspace: Workspace
    app: App
    args: Arguments
    base_url: str  # of the twin, with a trailing slash
    open_socket: Callable[[App], str]  # returns a WebSocket URL for one connection
    warnings: list[str] = field(default_factory=list)  # Slack's warnings about a successful call

    @property
    def directory(self) -> Directory:
        return self.workspace.directory

    def require(self, *scopes: str) -> None:
        """Requires one of these scopes. Raises `missing_scope`."""
        if self.app.scopes.isdisjoint(scopes):
            raise missing_scope(self.app, *scopes)

    def visible_channel(self, name: str = "channel") -> Channel:
        """Returns the conversation in an argument.

        Raises `channel_not_found`, also for conversations that the bot cannot see.
        """
        channel = self.directory.channels.get(self.args.text(name))
        if channel is None:
            raise SlackError("channel_not_found")
        is_public = channel.kind is ChannelKind.PUBLIC
        if not is_public and self.app.bot_user not in channel.members:
            raise SlackError("channel_not_found")
        return channel

    def joined_channel(self, name: str = "channel") -> Channel:
        """Returns the conversation like `visible_channel`. Raises `not_in_channel` if the bot is not a member."""
        channel = self.visible_channel(name)
        if self.app.bot_user not in channel.members:
            raise SlackError("not_in_channel")
        return channel

    def message(self, channel: Channel, name: str) -> Message:
        """Returns the message whose timestamp is in an argument. Raises `message_not_found`."""
        return self.workspace.message(channel, self.args.timestamp(name))

    def target_message(self) -> tuple[Channel, Message]:
        """Returns the message of `channel` and `timestamp`, for reactions and pins.

        Raises `no_item_specified`, `bad_timestamp`, `channel_not_found`, `not_in_channel`, `message_not_found`.
        """
        if "channel" not in self.args or "timestamp" not in self.args:
            raise SlackError("no_item_specified")
        channel = self.joined_channel()
        try:
            timestamp = self.args.timestamp("timestamp")
        except SlackError:
            raise SlackError("bad_timestamp") from None
        return channel, self.workspace.message(channel, timestamp)

    def own_message(self, channel: Channel, name: str, refusal: str) -> Message:
        """Returns the message like `message`. Raises `refusal` if another app or a person is the author."""
        message = self.message(channel, name)
        if message.app_id != self.app.id:
            raise SlackError(refusal)
        return message


NOBODY = App(
    id="", name="", bot_id="", bot_user="", bot_token="", app_token="", signing_secret="", scopes=frozenset()
)  # stands for a caller without a token


class TokenKind(Enum):
    """The kind of tokens that a method accepts."""

    BOT = auto()
    APP = auto()
    EITHER = auto()
    NONE = auto()  # the method needs no token and ignores one


@dataclass(frozen=True, kw_only=True)
class Method:
    """A Web API method. One of `scopes` is required; an empty set accepts any token."""

    name: str
    handle: Callable[[Call], Json]
    tier: Tier
    scopes: tuple[str, ...] = ()
    token: TokenKind = TokenKind.BOT
    is_post: bool = False  # counts towards the limit of one post per second and channel


def missing_scope(app: App, *needed: str) -> SlackError:
    return SlackError("missing_scope", needed=",".join(needed), provided=",".join(sorted(app.scopes)))
