"""A run's operations on its leases: renew, release and finish.

A renewal shows that the agent is online and also delivers notices; otherwise a run of an hour would learn of an edit
only after its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final

from swarm.domain.errors import SwarmError
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.inbox.claim import ClaimCall, claim
from swarm.services.inbox.polls import Polls
from swarm.services.inbox.triggers import ClaimContents
from swarm.services.operate.team import Presence
from swarm.services.rules import leases
from swarm.services.rules.leases import Ended, FinishCall, Renewed
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases as stored_leases

NOTIFICATION_LIMIT: Final = 20
"""The maximum number of notices per renewal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """The result of a renewal: the current leases, and notices for the agent, handed out to this call only."""

    renewed: Renewed
    notices: tuple[Trigger, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedWork:
    """The given tokens, divided into leases ended now and leases lost earlier, and the next triggers."""

    ended: tuple[str, ...]
    lost: tuple[str, ...]
    triggers: tuple[Trigger, ...]


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
        call = _RenewCall(
            agent=agent, tokens=tuple(tokens), claim=self._polls.call(agent, NOTIFICATION_LIMIT, only_notices=True)
        )
        renewal = partial(self._database.write_together, _renew, call)
        renewed, news = await self._polls.claimed(agent, renewal, itemgetter(1))
        return Heartbeat(renewed=renewed, notices=tuple(await self._polls.describe(agent, news)))

    async def release(self, agent: Agent, tokens: Sequence[str], delay_seconds: float = 0) -> Ended:
        """Gives work back: it is due again at once or after a delay, and the attempt is not counted."""
        return await self._database.write(leases.release, agent, tokens, delay_seconds)

    async def set_aside(self, agent: Agent, token: str) -> None:
        """Ends the notice of another agent's message, which stays unread for `read-messages`."""
        await self._database.write(_set_aside, agent, token, self._operating_policy)

    async def finish(
        self, agent: Agent, tokens: Sequence[str], outcome: FinishOutcome, reason: str = "", next_limit: int = 0
    ) -> FinishedWork:
        """Ends work, and claims up to ``next_limit`` due triggers in the same transaction.

        Raises Unresolved, without any change, if unanswered work is finished as done. If the caller disconnects in the
        meantime, the work has ended, but nothing stays claimed.
        """
        ending = FinishCall(
            agent=agent,
            tokens=tuple(tokens),
            outcome=outcome,
            reason=reason,
            operating_policy=self._operating_policy,
        )
        if next_limit:
            await self._presence.note(agent)
        call = _FinishCall(ending=ending, claim=self._polls.call(agent, next_limit))
        finishing = partial(self._database.write_together, _finish, call)
        ended, claimed = await self._polls.claimed(agent, finishing, itemgetter(1))
        try:
            triggers = await self._polls.describe(agent, claimed)
        except SwarmError:  # the claims were given back, but the work has ended: the caller must not finish it again
            triggers = []
        return FinishedWork(ended=ended.ended, lost=ended.lost, triggers=tuple(triggers))


def _set_aside(tx: Transaction, agent: Agent, token: str, operating_policy: OperatingPolicy) -> None:
    lease = stored_leases.get(tx, token, agent.id)
    if lease:
        leases.end_notice(tx, lease, operating_policy, is_heard=True, is_read=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RenewCall:
    agent: Agent
    tokens: tuple[str, ...]
    claim: ClaimCall


def _renew(tx: Transaction, calls: Sequence[_RenewCall]) -> list[tuple[Renewed, list[ClaimContents]]]:
    renewed = leases.renew(tx, [(call.agent, call.tokens) for call in calls], calls[0].claim.lease_seconds)
    return list(zip(renewed, claim(tx, [call.claim for call in calls], wait=False), strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class _FinishCall:
    ending: FinishCall
    claim: ClaimCall


def _finish(tx: Transaction, calls: Sequence[_FinishCall]) -> list[tuple[Ended, list[ClaimContents]] | SwarmError]:
    results = leases.finish(tx, [call.ending for call in calls])
    wanted = [
        call.claim
        for call, result in zip(calls, results, strict=True)
        if call.claim.limit and not isinstance(result, SwarmError)
    ]
    claimed = dict(zip(map(id, wanted), claim(tx, wanted, wait=False) if wanted else (), strict=True))
    return [
        result if isinstance(result, SwarmError) else (result, claimed.get(id(call.claim), []))
        for call, result in zip(calls, results, strict=True)
    ]
