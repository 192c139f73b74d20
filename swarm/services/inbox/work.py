"""A run's operations on its leases: renew, release and finish.

A renewal shows that the agent is online and also delivers notices; otherwise a run of an hour would learn of an edit
only after its end.
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
from swarm.services.inbox.triggers import ClaimContents
from swarm.services.operate.team import Presence
from swarm.services.rules import leases
from swarm.services.rules.leases import Ended, Renewed
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

NOTIFICATION_LIMIT: Final = 20
"""The maximum number of notices per renewal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """The result of a renewal: the current leases, and notices for the agent, handed out to this call only."""

    renewed: Renewed
    notices: tuple[Trigger, ...]


class Work:
    """Operations of agents on their leases."""

    def __init__(self, database: Database, polls: Polls, presence: Presence, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._polls = polls
        self._presence = presence
        self._operating_policy = operating_policy

    async def renew(self, agent: Agent, tokens: Sequence[str]) -> Heartbeat:
        """Extends leases by their full duration. Without a token, the call only shows that the agent is online."""
        await self._presence.note(agent)
        renewal = self._database.write(_renew, agent, tokens, self._operating_policy.lease_seconds)
        renewed, news = await self._polls.claimed(agent, renewal, itemgetter(1))
        return Heartbeat(renewed=renewed, notices=tuple(await self._polls.describe(agent, news)))

    async def release(self, agent: Agent, tokens: Sequence[str], delay_seconds: float = 0) -> Ended:
        """Gives work back: it is due again at once or after a delay, and the attempt is not counted."""
        return await self._database.write(leases.release, agent, tokens, delay_seconds)

    async def finish(self, agent: Agent, tokens: Sequence[str], outcome: FinishOutcome, reason: str = "") -> Ended:
        """Ends work. Raises Unresolved, without any change, if unanswered work is finished as done."""
        return await self._database.write(leases.finish, agent, tokens, outcome, reason, self._operating_policy)


def _renew(
    tx: Transaction, agent: Agent, tokens: Sequence[str], lease_seconds: float
) -> tuple[Renewed, list[ClaimContents]]:
    renewed = leases.renew(tx, agent, tokens, lease_seconds)
    return renewed, take_notices(tx, agent.id, NOTIFICATION_LIMIT, lease_seconds, agent.token_hash)
