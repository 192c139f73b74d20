"""A poll leases due work to the caller, or waits for new work.

A waiting poll does no database work. The poll reads its agent's generation, tries to claim, and if it finds nothing
waits for a new generation. Each transaction that stores work for the agent advances the generation after the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeVar

import structlog

from swarm.clock import SECOND
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
from swarm.store import agents, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices, queues
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.leases import Lease
from swarm.store.inbox.notices import Notice
from swarm.store.inbox.queues import QueueHead
from swarm.store.tasks import Task

R = TypeVar("R")

MOST_WAITING: Final = 20
"""The maximum number of waiting polls per agent and process. Each run of an agent needs one poll."""

LONG_THREAD: Final = 200
"""A claim reads a thread with more messages than this after its commit."""

_log = structlog.get_logger(__name__)

_NEWS_WHILE: Final = {
    NoticeKind.TASK_FOLLOW_UP: TaskStatus.IN_PROGRESS,
    NoticeKind.TASK_OFFERED: TaskStatus.OFFERED,
    NoticeKind.TASK_RETURNED: TaskStatus.UNASSIGNED,
}
"""The task status in which a notice of this kind is still relevant."""


class _Waiting:
    """A waiting poll, for which one transaction may claim work."""

    def __init__(self, call: ClaimCall, woken: asyncio.Future[None]) -> None:
        self.call = call
        self.woken = woken
        self.claimed: list[ClaimContents] = []
        self.is_over = False
        self._takers = itertools.count()

    def take(self) -> bool:
        """Returns True to the first caller only, on any thread."""
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
        self._empty: dict[tuple[str, str | None], int] = {}  # by agent and token: the generation of an empty claim
        self._giving_back: set[asyncio.Task[None]] = set()
        database.hand_over = self._hand_over

    async def poll(self, agent: Agent, *, wait_seconds: float, limit: int, hold: bool = False) -> list[Trigger]:
        """Returns up to ``limit`` triggers under new leases; an empty list if nothing arrived within ``wait_seconds``.

        Raises Unauthorized if the agent's token has ended in the meantime, and RateLimited if `MOST_WAITING` polls of
        the agent are already waiting. After an error or a cancellation at any time, the poll leaves nothing leased.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        await self._presence.note(agent)
        call, queue = self.call(agent, limit, hold=hold), (agent.id, agent.token_hash)
        while True:
            seen, claimed = self._database.wakeups.generation(agent.id), []
            if self._empty.get(queue) != seen or wait_seconds <= 0:
                claiming = self._database.write_together(claim, call)
                claimed = await self.claimed(agent, claiming, lambda whole: whole)
                self._empty[queue] = seen  # a claim that leaves due work advances the generation
            remaining = deadline - loop.time()
            if not claimed and remaining > 0 and not self._database.wakeups.closed:
                claimed = await self._wait(agent, call, seen, remaining)
                remaining = deadline - loop.time()
            if claimed or remaining <= 0 or self._database.wakeups.closed:
                if not claimed:
                    self._empty.pop(queue, None)  # the next poll claims, in case a wakeup was lost
                return await self.describe(agent, claimed)

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

        Runs on a thread of the database. If this transaction fails, the poll waits on, and is woken by the next one.
        """
        polls = (next((poll for poll in self._waiting.get(topic, ()) if poll.take()), None) for topic in tx.topics)
        waiting = [poll for poll in polls if poll]
        if not waiting:
            return
        for poll in waiting:
            del tx.topics[poll.call.agent_id]
        for poll, claimed in zip(waiting, claim(tx, [poll.call for poll in waiting], wait=False), strict=True):
            if claimed:
                tx.after_commit(partial(self._give, poll, claimed))
            else:
                tx.wake(poll.call.agent_id)

    def _give(self, waiting: _Waiting, claimed: list[ClaimContents], is_committed: bool) -> None:
        if waiting.is_over or not is_committed:  # the poll ended during the commit, or the outcome is unknown
            giving_back = asyncio.ensure_future(self._give_back_all(claimed))
            self._giving_back.add(giving_back)
            giving_back.add_done_callback(self._giving_back.discard)
            return
        waiting.claimed = claimed
        if not waiting.woken.done():
            waiting.woken.set_result(None)

    def call(self, agent: Agent, limit: int, *, hold: bool = False, only_notices: bool = False) -> ClaimCall:
        """Returns a claim of an agent for `claim`."""
        return ClaimCall(
            agent_id=agent.id,
            limit=limit,
            token_hash=agent.token_hash,
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
        waiting = _Waiting(call, asyncio.get_running_loop().create_future())
        self._waiting[agent.id] = [*others, waiting]  # replaced, not changed, because threads of the database read it
        try:
            yield waiting
        finally:
            waiting.is_over = True
            left = [poll for poll in self._waiting[agent.id] if poll is not waiting]
            if left:
                self._waiting[agent.id] = left
            else:
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
        for claim, trigger in zip(claimed, described, strict=True):
            if isinstance(trigger, BaseException):
                await self._fail(claim, trigger)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimCall:
    """One call that claims up to ``limit`` triggers of an agent."""

    agent_id: str
    limit: int
    token_hash: str | None = None  # of the caller's token; None: the coordinator itself
    hold: bool = False
    lease_seconds: float = LEASE_SECONDS
    only_notices: bool = False


def claim(tx: Transaction, calls: Sequence[ClaimCall], *, wait: bool = True) -> list[list[ClaimContents]]:
    """Leases due triggers in order, each under its own lease, and reads their contents in the same transaction, because
    a second one would cost as much.

    Returns nothing for a call with an ended token. Of several calls of one agent, the first gets the first triggers.
    Without ``wait``, a call also gets nothing while its token is being rotated; a transaction that has locked anything
    must not wait for this.
    """
    claimed = lease_due(tx, calls, wait=wait)
    contents = iter(read_whole(tx, [one for of_call in claimed for one in of_call], LONG_THREAD))
    return [[next(contents) for _ in of_call] for of_call in claimed]


def lease_due(tx: Transaction, calls: Sequence[ClaimCall], *, wait: bool = True) -> list[list[Claimed]]:
    """Leases due triggers like `claim`, without reading their contents."""
    chosen = _choose(tx, calls, wait)
    lanes = [what.lane for due in chosen for what in due if isinstance(what, QueueHead)]
    messages, first_tasks = inbox.due_of_lanes(tx, lanes), tasks.first_due(tx, lanes)
    planned: list[list[Claimed]] = []
    for call, due in zip(calls, chosen, strict=True):
        plans = (
            _plan_notice(tx, call, what)
            if isinstance(what, Notice)
            else _plan_lane(tx, call, what.lane_id, messages.get(what.lane, []), first_tasks.get(what.lane))
            for what in due
        )
        planned.append([plan for plan in plans if plan])
    granted = _grant(tx, [plan for plans in planned for plan in plans])
    _refresh_heads(tx, lanes, granted.values(), messages, first_tasks)
    claimed = [[granted[plan.lease.token] for plan in plans if plan.lease.token in granted] for plans in planned]
    for call, due, got in zip(calls, chosen, claimed, strict=True):
        if len(got) < len(due):  # the rest was outdated, or another run holds its thread
            tx.wake(call.agent_id)
    for one in granted.values():
        tx.note(one.told(tx.now))
    return claimed


def _choose(tx: Transaction, calls: Sequence[ClaimCall], wait: bool) -> list[list[Notice | QueueHead]]:
    """Returns the first due notices and queue heads for each call, locked."""
    valid = agents.valid_tokens(tx, {call.token_hash for call in calls if call.token_hash}, wait=wait)
    rooms = [call.limit if not call.token_hash or (call.token_hash, call.agent_id) in valid else 0 for call in calls]
    room = Counter[str]()
    for call, limit in zip(calls, rooms, strict=True):
        room[call.agent_id] += limit
    due: dict[str, list[tuple[int, Notice | QueueHead]]] = {agent_id: [] for agent_id in room}
    wanted = sorted(agent_id for agent_id, limit in room.items() if limit)
    most = max(room.values(), default=0) + 1  # shows whether anything is left
    for notice in notices.unread(tx, wanted, most):
        due[notice.agent_id].append((order_key(notice.created_at), notice))
    working = {call.agent_id for call in calls if not call.only_notices}
    for head in queues.next_heads(tx, [agent_id for agent_id in wanted if agent_id in working], most):
        due[head.agent_id].append((head.order_key, head))
    for found in due.values():
        found.sort(key=itemgetter(0))
    chosen = [_share(due[call.agent_id], call, limit) for call, limit in zip(calls, rooms, strict=True)]
    for agent_id, left in due.items():
        if left:  # for the next poll; other processes have skipped it, because it is locked until the commit
            tx.wake(agent_id)
    return chosen


def _share(due: list[tuple[int, Notice | QueueHead]], call: ClaimCall, limit: int) -> list[Notice | QueueHead]:
    """Removes the share of a call from the due work of its agent, and returns it."""
    fitting = [pair for pair in due if isinstance(pair[1], Notice) or not call.only_notices][:limit]
    for pair in fitting:
        due.remove(pair)
    return [what for _, what in fitting]


def _plan_notice(tx: Transaction, call: ClaimCall, notice: Notice) -> Claimed | None:
    """Returns the claim of a notice, which needs no lock of its thread. An outdated notice is dropped."""
    if not notices.move(tx, NoticeStep.CLAIM, notice.id):
        return None
    if _is_over(tx, notice):
        notices.move(tx, NoticeStep.FINISH, notice.id)
        return None
    lease = _lease(tx, call, LeaseKind.NOTICE, notice.thread_id, notice.id, notice.attempts)
    return Claimed(lease=lease, notice=notice)


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


def _plan_lane(
    tx: Transaction, call: ClaimCall, lane_id: str, due: list[InboxMessage], task: Task | None
) -> Claimed | None:
    """Returns the claim of the first work in a lane, a task or the due messages; None if nothing is due.

    The queue head is locked, so no other poll claims from this lane.
    """
    if task and not (due and order_key(due[0].created_at) < task.order_key):
        lease = _lease(tx, call, LeaseKind.WORK, task.thread_id, task.id, task.attempts, task.id)
        return Claimed(lease=lease, task=task)
    if not due:
        return None
    wanted = due[: bundle([inbox_message.attempts for inbox_message in due])]
    lease = _lease(tx, call, LeaseKind.WORK, lane_id, wanted[0].id, wanted[0].attempts)
    return Claimed(lease=lease, inbox_messages=tuple(wanted))


def _lease(
    tx: Transaction,
    call: ClaimCall,
    kind: LeaseKind,
    thread_id: str | None,
    trigger_id: str,
    attempts: int,
    task_id: str | None = None,
) -> Lease:
    return Lease(
        token=new_token(),
        kind=kind,
        agent_id=call.agent_id,
        thread_id=thread_id,
        trigger_id=trigger_id,
        attempt=attempts + 1,
        hold=call.hold and kind is LeaseKind.WORK,
        expires_at=tx.now + int(call.lease_seconds * SECOND),
        ended_as=None,
        task_id=task_id,
    )


def _grant(tx: Transaction, planned: Sequence[Claimed]) -> dict[str, Claimed]:
    """Stores the leases and puts the work under them. Returns the claims that got their work, by token.

    The leases are stored first, because their partial unique index is the lock of a thread. A lease without work is
    removed again.
    """
    held = {lease.token for lease in leases.grant(tx, [plan.lease for plan in planned])}
    plans = {plan.lease.token: plan for plan in planned if plan.lease.token in held}
    messages: dict[str, list[InboxMessage]] = {}
    for message in inbox.claim(
        tx, [(message, token) for token, plan in plans.items() for message in plan.inbox_messages]
    ):
        messages.setdefault(message.lease_token or "", []).append(message)
    granted: dict[str, Claimed] = {}
    for token, plan in plans.items():
        task = tasks.claim(tx, plan.task, token) if plan.task else None
        if plan.notice or task or token in messages:
            granted[token] = replace(plan, task=task, inbox_messages=tuple(messages.get(token, ())))
    leases.take_back(tx, held - granted.keys())
    leases.join(tx, [(token, message.id) for token, members in messages.items() for message in members])
    for claimed in granted.values():
        if claimed.task:  # unread messages do not wait for the end of a task, because its agent gets them as notices
            for inbox_message in inbox.unread_of_lane(tx, claimed.lease.agent_id, claimed.task.lane_id):
                follow_up(tx, claimed.task, inbox_message)
    return granted


def _refresh_heads(
    tx: Transaction,
    lanes: Sequence[queues.Lane],
    granted: Iterable[Claimed],
    due: Mapping[queues.Lane, list[InboxMessage]],
    first_tasks: Mapping[queues.Lane, Task],
) -> None:
    """Drops the queue heads of lanes from which everything due was claimed, and recomputes the others."""
    exhausted = {
        lane
        for claimed in granted
        if claimed.inbox_messages
        and (lane := (claimed.lease.agent_id, claimed.inbox_messages[0].thread_id)) not in first_tasks
        and len(claimed.inbox_messages) == len(due[lane]) < BUNDLE_LIMIT
    }
    queues.exhausted(tx, exhausted)
    queues.refresh_all(tx, [lane for lane in lanes if lane not in exhausted])


def _tokens(claimed: Sequence[ClaimContents]) -> list[str]:
    return [whole.claimed.lease.token for whole in claimed]
