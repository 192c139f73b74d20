"""The interfaces of the use cases to Slack. Each has at least two implementations: Slack itself, and a fake for
tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Final, Protocol

from swarm.domain.commands import HomeContent
from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted
from swarm.domain.model.files import FileInfo, Share
from swarm.domain.model.threads import AuthorKind, ChannelMessage, SlackMessage
from swarm.domain.model.webhooks import WebhookAnswer
from swarm.domain.policy.access import Person, UserGroup
from swarm.domain.prompts.input import ChannelFacts


class Directory(Protocol):
    """Names and details for ids. Never fails: a failed lookup returns the id itself, or nothing."""

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        """Returns the display name of a user, or the name of a bot."""
        ...

    def known_names(self, wanted: Mapping[str, AuthorKind]) -> dict[str, str]:
        """Returns the names, by author id, that need no request to Slack."""
        ...

    async def channel_name(self, channel_id: str) -> str:
        """Returns a channel's name without ``#``."""
        ...

    async def channel_facts(self, channel_id: str) -> ChannelFacts:
        """Returns a channel's name, topic and purpose; changes are visible within five minutes."""
        ...

    async def user_email(self, user_id: str) -> str | None:
        """Returns a user's e-mail address. Only for channels that share it (`ChannelPolicy.share_email`)."""
        ...


class PersonLookup(Protocol):
    """The lookup of people in Slack."""

    async def person(self, user_id: str, wait_seconds: float) -> Person | None:
        """Returns a person; None if Slack does not answer in time. Never fails."""
        ...

    def known_person(self, user_id: str) -> Person | None:
        """Returns a person if Slack's answer is at hand, without asking."""
        ...


class PeopleFinder(Protocol):
    """The lookup of people whom an agent names. Every method raises Unavailable when Slack cannot be reached, and
    NotFound when it refuses.
    """

    async def user(self, user_id: str) -> Person:
        """Returns a user's profile; also for an unknown user, see `Person.is_known`."""
        ...

    async def user_by_email(self, email: str) -> Person | None:
        """Returns the user with an e-mail address; None if Slack knows none."""
        ...


class NoPeople:
    """A workspace in which nobody is found."""

    async def user(self, user_id: str) -> Person:
        return Person(id=user_id, name=user_id, is_known=False)

    async def user_by_email(self, email: str) -> Person | None:
        return None


NO_PEOPLE: Final = NoPeople()


class HomePublisher(Protocol):
    """The Home tabs of people in Slack."""

    async def publish_home(self, user_id: str, content: HomeContent) -> bool:
        """Shows a person's Home tab. Returns whether Slack has accepted it. Never fails."""
        ...


class UserGroups(Protocol):
    """The lookup of user groups in Slack."""

    async def group_members(self, group_id: str) -> frozenset[str] | None:
        """Returns the user ids of a group's members; None if Slack does not tell them now. Never fails."""
        ...

    async def user_group(self, group_id: str, wait_seconds: float) -> UserGroup | None:
        """Returns a group; None if Slack does not answer in time. Never fails."""
        ...

    def known_group(self, group_id: str) -> UserGroup | None:
        """Returns a group if Slack's answer is at hand, without asking."""
        ...

    def known_members(self, group_id: str) -> frozenset[str] | None:
        """Returns the members if they are known now; otherwise None, and they are looked up for later calls."""
        ...


class PeopleDirectory(PersonLookup, UserGroups, Protocol):
    """The lookup of people and of their user groups."""


class NoGroups:
    """A workspace without user groups."""

    async def group_members(self, group_id: str) -> frozenset[str] | None:
        return None

    async def user_group(self, group_id: str, wait_seconds: float) -> UserGroup | None:
        return None

    def known_group(self, group_id: str) -> UserGroup | None:
        return None

    def known_members(self, group_id: str) -> frozenset[str] | None:
        return None


NO_GROUPS: Final = NoGroups()


class SlackSender(Protocol):
    """The sender of deliveries, with one call for each."""

    def expected_wait_seconds(self, delivery: Delivery) -> float:
        """Returns the expected duration of :meth:`ready`."""
        ...

    async def ready(self, delivery: Delivery) -> None:
        """Waits until Slack's limits allow this call, and Slack accepts the app's token."""
        ...

    @property
    def refused_by(self) -> str | None:
        """Slack's code while it refuses the app's token, and therefore every call."""
        ...

    async def token_accepted(self) -> None:
        """Waits as long as Slack refuses the app's token."""
        ...

    async def deliver(self, delivery: Delivery) -> Answer:
        """Makes the call, once."""
        ...

    async def find(self, delivery: Delivery) -> DeliveryAccepted | None:
        """Searches for a post by the swarm's key. Raises Unavailable when Slack cannot be reached, and RefusedBySlack
        if Slack does not allow the search.
        """
        ...


class SlackReader(Protocol):
    """The reader of messages. Every method raises Unavailable when Slack cannot be reached, and NotFound when it
    refuses.
    """

    async def conversations(self) -> list[str]:
        """Returns the ids of all conversations of the app."""
        ...

    async def read_channel(self, channel: str, oldest: str, limit: int | None = None) -> list[ChannelMessage]:
        """Returns the newest ``limit`` messages of a conversation after ``oldest``, without replies, oldest first."""
        ...

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        """Returns all messages of a thread, oldest first; empty for an unknown thread."""
        ...


class WebhookClient(Protocol):
    """The client that calls other services."""

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Posts a JSON body, once. Never fails."""
        ...


class OpenFile(Protocol):
    """The content of a file, streamed from Slack. It can be read once, and must be closed."""

    @property
    def size_bytes(self) -> int | None:
        """The size, if Slack reports it in advance."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yields the content. Raises TooLarge above the cap, and Unavailable if the connection to Slack breaks."""
        ...

    async def close(self) -> None:
        """Closes the connection."""
        ...


class SlackFiles(Protocol):
    """The transfer of files to and from Slack. Every method raises Unavailable when Slack cannot be reached."""

    async def info(self, file_id: str) -> FileInfo:
        """Returns a file's description. Raises NotFound."""
        ...

    async def open(self, file: FileInfo, cap_bytes: int) -> OpenFile:
        """Opens a file's content. Raises TooLarge, NotFound (not in Slack) or Forbidden (Slack refuses access)."""
        ...

    async def place(self, name: str, size_bytes: int, chunks: AsyncIterable[bytes]) -> str:
        """Uploads content that is still invisible to people. Returns the file's id. Raises Conflict if Slack
        refuses.
        """
        ...

    async def ready_to_share(self) -> None:
        """Waits until Slack's limits allow :meth:`share`."""
        ...

    async def share(self, share: Share) -> Answer:
        """Shares an uploaded file in a thread: one call, never repeated automatically."""
        ...

    async def shared_as(self, file_id: str, channel: str, thread_ts: str) -> str | None:
        """Returns the timestamp of the message that shows a file in a thread; None if Slack currently knows of none."""
        ...
