"""A run's operations on its leases: renew, release and finish.

A renewal shows that the agent is online and also delivers notices; otherwise a run of an hour would learn of an edit
only after its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final, TypeVar

from swarm.domain.errors import SwarmError
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.inbox.claim import claim
from swarm.services.inbox.claim_calls import ClaimCall, admit
from swarm.services.inbox.polls import Polls
from swarm.services.inbox.triggers import ClaimContents
from swarm.services.operate.team import Presence
from swarm.services.work import leases
from swarm.services.work.leases import Ended, FinishCall, Renewed
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases as stored_leases

_Call = TypeVar("_Call", "_RenewCall", "_FinishCall")
_Result = TypeVar("_Result")

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

    async def renew(
        self,
        agent: Agent,
        tokens: Sequence[str],
        instance_id: str | None = None,
        parked_seconds: float | None = None,
    ) -> Heartbeat:
        """Extends leases by their full duration. Without a token, the call only shows that the agent is online, and
        with ``parked_seconds`` people see for how long it takes no work.

        Raises Conflict if another instance serves the agent. A call that names no instance only extends leases then,
        without notices.
        """
        await self._presence.note(agent)
        if parked_seconds is not None:
            await self._database.write(agents.park, agent.id, parked_seconds)
        call = _RenewCall(
            agent=agent,
            tokens=tuple(tokens),
            claim=self._polls.call(agent, NOTIFICATION_LIMIT, only_notices=True, instance_id=instance_id),
        )
        renewal = partial(self._database.write_together, _renew, call)
        renewed, news = await self._polls.claimed(agent, renewal, itemgetter(1))
        return Heartbeat(renewed=renewed, notices=tuple(await self._polls.describe(agent, news)))

    async def release(self, agent: Agent, tokens: Sequence[str], delay_seconds: float = 0) -> Ended:
        """Gives work back: it is due again at once or after a delay, and the attempt is not counted."""
        return await self._database.write(leases.release, agent, tokens, delay_seconds)

    async def set_aside(self, agent: Agent, token: str) -> None:
        """Ends the notice of another agent's message, which stays unread for `read-messages`."""
        await self._database.write(self._set_aside, agent, token)

    def _set_aside(self, tx: Transaction, agent: Agent, token: str) -> None:
        lease = stored_leases.get(tx, token, agent.id)
        if lease:
            leases.end_notice(tx, lease, self._operating_policy, is_heard=True, is_read=False)

    async def finish(
        self,
        agent: Agent,
        tokens: Sequence[str],
        outcome: FinishOutcome,
        reason: str = "",
        next_limit: int = 0,
        instance_id: str | None = None,
    ) -> FinishedWork:
        """Ends work, and claims up to ``next_limit`` due triggers in the same transaction.

        Raises, without any change, Unresolved if unanswered work is finished as done, and Conflict if another instance
        serves the agent; a call that names no instance only ends the work then. If the caller disconnects in the
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
        call = _FinishCall(ending=ending, claim=self._polls.call(agent, next_limit, instance_id=instance_id))
        finishing = partial(self._database.write_together, _finish, call)
        ended, claimed = await self._polls.claimed(agent, finishing, itemgetter(1))
        try:
            triggers = await self._polls.describe(agent, claimed)
        except SwarmError:  # the claims were given back, but the work has ended: the caller must not finish it again
            triggers = []
        return FinishedWork(ended=ended.ended, lost=ended.lost, triggers=tuple(triggers))


@dataclass(frozen=True, kw_only=True, slots=True)
class _RenewCall:
    agent: Agent
    tokens: tuple[str, ...]
    claim: ClaimCall


def _renew(tx: Transaction, calls: Sequence[_RenewCall]) -> list[tuple[Renewed, list[ClaimContents]] | SwarmError]:
    def act(admitted: Sequence[_RenewCall]) -> list[tuple[Renewed, list[ClaimContents]] | SwarmError]:
        wanted = [(call.agent, call.tokens) for call in admitted]
        renewed = leases.renew(tx, wanted, admitted[0].claim.lease_seconds)
        return list(zip(renewed, _claim(tx, [call.claim for call in admitted]), strict=True))

    return _of_instances(tx, calls, act)


@dataclass(frozen=True, kw_only=True, slots=True)
class _FinishCall:
    ending: FinishCall
    claim: ClaimCall


def _finish(tx: Transaction, calls: Sequence[_FinishCall]) -> list[tuple[Ended, list[ClaimContents]] | SwarmError]:
    def act(admitted: Sequence[_FinishCall]) -> list[tuple[Ended, list[ClaimContents]] | SwarmError]:
        results = leases.finish(tx, [call.ending for call in admitted])
        wanted = [
            call.claim
            for call, result in zip(admitted, results, strict=True)
            if call.claim.limit and not isinstance(result, SwarmError)
        ]
        claimed = dict(zip(map(id, wanted), _claim(tx, wanted) if wanted else (), strict=True))
        return [
            result if isinstance(result, SwarmError) else (result, claimed.get(id(call.claim), []))
            for call, result in zip(admitted, results, strict=True)
        ]

    return _of_instances(tx, calls, act)


def _claim(tx: Transaction, calls: Sequence[ClaimCall]) -> list[list[ClaimContents]]:
    """Claims for calls whose leases prove their right to end or extend work, but not to get more of it."""
    return [[] if isinstance(found, SwarmError) else found for found in claim(tx, calls, wait=False)]


def _of_instances(
    tx: Transaction, calls: Sequence[_Call], act: Callable[[Sequence[_Call]], Sequence[_Result | SwarmError]]
) -> list[_Result | SwarmError]:
    """Acts for all calls except those of a second instance of an agent. Checked first, before any lease is locked."""
    named = [call.claim for call in calls if call.claim.instance_id]
    answers = dict(zip(map(id, named), admit(tx, named), strict=True)) if named else {}
    refused = {key: answer for key, answer in answers.items() if isinstance(answer, SwarmError)}
    admitted = [call for call in calls if id(call.claim) not in refused]
    results = iter(act(admitted) if admitted else ())
    return [refused[id(call.claim)] if id(call.claim) in refused else next(results) for call in calls]
