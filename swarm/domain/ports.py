"""The use cases' interfaces to Slack, each with more than one implementation: Slack itself, and a test's fake."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Protocol

from swarm.domain.access import Person
from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted
from swarm.domain.model.files import FileInfo, Share
from swarm.domain.model.threads import AuthorKind, ChannelMessage, SlackMessage
from swarm.domain.prompts.input import ChannelFacts


class Directory(Protocol):
    """Names and details for ids. Never fails: a failed lookup gives the id itself, or nothing."""

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        """Returns the display name of a user, or the name of a bot."""
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
    """Looks up people in Slack."""

    async def person(self, user_id: str, wait_seconds: float) -> Person | None:
        """Returns a person; None without an answer in time. Never fails."""
        ...


class SlackSender(Protocol):
    """Sends deliveries, one call each."""

    def expected_wait_seconds(self, delivery: Delivery) -> float:
        """Returns the expected duration of :meth:`ready`."""
        ...

    async def ready(self, delivery: Delivery) -> None:
        """Waits until Slack's limits allow this call."""
        ...

    async def deliver(self, delivery: Delivery) -> Answer:
        """Makes the call, once."""
        ...

    async def find(self, delivery: Delivery) -> DeliveryAccepted | None:
        """Looks up a post by our key. Raises Unavailable when Slack cannot be asked, NotFound if it can never tell."""
        ...


class SlackReader(Protocol):
    """Reads messages. Every method raises Unavailable when Slack cannot be asked, NotFound when it refuses."""

    async def conversations(self) -> list[str]:
        """Returns the ids of all conversations of the app."""
        ...

    async def read_channel(self, channel: str, oldest: str, limit: int | None = None) -> list[ChannelMessage]:
        """Returns a conversation's messages after ``oldest``, without replies, oldest first; the newest ``limit``."""
        ...

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        """Returns all messages of a thread, oldest first; empty for an unknown one."""
        ...


class OpenFile(Protocol):
    """The content of a file, streamed from Slack. Can be read once, and must be closed."""

    @property
    def size_bytes(self) -> int | None:
        """The size, if Slack gives it in advance."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yields the content. Raises TooLarge past the cap, Unavailable if Slack breaks off."""
        ...

    async def close(self) -> None:
        """Closes the connection."""
        ...


class SlackFiles(Protocol):
    """Streams files to and from Slack. Every method raises Unavailable when Slack cannot be asked."""

    async def info(self, file_id: str) -> FileInfo:
        """Returns a file's description. Raises NotFound."""
        ...

    async def open(self, file: FileInfo, cap_bytes: int) -> OpenFile:
        """Opens a file's content. Raises TooLarge, NotFound (not in Slack) or Forbidden (Slack refuses access)."""
        ...

    async def place(self, name: str, size_bytes: int, chunks: AsyncIterable[bytes]) -> str:
        """Uploads content, still invisible to people; returns the file's id. Raises Conflict if Slack refuses."""
        ...

    async def ready_to_share(self) -> None:
        """Waits until Slack's limits allow :meth:`share`."""
        ...

    async def share(self, share: Share) -> Answer:
        """Shares an uploaded file in a thread: one call, never repeated automatically."""
        ...

    async def shared_as(self, file_id: str, channel: str, thread_ts: str) -> str | None:
        """Returns the timestamp of the message that shows a file in a thread; None if Slack knows of none now."""
        ...
