"""A poll leases due work to the caller, or waits for new work.

A waiting poll does no database work. The poll reads its agent's generation, tries to claim, and if it finds nothing
waits for a new generation. Each transaction that stores work for the agent advances the generation after the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

import structlog

from swarm.domain.errors import RateLimited
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import BUNDLE_LIMIT, InboxStatus, NoticeKind, NoticeStep, bundle, order_key
from swarm.domain.model.leases import LEASE_SECONDS, LeaseEnd, LeaseKind, new_token
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.triggers import Trigger
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.inbox.triggers import ClaimContents, Claimed, Triggers, read_whole
from swarm.services.operate.team import Presence
from swarm.services.rules.credentials import AgentTokenCache
from swarm.services.rules.leases import give_back, lose
from swarm.services.rules.task_threads import follow_up
from swarm.store import history, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices, queues
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.notices import Notice
from swarm.store.inbox.queues import QueueHead
from swarm.store.tasks import Task

R = TypeVar("R")

MOST_WAITING: Final = 20
"""The maximum number of waiting polls per agent and process. Each run of an agent needs one poll."""


_log = structlog.get_logger(__name__)

_NEWS_WHILE: Final = {
    NoticeKind.TASK_FOLLOW_UP: TaskStatus.IN_PROGRESS,
    NoticeKind.TASK_OFFERED: TaskStatus.OFFERED,
    NoticeKind.TASK_RETURNED: TaskStatus.UNASSIGNED,
}
"""The task status in which a notice of this kind is still relevant."""


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
        self._waiting: Counter[str] = Counter()  # the number of polls per agent

    async def poll(self, agent: Agent, *, wait_seconds: float, limit: int, hold: bool = False) -> list[Trigger]:
        """Returns up to ``limit`` triggers under new leases; an empty list if nothing arrived within ``wait_seconds``.

        Raises Unauthorized if the agent's token has ended in the meantime, and RateLimited if `MOST_WAITING` polls of
        the agent are already waiting. After an error or a cancellation at any time, the poll leaves nothing leased.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        await self._presence.note(agent)
        while True:
            seen = self._database.wakeups.generation(agent.id)
            claim = self._database.write(
                take, agent.id, limit, hold, self._operating_policy.lease_seconds, agent.token_hash
            )
            claimed = await self.claimed(agent, claim, lambda whole: whole)
            remaining = deadline - loop.time()
            if claimed or remaining <= 0 or self._database.wakeups.closed:
                return await self.describe(agent, claimed)
            with self._place_to_wait(agent):
                await self._database.wakeups.wait(agent.id, seen, remaining)

    @contextlib.contextmanager
    def _place_to_wait(self, agent: Agent) -> Iterator[None]:
        if self._waiting[agent.id] >= MOST_WAITING:
            raise RateLimited(
                f"{MOST_WAITING} polls of the agent '{agent.name}' are already waiting.",
                hint="End unused polls, or poll with wait_seconds=0.",
                retry_after_seconds=5,
            )
        self._waiting[agent.id] += 1
        try:
            yield
        finally:
            self._waiting[agent.id] -= 1
            if not self._waiting[agent.id]:
                del self._waiting[agent.id]

    async def claimed(
        self, agent: Agent, claim: Coroutine[Any, Any, R], found_in: Callable[[R], Sequence[ClaimContents]]
    ) -> R:
        """Returns the result of a claiming transaction. If the caller disconnects in the meantime, nothing stays
        claimed.
        """
        mark = self._credentials.mark()
        claiming = asyncio.ensure_future(claim)
        try:
            result = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await asyncio.shield(self._undo(claiming, found_in))  # completes even if cancelled again
            raise
        if found_in(result):  # only a claim with a valid token finds something
            self._credentials.confirm(agent, mark)
        return result

    async def _undo(self, claiming: asyncio.Future[R], found_in: Callable[[R], Sequence[ClaimContents]]) -> None:
        try:
            await self.give_back(_tokens(found_in(await claiming)))
        except Exception as error:  # noqa: BLE001 - the caller has gone; unreturned leases expire
            _log.warning("A claim was not returned after its caller had gone.", action="give_back", error=str(error))

    async def describe(self, agent: Agent, claimed: list[ClaimContents]) -> list[Trigger]:
        """Returns the triggers of new claims. On an error or a cancellation, the claims are given back.

        Raises Unauthorized, and gives the claims back, if the agent's token has ended in the meantime, because asking
        Slack for names takes some time.
        """
        if not claimed:
            return []
        try:
            described = await self._triggers.describe(agent, claimed)
            await self._credentials.check(agent)
        except BaseException:
            await self.give_back(_tokens(claimed))
            raise
        for claim, trigger in zip(claimed, described, strict=True):
            if isinstance(trigger, BaseException):
                await self._fail(claim, trigger)
        return [trigger for trigger in described if isinstance(trigger, Trigger)]

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


def take(
    tx: Transaction,
    agent_id: str,
    limit: int,
    hold: bool,
    lease_seconds: float = LEASE_SECONDS,
    token_hash: str | None = None,
) -> list[ClaimContents]:
    """Leases up to ``limit`` due triggers and reads their contents in one transaction, because a second would cost as
    much.
    """
    claimed = lease_due(tx, agent_id, limit, hold, lease_seconds, token_hash)
    return [read_whole(tx, claim) for claim in claimed]


def lease_due(
    tx: Transaction,
    agent_id: str,
    limit: int,
    hold: bool,
    lease_seconds: float = LEASE_SECONDS,
    token_hash: str | None = None,
) -> list[Claimed]:
    """Leases up to ``limit`` due triggers in order, each under its own lease.

    Returns nothing for a caller with an ended token; the coordinator itself claims without a token.
    """
    news = [(order_key(notice.created_at), notice) for notice in notices.unread(tx, agent_id, limit, token_hash)]
    work = [(head.order_key, head) for head in queues.next_heads(tx, agent_id, limit, token_hash)]
    due: list[tuple[int, Notice | QueueHead]] = sorted([*news, *work], key=lambda pair: pair[0])
    claimed = [
        _take_notice(tx, what, lease_seconds)
        if isinstance(what, Notice)
        else _take_lane(tx, agent_id, what, hold, lease_seconds)
        for _, what in due[:limit]
    ]
    got = [claim for claim in claimed if claim]
    if len(got) < len(due):  # other polls skipped the locked rest and should retry
        tx.wake(agent_id)
    return _told(tx, got)


def take_notices(
    tx: Transaction,
    agent_id: str,
    limit: int,
    lease_seconds: float = LEASE_SECONDS,
    token_hash: str | None = None,
) -> list[ClaimContents]:
    """Leases up to ``limit`` notices, oldest first; none for a caller with an ended token."""
    unread = notices.unread(tx, agent_id, limit, token_hash)
    claimed = [_take_notice(tx, notice, lease_seconds) for notice in unread]
    return [read_whole(tx, claim) for claim in _told(tx, [claim for claim in claimed if claim])]


def _take_notice(tx: Transaction, notice: Notice, lease_seconds: float) -> Claimed | None:
    """Leases one notice without locks. An outdated notice is dropped."""
    if not notices.move(tx, NoticeStep.CLAIM, notice.id):
        return None
    if _is_over(tx, notice):
        notices.move(tx, NoticeStep.FINISH, notice.id)
        return None
    lease = leases.grant(
        tx,
        new_token(),
        LeaseKind.NOTICE,
        notice.agent_id,
        notice.thread_id,
        notice.id,
        notice.attempts + 1,
        seconds=lease_seconds,
    )
    return Claimed(lease=lease, notice=notice) if lease else None


def _is_over(tx: Transaction, notice: Notice) -> bool:
    """Whether a notice is outdated.

    A follow-up is outdated if it was answered, or if its task no longer runs, so that it arrives as a message; an offer
    after its end; a returned task after its assignment.
    """
    wanted = _NEWS_WHILE.get(notice.kind)
    task = tasks.get(tx, notice.task_id) if notice.task_id and wanted else None
    if wanted and (task is None or task.status is not wanted):
        return True
    if notice.kind is not NoticeKind.TASK_FOLLOW_UP or notice.inbox_message_id is None:
        return False
    inbox_message = inbox.get(tx, notice.inbox_message_id)
    return (
        inbox_message is None
        or inbox_message.agent_id != notice.agent_id
        or inbox_message.status is not InboxStatus.UNREAD
    )


def _take_lane(tx: Transaction, agent_id: str, head: QueueHead, hold: bool, lease_seconds: float) -> Claimed | None:
    """Leases the first work of a lane: a task or the due messages.

    The queue head is locked, so no other poll claims from this lane. The lease is stored first, because its partial
    unique index is the lock. A lease without work is removed again.
    """
    due = inbox.due_of_thread(tx, agent_id, head.lane_id)
    task = tasks.first_due(tx, agent_id, head.lane_id) if head.has_tasks else None
    if task and not (due and order_key(due[0].created_at) < task.order_key):
        return _take_task(tx, task, hold, lease_seconds)
    if not due:
        queues.refresh(tx, agent_id, head.lane_id)
        return None
    return _take_messages(tx, agent_id, head, due, hold, lease_seconds)


def _take_messages(
    tx: Transaction, agent_id: str, head: QueueHead, due: list[InboxMessage], hold: bool, lease_seconds: float
) -> Claimed | None:
    thread_id = head.lane_id
    wanted = due[: bundle([inbox_message.attempts for inbox_message in due])]
    first = wanted[0]
    lease = leases.grant(
        tx,
        new_token(),
        LeaseKind.WORK,
        agent_id,
        thread_id,
        first.id,
        first.attempts + 1,
        seconds=lease_seconds,
        hold=hold,
    )
    if lease is None:
        return None
    got = tuple(
        inbox_message
        for inbox_message in (inbox.claim(tx, inbox_message, lease.token) for inbox_message in wanted)
        if inbox_message
    )
    if not got:
        leases.take_back(tx, lease.token)
        return None
    leases.join(tx, lease.token, [inbox_message.id for inbox_message in got])
    for inbox_message in got:
        history.record(tx, "inbox.claim", inbox_message.id, thread_id=thread_id, agent_id=agent_id)
    if len(got) == len(due) < BUNDLE_LIMIT and not head.has_tasks:
        queues.exhausted(tx, agent_id, thread_id)
    else:
        queues.refresh(tx, agent_id, thread_id)
    return Claimed(lease=lease, inbox_messages=got)


def _take_task(tx: Transaction, task: Task, hold: bool, lease_seconds: float) -> Claimed | None:
    """Leases a task. Unread messages do not wait for the end of the task, because its agent gets them as notices."""
    assert task.agent_id is not None  # found as due for an agent
    lease = leases.grant(
        tx,
        new_token(),
        LeaseKind.WORK,
        task.agent_id,
        task.thread_id,
        task.id,
        task.attempts + 1,
        seconds=lease_seconds,
        hold=hold,
        task_id=task.id,
    )
    if lease is None:
        return None
    claimed = tasks.claim(tx, task, lease.token)
    if claimed is None:
        leases.take_back(tx, lease.token)
        return None
    for inbox_message in inbox.unread_of_lane(tx, task.agent_id, task.lane_id):
        follow_up(tx, claimed, inbox_message)
    queues.refresh(tx, task.agent_id, task.lane_id)
    return Claimed(lease=lease, task=claimed)


def _told(tx: Transaction, claimed: list[Claimed]) -> list[Claimed]:
    """Reports the claims as metric events and returns them."""
    for claim in claimed:
        tx.note(claim.told(tx.now))
    return claimed


def _tokens(claimed: Sequence[ClaimContents]) -> list[str]:
    return [whole.claimed.lease.token for whole in claimed]
