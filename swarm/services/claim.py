"""A poll: lease what is due to the caller, or wait until there is something.

A waiting poll does no database work. It reads its agent's generation, claims, and if there was nothing waits for the
generation to move; whoever stores something for the agent moves it after the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from swarm.domain.agents import Agent
from swarm.domain.conduct import Reactions
from swarm.domain.inbox import BUNDLE_LIMIT, bundle, order_key
from swarm.domain.leases import LeaseEnd, LeaseKind, new_token
from swarm.domain.notices import NoticeStep
from swarm.domain.triggers import Trigger
from swarm.services.leases import give_back, lose
from swarm.services.presence import Presence
from swarm.services.triggers import Triggers
from swarm.store import heads, history, inbox, leases, notices
from swarm.store.database import Database
from swarm.store.inbox import Entry
from swarm.store.leases import Lease
from swarm.store.notices import Notice
from swarm.store.transaction import Transaction

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """What a claim leased: inbox messages of one thread, or a notice."""

    lease: Lease
    entries: tuple[Entry, ...] = ()
    notice: Notice | None = None


class Polls:
    """Serves polling agents."""

    def __init__(self, database: Database, triggers: Triggers, presence: Presence, reactions: Reactions) -> None:
        self._database = database
        self._triggers = triggers
        self._presence = presence
        self._reactions = reactions

    async def poll(self, agent: Agent, *, wait_seconds: float, limit: int, hold: bool = False) -> list[Trigger]:
        """Up to ``limit`` triggers under fresh leases; an empty list when nothing came in ``wait_seconds``.

        Cancelled at any moment, it leaves nothing leased.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        await self._presence.note(agent)
        while True:
            seen = self._database.wakeups.generation(agent.id)
            claimed = await self._claim(agent, limit, hold)
            remaining = deadline - loop.time()
            if claimed or remaining <= 0 or self._database.wakeups.closed:
                return await self.describe(agent, claimed)
            await self._database.wakeups.wait(agent.id, seen, remaining)

    async def _claim(self, agent: Agent, limit: int, hold: bool) -> list[Claimed]:
        """Claim, and see to it that a caller who goes away meanwhile leaves nothing claimed."""
        claim = asyncio.ensure_future(self._database.write(take, agent.id, limit, hold))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            await asyncio.shield(self._undo(claim))  # to its end, also if the caller is cancelled once more
            raise

    async def _undo(self, claim: asyncio.Future[list[Claimed]]) -> None:
        with contextlib.suppress(Exception):  # what could not be claimed need not be given back
            await self.give_back(_tokens(await claim))

    async def describe(self, agent: Agent, claimed: list[Claimed]) -> list[Trigger]:
        """The triggers of what was just claimed; it is given back if they cannot be described, or on cancellation."""
        if not claimed:
            return []
        try:
            described = await self._triggers.describe(agent, claimed)
        except BaseException:
            await self.give_back(_tokens(claimed))
            raise
        for claim, trigger in zip(claimed, described, strict=True):
            if isinstance(trigger, BaseException):
                await self._fail(claim, trigger)
        return [trigger for trigger in described if isinstance(trigger, Trigger)]

    async def _fail(self, claim: Claimed, error: BaseException) -> None:
        """What cannot be described counts an attempt, so that it ends visibly instead of coming for ever."""
        _log.error("a trigger cannot be described", action="describe", trigger=claim.lease.trigger_id, exc_info=error)
        reason = "the coordinator could not describe it"
        await self._database.write(lose, claim.lease, LeaseEnd.FAILED, reason, self._reactions)

    async def give_back(self, tokens: Sequence[str]) -> None:
        """Return what was claimed and reached nobody; no attempt is counted."""
        if tokens:
            await asyncio.shield(self._database.write(give_back, tokens))


def take(tx: Transaction, agent_id: str, limit: int, hold: bool) -> list[Claimed]:
    """Lease up to ``limit`` due triggers, in their order, each under a lease of its own."""
    news = [(order_key(notice.created_at), notice) for notice in notices.unread(tx, agent_id, limit)]
    work = [(head.order_key, head.thread_id) for head in heads.first(tx, agent_id, limit)]
    due: list[tuple[int, Notice | str]] = sorted([*news, *work], key=lambda pair: pair[0])
    claimed = [
        take_notice(tx, what) if isinstance(what, Notice) else _take_thread(tx, agent_id, what, hold)
        for _, what in due[:limit]
    ]
    got = [claim for claim in claimed if claim]
    if len(got) < len(due):  # meanwhile our locks kept others from the rest, so they should look again
        tx.wake(agent_id)
    return got


def take_notices(tx: Transaction, agent_id: str, limit: int) -> list[Claimed]:
    """Lease up to ``limit`` notices, oldest first."""
    claimed = [take_notice(tx, notice) for notice in notices.unread(tx, agent_id, limit)]
    return [claim for claim in claimed if claim]


def take_notice(tx: Transaction, notice: Notice) -> Claimed | None:
    """Lease one notice; it locks nothing."""
    if not notices.move(tx, NoticeStep.CLAIM, notice.id):
        return None
    lease = leases.grant(
        tx, new_token(), LeaseKind.NOTICE, notice.agent_id, notice.thread_id, notice.id, notice.attempts + 1
    )
    return Claimed(lease=lease, notice=notice) if lease else None


def _take_thread(tx: Transaction, agent_id: str, thread_id: str, hold: bool) -> Claimed | None:
    """Lease the thread, then its messages; its head is locked, so that no other claimer is at it.

    The lease comes first: the partial unique index on it is the lock. A lease that got no message is taken back.
    """
    due = inbox.due_of_thread(tx, agent_id, thread_id)
    wanted = due[: bundle([entry.attempts for entry in due])]
    if not wanted:
        heads.refresh(tx, agent_id, thread_id)
        return None
    first = wanted[0]
    lease = leases.grant(tx, new_token(), LeaseKind.WORK, agent_id, thread_id, first.id, first.attempts + 1, hold=hold)
    if lease is None:
        return None
    got = tuple(entry for entry in (inbox.claim(tx, entry, lease.token) for entry in wanted) if entry)
    if not got:
        leases.take_back(tx, lease.token)
        return None
    leases.join(tx, lease.token, [entry.id for entry in got])
    for entry in got:
        history.record(tx, "inbox.claim", entry.id, thread_id=thread_id, agent_id=agent_id)
    if len(got) == len(due) < BUNDLE_LIMIT:
        heads.exhausted(tx, agent_id, thread_id)
    else:
        heads.refresh(tx, agent_id, thread_id)
    return Claimed(lease=lease, entries=got)


def _tokens(claimed: Sequence[Claimed]) -> list[str]:
    return [claim.lease.token for claim in claimed]
