"""What a run does with the leases it holds: renew them, give them back, finish.

Renewing is a sign of life, and the moment to tell a run the news: a run that works for an hour would otherwise hear of
an edit only after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.inbox.claim import Polls, take_notices
from swarm.services.inbox.claimed import ClaimContents
from swarm.services.operate.presence import Presence
from swarm.services.rules import leases
from swarm.services.rules.leases import Ended, Renewed
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

NOTIFICATION_LIMIT: Final = 20
"""At most so many notices ride on one renewal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """What a renewal answers: the leases as they stand, and news for the agent, handed to this call only."""

    renewed: Renewed
    notices: tuple[Trigger, ...]


class Work:
    """Leases in the hands of agents."""

    def __init__(self, database: Database, polls: Polls, presence: Presence, conduct: OperatingPolicy) -> None:
        self._database = database
        self._polls = polls
        self._presence = presence
        self._conduct = conduct

    async def renew(self, agent: Agent, tokens: Sequence[str]) -> Heartbeat:
        """Prolong leases by their full time. Without any token it is a mere sign of life."""
        await self._presence.note(agent)
        renewal = self._database.write(_renew, agent, tokens, self._conduct.lease_seconds)
        renewed, news = await self._polls.claimed(agent, renewal, itemgetter(1))
        return Heartbeat(renewed=renewed, notices=tuple(await self._polls.describe(agent, news)))

    async def release(self, agent: Agent, tokens: Sequence[str], delay_seconds: float = 0) -> Ended:
        """Give work back: due again at once or after a delay, and no attempt is counted."""
        return await self._database.write(leases.release, agent, tokens, delay_seconds)

    async def finish(self, agent: Agent, tokens: Sequence[str], outcome: FinishOutcome, reason: str = "") -> Ended:
        """End work. Raises Unresolved if it is called done and messages have no answer; then nothing is changed."""
        return await self._database.write(leases.finish, agent, tokens, outcome, reason, self._conduct)


def _renew(
    tx: Transaction, agent: Agent, tokens: Sequence[str], lease_seconds: float
) -> tuple[Renewed, list[ClaimContents]]:
    renewed = leases.renew(tx, agent, tokens, lease_seconds)
    return renewed, take_notices(tx, agent.id, NOTIFICATION_LIMIT, lease_seconds, agent.token_hash)
