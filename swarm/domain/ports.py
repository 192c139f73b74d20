"""What the use cases need of the world, where there is more than one of it: Slack itself, and a test's stand-in."""

from __future__ import annotations

from typing import Protocol

from swarm.domain.deliveries import Accepted, Answer, Delivery
from swarm.domain.transcript import AuthorKind, SlackMessage


class Directory(Protocol):
    """Names for ids. Never fails: what cannot be looked up goes by its id."""

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        """The display name of a user, or the name of a bot."""
        ...

    async def channel_name(self, channel_id: str) -> str:
        """A channel's name without ``#``."""
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

    async def find(self, delivery: Delivery) -> Accepted | None:
        """Look a post up by our key; raises Unavailable when Slack cannot be asked, NotFound if it will never tell."""
        ...


class SlackReader(Protocol):
    """Reads threads."""

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        """All messages of a thread, all pages, oldest first; raises Unavailable or NotFound."""
        ...
