"""Tidying: what nobody will ask for is dropped, a little at a time, so that the database does not grow for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from swarm.clock import SECOND, us_to_slack_ts
from swarm.domain.threads import OWNED_FOR_IDLE_DAYS
from swarm.services.attempt import attempt
from swarm.services.model_runs import MOST_DAYS
from swarm.store import (
    agent_messages,
    early,
    heads,
    history,
    leases,
    model_runs,
    receipts,
    retention,
    sessions,
    talks,
    threads,
    turns,
)
from swarm.store.database import Database
from swarm.store.transaction import Transaction

AT_ONCE: Final = 1_000
"""So many rows are dropped in one transaction, so that nobody else has to wait long."""

TRANSACTIONS: Final = 20
"""So many transactions a part may take in one round; the next round does the rest."""

_DISOWN_AT_ONCE: Final = 200  # two statements each
_SESSIONS_AT_ONCE: Final = 50  # each with all that was said in it
_DAY = 24 * 3600 * SECOND
_KEEP_EARLY = 900 * SECOND
_KEEP_ENDED_LEASES = _DAY
_KEEP_RECEIPTS = 3 * _DAY
_KEEP_UNCONCERNED = 7 * _DAY  # why a message concerned nobody
_KEEP_IDLE_THREADS = 90 * _DAY
_KEEP_AGENT_MESSAGES = 90 * _DAY
_KEEP_TURNS = 90 * _DAY
_KEEP_IDLE_SESSIONS = 90 * _DAY
_KEEP_MODEL_RUNS = MOST_DAYS * _DAY

_log = structlog.get_logger(__name__)


class Tidier:
    """Tidies, one part after another; a part that fails keeps no other from its work."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._walked = ""  # the last thread that was looked at; the walk begins anew when it has seen all

    async def tidy(self) -> None:
        """One round."""
        for part in (
            forget_early,
            forget_leases,
            forget_receipts,
            forget_unconcerned,
            forget_agent_messages,
            forget_turns,
            forget_sessions,
            forget_model_runs,
            forget_talks,
            disown_idle,
        ):
            await attempt(self._in_steps(part), "tidy", part=part.__name__)
        await attempt(self._forget_threads(), "tidy", part="forget_threads")
        await attempt(self._database.write(repair_heads), "tidy", part="repair_heads")

    async def _in_steps(self, part: Callable[[Transaction], bool]) -> None:
        for _ in range(TRANSACTIONS):
            if not await self._database.write(part):
                return

    async def _forget_threads(self) -> None:
        """Look at some threads, and drop what was said in those that are idle."""
        seen = await self._database.read(_walk, self._walked)
        for thread_id, forgettable in seen:
            if forgettable:
                await attempt(self._forget_thread(thread_id), "tidy", thread=thread_id)
        self._walked = seen[-1][0] if len(seen) == AT_ONCE else ""

    async def _forget_thread(self, thread_id: str) -> None:
        while await self._database.write(forget_thread, thread_id):
            pass


def forget_early(tx: Transaction) -> bool:
    """Drop replies whose thread was opened by nobody; whether there may be more."""
    return early.forget(tx, tx.now - _KEEP_EARLY, AT_ONCE) >= AT_ONCE


def forget_leases(tx: Transaction) -> bool:
    """Drop leases that ended a day ago; whether there may be more."""
    return leases.forget(tx, tx.now - _KEEP_ENDED_LEASES, AT_ONCE) >= AT_ONCE


def forget_receipts(tx: Transaction) -> bool:
    """Drop receipts that are three days old; whether there may be more."""
    return receipts.forget(tx, tx.now - _KEEP_RECEIPTS, AT_ONCE) >= AT_ONCE


def forget_unconcerned(tx: Transaction) -> bool:
    """Drop what is known of messages that concerned nobody a week ago; whether there may be more."""
    return history.forget_unconcerned(tx, tx.now - _KEEP_UNCONCERNED, AT_ONCE) >= AT_ONCE


def forget_agent_messages(tx: Transaction) -> bool:
    """Drop messages between agents that are ninety days old; whether there may be more."""
    return agent_messages.forget(tx, tx.now - _KEEP_AGENT_MESSAGES, AT_ONCE) >= AT_ONCE


def forget_turns(tx: Transaction) -> bool:
    """Drop turns that ended ninety days ago, with what was thought of them; whether there may be more."""
    return turns.forget(tx, tx.now - _KEEP_TURNS, AT_ONCE) >= AT_ONCE


def forget_sessions(tx: Transaction) -> bool:
    """Drop what built-in agents remember of conversations that are idle for ninety days; whether there may be more."""
    return sessions.forget(tx, tx.now - _KEEP_IDLE_SESSIONS, _SESSIONS_AT_ONCE) >= _SESSIONS_AT_ONCE


def forget_model_runs(tx: Transaction) -> bool:
    """Drop what runs have used that ended ninety days ago; whether there may be more."""
    return model_runs.forget(tx, tx.now - _KEEP_MODEL_RUNS, AT_ONCE) >= AT_ONCE


def forget_talks(tx: Transaction) -> bool:
    """Drop what runs of built-in agents held whose process was killed; whether there may be more."""
    return talks.forget(tx, tx.now - _DAY, AT_ONCE) >= AT_ONCE


def disown_idle(tx: Transaction) -> bool:
    """End ownership of threads in which nothing happens; whether there may be more."""
    return threads.disown_idle(tx, tx.now - OWNED_FOR_IDLE_DAYS * _DAY, _DISOWN_AT_ONCE) >= _DISOWN_AT_ONCE


def forget_thread(tx: Transaction, thread_id: str) -> bool:
    """Drop what was said in a thread, which is then not known whole, if it is still idle; whether there may be more."""
    thread = threads.locked(tx, thread_id)
    if not retention.is_idle(tx, thread_id, tx.now - _KEEP_IDLE_THREADS):
        return False
    threads.doubt(tx, thread_id)
    threads.forget_up_to(tx, thread_id, us_to_slack_ts(tx.now - _KEEP_IDLE_THREADS))
    messages = retention.forget_said(tx, thread, AT_ONCE)
    answers = retention.forget_answers(tx, thread_id, AT_ONCE)
    changes = retention.forget_history(tx, thread_id, AT_ONCE)
    return max(messages, answers, changes) >= AT_ONCE


def repair_heads(tx: Transaction) -> None:
    """Make queue heads that are missing. There should be none."""
    repaired = heads.repair(tx)
    if repaired:
        _log.error("queue heads were missing and have been made anew", action="repair_heads", count=repaired)


def _walk(tx: Transaction, after: str) -> list[tuple[str, bool]]:
    return retention.walk(tx, after, AT_ONCE, tx.now - _KEEP_IDLE_THREADS)
