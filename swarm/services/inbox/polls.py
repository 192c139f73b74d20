"""A poll leases due work to the caller, or waits for new work.

A waiting poll does no database work. A poll reads its agent's generation, tries to claim, and waits if it finds
nothing. A transaction that makes work due for the agent either claims the work for a waiting poll of this process or,
after its commit, advances the generation, which wakes all polls of the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import structlog

from swarm.domain.errors import Conflict, RateLimited
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.credentials import AgentTokenCache
from swarm.services.inbox.claim import claim
from swarm.services.inbox.claim_calls import ClaimCall
from swarm.services.inbox.triggers import ClaimContents, Triggers, read_whole
from swarm.services.operate.team import Presence
from swarm.services.work.leases import give_back, lose
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm_base.processes.background import BackgroundTasks

R = TypeVar("R")

MOST_WAITING: Final = 20
"""The maximum number of waiting polls per agent and process. Each run of an agent needs one poll."""

_SEEN_PER_LEASE: Final = 3
"""How often in the time of a lease a waiting poll shows that its instance is there."""

_log = structlog.get_logger(__name__)


class _Waiting:
    """A waiting poll, for which one transaction may claim work."""

    def __init__(self, call: ClaimCall, woken: asyncio.Future[None]) -> None:
        self.call = call
        self.woken = woken
        self.claimed: list[ClaimContents] = []
        self.is_over = False
        self._takers = itertools.count()

    def take(self) -> bool:
        """Returns True to the first caller only; callable from any thread."""
        return next(self._takers) == 0


class Polls:
    """The polling service for agents."""

    def __init__(
        self,
        database: Database,
        triggers: Triggers,
        presence: Presence,
        operating_policy: OperatingPolicy,
        credentials: AgentTokenCache,
    ) -> None:
        self._database = database
        self._triggers = triggers
        self._presence = presence
        self._operating_policy = operating_policy
        self._credentials = credentials
        self._waiting: dict[str, list[_Waiting]] = {}  # by agent, longest waiting first
        self._empty: dict[
            tuple[str | None, ...], int
        ] = {}  # by agent, token, instance: the generation of an empty claim
        self._places_left = sys.maxsize
        self._places_for_leads = 0
        self._giving_back = BackgroundTasks()
        database.hand_over = self._hand_over

    def leave_room(self, connections: int) -> None:
        """Lets waiting polls use three of four ``connections``, the last quarter of these only those of leads. The
        others stay for calls and for ``/readyz``.
        """
        self._places_left = connections * 3 // 4
        self._places_for_leads = self._places_left // 4

    async def poll(
        self, agent: Agent, *, wait_seconds: float, limit: int, hold: bool = False, instance_id: str | None = None
    ) -> list[Trigger]:
        """Returns up to ``limit`` triggers under new leases; an empty list if nothing arrived within ``wait_seconds``.

        Raises Unauthorized if the agent's token has ended in the meantime, Conflict if another instance serves the
        agent, and RateLimited if `MOST_WAITING` polls of the agent are already waiting, or too many of all agents for
        the connections that there may be. After an error or a
        cancellation at any time, the poll leaves nothing leased.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        await self._presence.note(agent)
        call = self.call(agent, limit, hold=hold, instance_id=instance_id)
        queue = (agent.id, agent.token_hash, instance_id)
        while True:
            seen, claimed = self._database.wakeups.generation(agent.id), []
            if self._empty.get(queue) != seen or wait_seconds <= 0:
                claiming = partial(self._database.write_together, claim, call)
                claimed = await self.claimed(agent, claiming, lambda whole: whole)
                self._empty[queue] = seen  # a claim that leaves due work advances the generation
            call = replace(call, may_begin=False)  # the instance may leave while this poll waits
            remaining = deadline - loop.time()
            if not claimed and remaining > 0 and not self._database.wakeups.closed:
                claimed = await self._wait(agent, call, seen, min(remaining, self._unseen_seconds(instance_id)))
                remaining = deadline - loop.time()
                if not claimed and instance_id:
                    self._empty.pop(queue, None)  # the next claim shows that the instance is still there
            if claimed or remaining <= 0 or self._database.wakeups.closed:
                if not claimed:
                    self._empty.pop(queue, None)  # the next poll claims, in case a wakeup was lost
                return await self.describe(agent, claimed)

    def _unseen_seconds(self, instance_id: str | None) -> float:
        """Returns how long a poll may wait before its instance must be seen again."""
        return self._operating_policy.lease_seconds / _SEEN_PER_LEASE if instance_id else float("inf")

    async def _wait(self, agent: Agent, call: ClaimCall, seen: int, seconds: float) -> list[ClaimContents]:
        """Waits for new work. Returns the work that another transaction has claimed for this poll in the meantime."""
        with self._place_to_wait(agent, call) as waiting:
            try:
                await self._database.wakeups.wait(agent.id, seen, seconds, waiting.woken)
            except asyncio.CancelledError:
                if waiting.claimed:
                    await asyncio.shield(self._give_back_all(waiting.claimed))  # completes even if cancelled again
                raise
            return waiting.claimed

    def _hand_over(self, tx: Transaction) -> None:
        """Claims due work for waiting polls in the transaction that makes the work due, which saves them a transaction.

        Runs on one of the database's threads. If this transaction fails, the polls keep waiting, and the next one wakes
        them.
        """
        polls = (next((poll for poll in self._waiting.get(topic, ()) if poll.take()), None) for topic in tx.topics)
        waiting = [poll for poll in polls if poll]
        if not waiting:
            return
        for poll in waiting:
            del tx.topics[poll.call.agent_id]
        for poll, claimed in zip(waiting, claim(tx, [poll.call for poll in waiting], wait=False), strict=True):
            if claimed and not isinstance(claimed, Conflict):
                tx.after_commit(partial(self._give, poll, claimed))
            else:
                tx.wake(poll.call.agent_id)

    def _give(self, waiting: _Waiting, claimed: list[ClaimContents], is_committed: bool) -> None:
        if waiting.is_over or not is_committed:  # the poll ended during the commit, or the outcome is unknown
            self._giving_back.start(self._give_back_all(claimed))
            return
        waiting.claimed = claimed
        if not waiting.woken.done():
            waiting.woken.set_result(None)

    def call(
        self,
        agent: Agent,
        limit: int,
        *,
        hold: bool = False,
        only_notices: bool = False,
        instance_id: str | None = None,
    ) -> ClaimCall:
        """Returns a claim of an agent for `claim`."""
        return ClaimCall(
            agent_id=agent.id,
            limit=limit,
            token_hash=agent.token_hash,
            instance_id=instance_id,
            hold=hold,
            lease_seconds=self._operating_policy.lease_seconds,
            only_notices=only_notices,
        )

    @contextlib.contextmanager
    def _place_to_wait(self, agent: Agent, call: ClaimCall) -> Iterator[_Waiting]:
        others = self._waiting.get(agent.id, [])
        if len(others) >= MOST_WAITING:
            raise RateLimited(
                f"{MOST_WAITING} polls of the agent '{agent.name}' are already waiting.",
                hint="End unused polls, or poll with wait_seconds=0.",
                retry_after_seconds=5,
            )
        if self._places_left <= (0 if agent.role is Role.LEAD else self._places_for_leads):
            raise RateLimited(
                "As many polls are already waiting as this process has connections for.",
                hint="Poll again later, or with wait_seconds=0. The operator can raise the limit of open files.",
                retry_after_seconds=5,
            )
        waiting = _Waiting(call, asyncio.get_running_loop().create_future())
        self._places_left -= 1
        self._waiting[agent.id] = [*others, waiting]  # replaced, not changed, because threads of the database read it
        try:
            yield waiting
        finally:
            waiting.is_over = True
            self._places_left += 1
            left = [poll for poll in self._waiting[agent.id] if poll is not waiting]
            if left:
                self._waiting[agent.id] = left
            else:
                del self._waiting[agent.id]

    async def claimed(
        self, agent: Agent, claim: Callable[[], Awaitable[R]], found_in: Callable[[R], Sequence[ClaimContents]]
    ) -> R:
        """Starts a claiming transaction and returns its result. If the caller disconnects in the meantime, nothing
        stays claimed.
        """
        mark = self._credentials.mark()
        claiming = asyncio.ensure_future(claim())
        try:
            result = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await asyncio.shield(self._undo(claiming, found_in))  # completes even if cancelled again
            raise
        if found_in(result):  # only a claim with a valid token finds something
            self._credentials.confirm(agent, mark)
        return result

    async def _undo(self, claiming: Awaitable[R], found_in: Callable[[R], Sequence[ClaimContents]]) -> None:
        try:
            await self.give_back(_tokens(found_in(await claiming)))
        except Exception as error:  # noqa: BLE001 - the caller has gone; unreturned leases expire
            _log.warning("A claim was not returned after its caller had gone.", action="give_back", error=str(error))

    async def _give_back_all(self, claimed: Sequence[ClaimContents]) -> None:
        await self._undo(asyncio.sleep(0, claimed), lambda found: found)

    async def describe(self, agent: Agent, claimed: list[ClaimContents]) -> list[Trigger]:
        """Returns the triggers of new claims. On an error or a cancellation, the claims are given back.

        Raises Unauthorized, and gives the claims back, if the agent's token has ended in the meantime, because asking
        Slack for names takes some time.
        """
        if not claimed:
            return []
        try:
            whole = [await self._with_thread(contents) for contents in claimed]
            described = await self._triggers.describe(agent, whole)
            await self._credentials.check(agent)
        except BaseException:
            await self.give_back(_tokens(claimed))
            raise
        for contents, trigger in zip(claimed, described, strict=True):
            if isinstance(trigger, BaseException):
                await self._fail(contents, trigger)
        return [trigger for trigger in described if isinstance(trigger, Trigger)]

    async def _with_thread(self, contents: ClaimContents) -> ClaimContents:
        """Reads a long thread, which the claim has left out to keep no other writer waiting."""
        if contents.conversation is None or not contents.conversation.is_long:
            return contents
        (whole,) = await self._database.read(read_whole, [contents.claimed])
        return whole

    async def _fail(self, whole: ClaimContents, error: BaseException) -> None:
        """Counts an attempt for a trigger that cannot be described, so that it is not handed out forever."""
        lease = whole.claimed.lease
        _log.error("a trigger cannot be described", action="describe", trigger=lease.trigger_id, exc_info=error)
        reason = "the coordinator could not prepare it"
        await self._database.write(lose, lease.token, LeaseEnd.FAILED, reason, self._operating_policy)

    async def give_back(self, tokens: Sequence[str]) -> None:
        """Returns claims that reached no caller, without counting an attempt."""
        if tokens:
            await asyncio.shield(self._database.write(give_back, tokens))


def _tokens(claimed: Sequence[ClaimContents]) -> list[str]:
    return [whole.claimed.lease.token for whole in claimed]
