"""Locks on clients' conversations with built-in agents: one run at a time in each, across all processes.

Who may run: the holder of the conversation's lock (`swarm.services.ground.locks`). What is guaranteed: of two runs in
one conversation, the second starts no work before the first has been told to end. What happens on failure: a killed
process leaves its conversations locked for at most `TERM_SECONDS`; a run that cannot renew without the database ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from swarm.clock import boottime, new_id
from swarm.domain.errors import Conflict, Unavailable
from swarm.domain.model.leases import LockKind
from swarm.services.ground.locks import RENEW_SECONDS, STOP_SECONDS, TERM_SECONDS, LockTerm, NamedLock
from swarm.store.bridge.database import Database
from swarm_base.processes.background import BackgroundTasks

LEAVING_SECONDS: Final = 1.0
"""How long the shutdown waits for the release of conversations; after that their leases expire."""

_LOOK_SECONDS: Final = 0.5  # the end in another process may be noticed late, or not at all

RESTARTING: Final = "The coordinator is being restarted. Ask again in a moment."
TAKEN: Final = "another run has started in its conversation"
NO_DATABASE: Final = "the database could not be reached for too long"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationKey:
    """The key of a client's conversation with an agent."""

    client: str  # an agent's id or "operator", not chosen by the client
    agent: str
    id: str  # the client's own id for the conversation

    @property
    def lock_key(self) -> str:
        """The key of the conversation's lock in the database."""
        return json.dumps([self.client, self.agent, self.id], ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationLock:
    """The lock of a run on a conversation."""

    key: ConversationKey
    agui_run_id: str
    lock: NamedLock
    term: LockTerm


class ConversationLocks:
    """The conversation locks of this process's runs."""

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float = TERM_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._wakeups = database.wakeups
        self._lock = partial(
            NamedLock,
            database,
            LockKind.CONVERSATION,
            lease_seconds=lease_seconds,
            renew_seconds=renew_seconds,
            stop_seconds=stop_seconds,
            clock=clock,
        )
        self._leaving = BackgroundTasks()

    async def take(self, key: ConversationKey, agui_run_id: str, *, patience_seconds: float) -> ConversationLock:
        """Takes a conversation for a run, after the end of the current run, if any.

        Raises Conflict if that run does not end in time, and Unavailable without the database or when the process
        stops.
        """
        # Clients choose the ids of runs, so the holder has an id of its own.
        lock = self._lock(key.lock_key, new_id(), run_id=agui_run_id)
        ends_at = asyncio.get_running_loop().time() + patience_seconds
        while True:
            seen = lock.generation
            try:
                taken = await lock.take()
            except asyncio.CancelledError:
                self._leaving.start(lock.release())  # the lock would have no holder
                raise
            if isinstance(taken, LockTerm):
                return ConversationLock(key=key, agui_run_id=agui_run_id, lock=lock, term=taken)
            left = ends_at - asyncio.get_running_loop().time()  # of the time for the other run, not for the database
            if left <= 0:
                raise Conflict(
                    "The agent is still working in this conversation.",
                    hint="Wait for the end of the run, or cancel it.",
                )
            if self._wakeups.closed:
                raise Unavailable(RESTARTING)
            await lock.wait(seen, min(left, taken, _LOOK_SECONDS))

    async def keep(self, held: ConversationLock, lost: Callable[[str], object]) -> None:
        """Renews the lock until cancelled.

        If the run must not continue, calls ``lost`` with the reason, a clause, and returns.
        """
        await held.lock.keep(held.term)
        _log.warning(
            "A run has lost its conversation lock and ends.", action="agent_talk_lost", run_id=held.agui_run_id
        )
        lost(TAKEN if held.term.is_lost else NO_DATABASE)

    def leave(self, held: ConversationLock) -> None:
        """Releases the conversation after the run."""
        self._leaving.start(held.lock.release())

    async def close(self) -> None:
        """Waits for pending releases, for a limited time."""
        await self._leaving.wait(LEAVING_SECONDS)
