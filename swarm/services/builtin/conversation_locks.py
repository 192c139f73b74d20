"""Locks on clients' conversations with built-in agents: one run at a time in each, across all processes.

Who may run: the holder of the conversation's row in the database, which is taken with an expiry and renewed during the
run. What is guaranteed: of two runs in one conversation, the second starts no work before the first has been told to
end. A holder measures its time from before the granting call, and ends its run `STOP_SECONDS` before the row expires,
to leave time for cleanup. What happens on failure: a killed process leaves its conversations locked for at most
`LOCK_SECONDS`; a run that cannot renew without the database ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import structlog

from swarm.domain.errors import Conflict, Unavailable
from swarm.services.outbox.elections import boottime
from swarm.services.rules.guarded import attempt
from swarm.store.bridge.database import Database
from swarm.store.builtin import conversation_locks

LOCK_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 3.0
STOP_SECONDS: Final = 2.0

LEAVING_SECONDS: Final = 1.0
"""How long the shutdown waits for the release of conversations; after that their rows expire."""

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


@dataclass(kw_only=True, slots=True)
class ConversationLock:
    """The lock of a run on a conversation, with its expiry in the clock of `ConversationLocks`."""

    key: ConversationKey
    agui_run_id: str
    ends_at: float

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The key of the lock in the database."""
        return self.key.client, self.key.agent, self.key.id, self.agui_run_id


class ConversationLocks:
    """The conversation locks of this process's runs."""

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float = LOCK_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._leaving: set[asyncio.Task[Any]] = set()

    async def take(self, key: ConversationKey, agui_run_id: str, *, patience_seconds: float) -> ConversationLock:
        """Takes a conversation for a run, after the end of the current run, if any.

        Raises Conflict if that run does not end in time, and Unavailable without the database or when the process
        stops.
        """
        ends_at = asyncio.get_running_loop().time() + patience_seconds
        while True:
            seen = self._database.wakeups.generation(conversation_locks.LOCKS)
            if lock := await self._taken(key, agui_run_id):
                return lock
            left = ends_at - asyncio.get_running_loop().time()  # of the time for the other run, not for the database
            if left <= 0:
                raise Conflict(
                    "The agent is still working in this conversation.",
                    hint="Wait for the end of the run, or cancel it.",
                )
            await self._until_left(seen, min(left, _LOOK_SECONDS))

    async def keep(self, lock: ConversationLock, lost: Callable[[str], object]) -> None:
        """Renews the lock until cancelled.

        If the run must not continue, calls ``lost`` with the reason, a clause, and returns.
        """
        why = NO_DATABASE
        while (left := lock.ends_at - self._clock()) > 0:
            await asyncio.sleep(min(self._renew_seconds, left))
            if lock.ends_at > self._clock() and await self._is_lost(lock):
                why = TAKEN
                break
        _log.warning(
            "A run has lost its conversation lock and ends.", action="agent_talk_lost", run_id=lock.agui_run_id
        )
        lost(why)

    def leave(self, lock: ConversationLock) -> None:
        """Releases the conversation after the run."""
        self._own(
            attempt(
                self._database.write(conversation_locks.release, *lock.row), "agent_talk_leave", run_id=lock.agui_run_id
            )
        )

    async def close(self) -> None:
        """Waits for pending releases, for a limited time."""
        if self._leaving:
            await asyncio.wait(set(self._leaving), timeout=LEAVING_SECONDS)

    async def _taken(self, key: ConversationKey, agui_run_id: str) -> ConversationLock | None:
        lock = ConversationLock(
            key=key, agui_run_id=agui_run_id, ends_at=self._clock() + self._lease_seconds - self._stop_seconds
        )
        taking = asyncio.create_task(self._database.write(conversation_locks.acquire, *lock.row, self._lease_seconds))
        try:
            return lock if await asyncio.shield(taking) else None
        except asyncio.CancelledError:
            self._own(self._undone(taking, lock))  # the lock would have no holder
            raise

    async def _undone(self, taking: asyncio.Task[bool], lock: ConversationLock) -> None:
        await asyncio.wait({taking})
        if taking.exception() is None and taking.result():
            self.leave(lock)

    async def _until_left(self, seen: int, seconds: float) -> None:
        if self._database.wakeups.closed:
            raise Unavailable(RESTARTING)
        await self._database.wakeups.wait(conversation_locks.LOCKS, seen, seconds)

    async def _is_lost(self, lock: ConversationLock) -> bool:
        """Renews the lock. Returns whether another run has it. If the database does not reply, the lock continues to
        expire.
        """
        asked_at = self._clock()
        try:
            async with asyncio.timeout(lock.ends_at - asked_at):
                is_ours = await self._database.write(conversation_locks.renew, *lock.row, self._lease_seconds)
        except Exception as error:  # noqa: BLE001 - after any failure the run ends when its time does
            _log.warning(
                "A conversation lock cannot be renewed.",
                action="agent_talk",
                run_id=lock.agui_run_id,
                error=repr(error),
            )
            return False
        if is_ours:
            lock.ends_at = asked_at + self._lease_seconds - self._stop_seconds
        return not is_ours

    def _own(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
