"""Scheduled work: the sweep, the ticker and the retention job.

The sweep makes the changes that become due with time: expired leases, ended delays, messages without an available
agent, stale ownership. The elected process sweeps once a second (`swarm.services.ground.locks`); two concurrent
sweeps are harmless.

The ticker is the fallback for notifications between processes, with one query a second for all polls that wait in this
process. A notification can be lost with its connection. The database still contains the due work, so the ticker queries
the agents with due work that is not leased, and wakes those that wait in this process. If every notification arrived,
no waiting agent has due work, and no agent is woken. This requires no extra writes. The sender, the backfill and the
roster have their own queries every few seconds. On SQLite the engine notices other processes' commits.

The retention job deletes data past its retention in small portions, so that the database does not grow without limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from swarm.clock import SECOND, until_next, us_to_slack_ts
from swarm.domain.model.threads import OWNED_FOR_IDLE_DAYS
from swarm.domain.policy.operating import OperatingPolicy, Retention
from swarm.domain.ports import NO_GROUPS, NO_PEOPLE, PeopleFinder, UserGroups
from swarm.services.ground.guarded import attempt
from swarm.services.operate import failover
from swarm.services.operate.on_call import tend_on_call
from swarm.services.outbox import alert_repeats
from swarm.services.requests import upkeep
from swarm.services.speaking import signs
from swarm.services.speaking.participants import Standings
from swarm.services.tasks.task_maintenance import tend_tasks, to_do
from swarm.services.work.erase import erase_late
from swarm.services.work.leases import expire
from swarm.store import (
    agent_messages,
    erasure,
    escalations,
    grants,
    history,
    idempotency_keys,
    listening,
    locks,
    requests,
    retention,
    webhooks,
)
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import budget_raises, model_usage, sessions
from swarm.store.inbox import leases, queues
from swarm.store.inbox.leases import Lease
from swarm.store.runs import feedback, remarks, run_logs, runs
from swarm.store.threads import alerts, early, status_lines, threads, watermarks

AT_ONCE: Final = 1_000
"""The number of rows per transaction, so that other transactions do not have to wait long."""

TRANSACTIONS: Final = 20
"""The number of transactions per part and round; the next round continues."""

_DISOWN_AT_ONCE: Final = 200  # two statements each
_SESSIONS_AT_ONCE: Final = 50  # each with all its messages
_DAY = 24 * 3600 * SECOND
_KEEP_EARLY = 900 * SECOND
_KEEP_ALERTS_DAYS = 8  # a day longer than the longest window in which alerts are grouped
_REWRITE_EVERY = 3600 * SECOND
_LATE = _DAY  # every answer has ended by then, because the lease of its run has ended

Forget = Callable[[Transaction, int, int], int]
"""Deletes up to a number of rows older than a given time. Returns the number of deleted rows."""

Part = Callable[[Transaction], bool]
"""One step of a part of a round. Returns whether more steps may be needed."""

_log = structlog.get_logger(__name__)


class _RetentionJob:
    """The deletion of old data, one part after another. A failed part does not affect the others."""

    def __init__(self, database: Database, retention: Retention) -> None:
        self._database = database
        self._retention = retention
        self._keep_threads = retention.threads_days * _DAY
        self._rewritten_at = 0  # when the database's files were last rewritten, as far as this process knows
        self._walked = ""  # the last thread examined; starts over after the last thread

    async def tidy(self) -> None:
        """Executes one round."""
        for name, part in _parts(self._retention).items():
            await attempt(self._in_steps(part), "tidy", part=name)
        await attempt(self._forget_threads(), "tidy", part="forget_threads")
        await attempt(self._database.write(self._repair_queue_heads), "tidy", part="repair_heads")
        await attempt(self._scrub(), "tidy", part="scrub")

    @staticmethod
    def _repair_queue_heads(tx: Transaction) -> None:
        """Creates missing queue heads. None should be missing."""
        repaired = queues.repair(tx)
        if repaired:
            _log.error("queue heads were missing and have been created", action="repair_heads", count=repaired)

    async def _scrub(self) -> None:
        """Removes deleted data from the database's files. Rewrites the files at most once an hour."""
        deleted_at, now = await self._database.write(self._erase_late_answers)
        self._rewritten_at = self._rewritten_at or now - _DAY  # another process handled earlier deletions
        is_due = deleted_at > self._rewritten_at and now - self._rewritten_at >= _REWRITE_EVERY
        if await self._database.scrub(rewrite=is_due) and is_due:
            self._rewritten_at = now

    @staticmethod
    def _erase_late_answers(tx: Transaction) -> tuple[int, int]:
        """Erases answers that were deleted in Slack before their end. Returns the time of the last deletion, and the
        current time.
        """
        erase_late(tx, tx.now - _LATE)
        return erasure.last_deleted(tx), tx.now

    async def _in_steps(self, part: Callable[[Transaction], bool]) -> None:
        for _ in range(TRANSACTIONS):
            if not await self._database.write(part):
                return

    async def _forget_threads(self) -> None:
        """Examines some threads, and deletes the messages of idle threads."""
        seen = await self._database.read(self._walk, self._walked)
        for thread_id, forgettable in seen:
            if forgettable:
                await attempt(self._forget_thread(thread_id), "tidy", thread=thread_id)
        self._walked = seen[-1][0] if len(seen) == AT_ONCE else ""

    def _walk(self, tx: Transaction, after: str) -> list[tuple[str, bool]]:
        return retention.walk(tx, after, AT_ONCE, tx.now - self._keep_threads)

    async def _forget_thread(self, thread_id: str) -> None:
        while await self._database.write(self._forget_messages, thread_id):
            pass

    def _forget_messages(self, tx: Transaction, thread_id: str) -> bool:
        """Deletes the messages of a thread if it is still idle, and the old messages of a flat direct message. The
        thread is then incomplete.

        Returns whether more may remain.
        """
        thread, before = threads.locked(tx, thread_id), tx.now - self._keep_threads
        is_idle = retention.is_idle(tx, thread_id, before)
        if is_idle:
            threads.doubt(tx, thread_id)
        elif not thread.is_flat:
            return False
        threads.forget_up_to(tx, thread_id, us_to_slack_ts(before))
        before = tx.now + _DAY if is_idle else before
        messages = retention.forget_said(tx, thread, AT_ONCE, before)
        answers = retention.forget_answers(tx, thread_id, AT_ONCE, before)
        changes = retention.forget_history(tx, thread_id, AT_ONCE, before)
        rendered = 0
        if is_idle:
            escalations.forget(tx, thread_id)
            rendered = retention.forget_rendered(tx, thread_id, AT_ONCE)
        return max(messages, answers, changes, rendered) >= AT_ONCE


def forget_early(tx: Transaction) -> bool:
    """Deletes replies whose thread was not opened. Returns whether more may remain."""
    if watermarks.first_gap(tx):
        return False  # the first messages of their threads may still be missing
    return early.forget(tx, tx.now - _KEEP_EARLY, AT_ONCE) >= AT_ONCE


def disown_idle(tx: Transaction) -> bool:
    """Ends the ownership of idle threads. Returns whether more may remain."""
    return threads.disown_idle(tx, tx.now - OWNED_FOR_IDLE_DAYS * _DAY, _DISOWN_AT_ONCE) >= _DISOWN_AT_ONCE


def _parts(kept: Retention) -> dict[str, Part]:
    """Returns the parts that delete rows by age.

    Answers are deleted no later than their thread, because they allow retries.
    """
    days: dict[str, tuple[Forget, int]] = {
        "forget_leases": (leases.forget, 1),
        "forget_receipts": (idempotency_keys.forget, 3),
        "forget_unconcerned": (history.forget_unconcerned, kept.routing_days),
        "forget_agent_messages": (agent_messages.forget, kept.agent_messages_days),
        "forget_turns": (runs.forget, min(kept.runs_days, kept.threads_days)),
        "forget_run_logs": (run_logs.forget, min(kept.run_logs_days, kept.runs_days, kept.threads_days)),
        "forget_feedback": (feedback.forget, min(kept.runs_days, kept.threads_days)),
        "forget_remarks": (remarks.forget, kept.runs_days),
        "forget_requests": (requests.forget, kept.runs_days),
        "forget_audit": (grants.forget_lines, kept.audit_days),
        "forget_webhooks": (webhooks.forget, kept.runs_days),
        "forget_model_runs": (model_usage.forget, kept.runs_days),
        "forget_budget_raises": (budget_raises.forget, kept.runs_days),
        "forget_talks": (locks.forget_conversations, 1),
        "forget_listening": (listening.forget, 7),
        "forget_alerts": (alerts.forget, _KEEP_ALERTS_DAYS),
    }
    by_age = {name: partial(_forget, forget, count * _DAY) for name, (forget, count) in days.items()}
    of_sessions = {"forget_sessions": partial(_forget_sessions, kept.sessions_days * _DAY)}
    return {"forget_early": forget_early, **by_age, **of_sessions, "disown_idle": disown_idle}


def _forget(forget: Forget, keep_us: int, tx: Transaction) -> bool:
    return forget(tx, tx.now - keep_us, AT_ONCE) >= AT_ONCE


def _forget_sessions(keep_us: int, tx: Transaction) -> bool:
    return sessions.forget(tx, tx.now - keep_us, _SESSIONS_AT_ONCE) >= _SESSIONS_AT_ONCE


SWEEP_SECONDS: Final = 1.0
RETENTION_SECONDS: Final = 60.0
LISTEN_SECONDS: Final = 1.0
_LISTEN_SECONDS_LATER: Final = 5.0
_YOUNG: Final = 10
BATCH: Final = 200
"""The number of rows per transaction, so that other transactions do not have to wait long."""


class Sweeper:
    """The background task that sweeps."""

    def __init__(
        self,
        database: Database,
        operating_policy: OperatingPolicy,
        groups: UserGroups = NO_GROUPS,
        people: PeopleFinder = NO_PEOPLE,
        standings: Standings | None = None,
    ) -> None:
        self._database = database
        self._standings = standings
        self._operating_policy = operating_policy
        self._groups = groups
        self._people = people
        self._tidier = _RetentionJob(database, operating_policy.retention)

    async def run(self) -> None:
        """Sweeps until cancelled; errors do not end the task. Waits while the database is unavailable."""
        loop = asyncio.get_running_loop()
        tidy_at = loop.time()
        while True:
            await self.sweep()
            if loop.time() >= tidy_at:
                tidy_at = loop.time() + RETENTION_SECONDS
                await self.tidy()
            await asyncio.sleep(until_next(SWEEP_SECONDS))

    async def sweep(self) -> None:
        """Executes one round.

        Each part, lease and thread has its own transaction, and a failure does not affect the others. Usually one read
        for all parts finds nothing due.
        """
        if await self._is_nothing_due():
            return
        await attempt(self._end_expired(), "sweep", part="end_expired")
        await attempt(self._make_due(), "sweep", part="make_due")
        # Before the tasks: those of an offline on-call agent must not be handed to another agent.
        on_call = tend_on_call(self._database, self._operating_policy, self._people)
        await attempt(on_call, "sweep", part="tend_on_call")
        await attempt(tend_tasks(self._database, self._operating_policy), "sweep", part="tend_tasks")
        await attempt(
            upkeep.tend_requests(self._database, self._groups, self._operating_policy), "sweep", part="tend_requests"
        )
        await attempt(alert_repeats.show_due(self._database), "sweep", part="alert_repeats")
        await attempt(signs.tend_signs(self._database), "sweep", part="tend_signs")
        reassigning = failover.failover_offline_agents(self._database, self._operating_policy, self._standings)
        await attempt(reassigning, "sweep", part="look_after_offline")

    async def tidy(self) -> None:
        """Deletes data past its retention."""
        await self._tidier.tidy()

    async def _is_nothing_due(self) -> bool:
        """Whether no part has work. Returns False after a failure, so that the parts report theirs."""
        try:
            return await self._database.read(is_nothing_due, self._operating_policy)
        except Exception:  # noqa: BLE001 - reported by the part that fails
            return False

    async def _end_expired(self) -> None:
        """Ends leases one by one, because a common transaction would lock rows in a different order from other
        transactions.
        """
        last: Lease | None = None  # a failed lease is retried in the next round, not in this one
        while expired := await self._database.read(leases.expired, last, BATCH):
            await asyncio.gather(*(self._end(lease) for lease in expired))
            last = expired[-1]

    async def _end(self, lease: Lease) -> None:
        ending = self._database.write(expire, lease.token, self._operating_policy)
        await attempt(ending, "end_expired", trigger=lease.trigger_id, thread=lease.thread_id)

    async def _make_due(self) -> None:
        """Makes messages due thread by thread, for the same reason as `_end_expired`."""
        over = await self._database.read(queues.ended_delays)
        for start in range(0, len(over), BATCH):
            await asyncio.gather(*(self._make_thread_due(thread_id) for thread_id in over[start : start + BATCH]))

    async def _make_thread_due(self, thread_id: str) -> None:
        await attempt(self._database.write(self._end_delays, thread_id), "make_due", thread=thread_id)

    @staticmethod
    def _end_delays(tx: Transaction, thread_id: str) -> None:
        """Ends the expired delays of a thread's messages."""
        threads.locked(tx, thread_id)
        queues.make_due(tx, thread_id)


def is_nothing_due(tx: Transaction, operating_policy: OperatingPolicy) -> bool:
    """Whether a sweep would find no work."""
    return not (
        leases.expired(tx, None, 1)
        or queues.ended_delays(tx)
        or any(task_ids for _, task_ids in to_do(tx, operating_policy))
        or failover.find_work(tx, operating_policy)
        or requests.is_any_due(tx)
        or not alert_repeats.is_nothing_due(tx)
        or status_lines.untrue_notes(tx, 1)
        or escalations.waiting_for_on_call(tx, 1)
    )


async def listen(database: Database, lease_seconds: float) -> None:
    """Records every few seconds that this process accepts calls from agents and can store them, until cancelled; at
    first every second, so that the listening of coordinators that soon crash adds up.

    A suspended process (a closed laptop, SIGSTOP) receives no calls, and without the database no call succeeds, so no
    agent counts as silent or offline for that time. A break of half the time between two renewals of an agent is
    noticed by the first transaction after it.
    """
    span: str | None = None
    count = 0
    usual = min(max(LISTEN_SECONDS, lease_seconds / 12), _LISTEN_SECONDS_LATER)

    async def record() -> None:
        nonlocal span
        span = await database.write(listening.record, span)
        database.listens(asleep_seconds=usual + lease_seconds / 6)

    while True:
        await attempt(record(), "listen")
        count += 1
        await asyncio.sleep(until_next(LISTEN_SECONDS if count < _YOUNG else usual))


TICK_SECONDS: Final = 1.0


class Ticker:
    """The background task of each process that finds work whose notification was lost."""

    def __init__(self, database: Database, *, tick_seconds: float = TICK_SECONDS) -> None:
        self._database = database
        self._tick_seconds = tick_seconds

    async def run(self) -> None:
        """Checks until cancelled; waits while the database is unavailable."""
        while True:
            await asyncio.sleep(until_next(self._tick_seconds))
            await attempt(self.tick(), "tick")

    async def tick(self) -> None:
        """Checks once."""
        found = await self._database.read(queues.agents_with_due_work)
        self._database.wakeups.bump(found & self._database.wakeups.awaited)
