"""What the use cases need of the world, where there is more than one of it: Slack itself, and a test's stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Protocol

from swarm.domain.access import Person
from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted
from swarm.domain.model.files import FileInfo, Share
from swarm.domain.model.threads import AuthorKind, ChannelMessage, SlackMessage
from swarm.domain.prompts.client_context import ChannelFacts


class Directory(Protocol):
    """Names for ids, and what is behind them. Never fails: what cannot be looked up goes by its id, or is left out."""

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        """The display name of a user, or the name of a bot."""
        ...

    async def channel_name(self, channel_id: str) -> str:
        """A channel's name without ``#``."""
        ...

    async def channel_facts(self, channel_id: str) -> ChannelFacts:
        """What a channel is called and about; changes show within five minutes."""
        ...

    async def user_email(self, user_id: str) -> str | None:
        """Somebody's e-mail address. Ask only where the channel shares it (`ChannelPolicy.share_email`)."""
        ...


class PersonLookup(Protocol):
    """Who people are, as Slack says."""

    async def person(self, user_id: str, wait_seconds: float) -> Person | None:
        """Somebody as Slack knows them; None if it does not say in time. Never fails."""
        ...


class SlackSender(Protocol):
    """Sends deliveries, one call each."""

    def expected_wait_seconds(self, delivery: Delivery) -> float:
        """How long :meth:`ready` would take, as far as can be foreseen."""
        ...

    async def ready(self, delivery: Delivery) -> None:
        """Wait until Slack's limits leave room for this call."""
        ...

    async def deliver(self, delivery: Delivery) -> Answer:
        """Make the call, once."""
        ...

    async def find(self, delivery: Delivery) -> DeliveryAccepted | None:
        """Look a post up by our key; raises Unavailable when Slack cannot be asked, NotFound if it will never tell."""
        ...


class SlackReader(Protocol):
    """Reads what was said. Everything raises Unavailable when Slack cannot be asked, NotFound when it refuses."""

    async def conversations(self) -> list[str]:
        """The ids of all conversations that we are in."""
        ...

    async def read_channel(self, channel: str, oldest: str, limit: int | None = None) -> list[ChannelMessage]:
        """What was said in a conversation after ``oldest``, without replies, oldest first; the newest ``limit``."""
        ...

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        """All messages of a thread, all pages, oldest first; empty if there is none."""
        ...


class OpenFile(Protocol):
    """The content of a file on its way from Slack: read it once, and close it in any case."""

    @property
    def size_bytes(self) -> int | None:
        """How much there is, where Slack says so in advance."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The content, piece by piece; raises TooLarge past the cap, Unavailable if Slack breaks off."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class SlackFiles(Protocol):
    """Moves files to and from Slack, streamed. Everything raises Unavailable when Slack cannot be asked."""

    async def info(self, file_id: str) -> FileInfo:
        """What a file is; raises NotFound."""
        ...

    async def open(self, file: FileInfo, cap_bytes: int) -> OpenFile:
        """Its content; raises TooLarge, NotFound if it is not in Slack, Forbidden if Slack does not give it to us."""
        ...

    async def place(self, name: str, size_bytes: int, chunks: AsyncIterable[bytes]) -> str:
        """Bring content to Slack, seen by nobody yet; the file's id. Raises Conflict with Slack's reason to refuse."""
        ...

    async def ready_to_share(self) -> None:
        """Wait until Slack's limits leave room for :meth:`share`."""
        ...

    async def share(self, share: Share) -> Answer:
        """Show a placed file in a thread: one call, never repeated by itself."""
        ...

    async def shared_as(self, file_id: str, channel: str, thread_ts: str) -> str | None:
        """The timestamp of the message that shows a file in a thread; None if Slack knows of none now."""
        ...
