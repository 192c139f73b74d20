"""Conversations that clients lead with built-in agents: one run at a time in each, in whichever process it is.

Who may run: whoever has the conversation's row in the database, which is taken with an expiry and renewed while the run
lives. What is guaranteed: of two runs in one conversation the second begins no work before the first was told to end.
A holder counts its own time from before the call that granted it, and ends its run `STOP_SECONDS` before the row's time
is over, so that it may clear up. What happens on failure: a process that was killed leaves its conversations blocked
for `LEASE_SECONDS` at most; a run that cannot renew for want of the database ends.
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

LEASE_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 3.0
STOP_SECONDS: Final = 2.0

LEAVING_SECONDS: Final = 1.0
"""So long the end of the coordinator waits until conversations are given up; after that their time runs out."""

_LOOK_SECONDS: Final = 0.5  # another process's end may come to us late, or not at all

RESTARTING: Final = "The coordinator is being restarted. Ask again in a moment."
TAKEN: Final = "another run has begun in its conversation"
NO_DATABASE: Final = "the database could not be reached for too long"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationKey:
    """A conversation that a client leads with an agent."""

    client: str  # an agent's id or "operator": nothing a client can choose
    agent: str
    id: str  # the client's own name for the conversation


@dataclass(kw_only=True, slots=True)
class ConversationLock:
    """A conversation that a run has, until so long by the clock of `ConversationLocks`."""

    talk: ConversationKey
    run_id: str
    ends_at: float

    @property
    def row(self) -> tuple[str, str, str, str]:
        """How the database knows it."""
        return self.talk.client, self.talk.agent, self.talk.id, self.run_id


class ConversationLocks:
    """The part of this process: takes conversations for its runs, keeps them, and gives them up."""

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float = LEASE_SECONDS,
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

    async def take(self, talk: ConversationKey, run_id: str, *, patience_seconds: float) -> ConversationLock:
        """Take a conversation for a run; of one that a run has just now, its end is waited for.

        Raises Conflict if that does not come in time, Unavailable without the database, and when the process stops.
        """
        ends_at = asyncio.get_running_loop().time() + patience_seconds
        while True:
            seen = self._database.wakeups.generation(conversation_locks.LOCKS)
            if held := await self._taken(talk, run_id):
                return held
            left = ends_at - asyncio.get_running_loop().time()  # of the patience with the run, not with the database
            if left <= 0:
                raise Conflict(
                    "The agent is still at work in this conversation.",
                    hint="Wait for the end of the run, or cancel it.",
                )
            await self._until_left(seen, min(left, _LOOK_SECONDS))

    async def keep(self, held: ConversationLock, lost: Callable[[str], object]) -> None:
        """Renew until cancelled. Once the run may not go on, tell ``lost`` why, as a clause, and return."""
        why = NO_DATABASE
        while (left := held.ends_at - self._clock()) > 0:
            await asyncio.sleep(min(self._renew_seconds, left))
            if held.ends_at > self._clock() and await self._is_lost(held):
                why = TAKEN
                break
        _log.warning("A run has lost its conversation, and ends.", action="agent_talk_lost", run_id=held.run_id)
        lost(why)

    def leave(self, held: ConversationLock) -> None:
        """The run is over: somebody else may take the conversation."""
        self._own(
            attempt(self._database.write(conversation_locks.release, *held.row), "agent_talk_leave", run_id=held.run_id)
        )

    async def close(self) -> None:
        """Wait until what was left is given up, but not for long."""
        if self._leaving:
            await asyncio.wait(set(self._leaving), timeout=LEAVING_SECONDS)

    async def _taken(self, talk: ConversationKey, run_id: str) -> ConversationLock | None:
        held = ConversationLock(
            talk=talk, run_id=run_id, ends_at=self._clock() + self._lease_seconds - self._stop_seconds
        )
        taking = asyncio.create_task(self._database.write(conversation_locks.acquire, *held.row, self._lease_seconds))
        try:
            return held if await asyncio.shield(taking) else None
        except asyncio.CancelledError:
            self._own(self._undone(taking, held))  # nobody would know that it is ours
            raise

    async def _undone(self, taking: asyncio.Task[bool], held: ConversationLock) -> None:
        await asyncio.wait({taking})
        if taking.exception() is None and taking.result():
            self.leave(held)

    async def _until_left(self, seen: int, seconds: float) -> None:
        if self._database.wakeups.closed:
            raise Unavailable(RESTARTING)
        await self._database.wakeups.wait(conversation_locks.LOCKS, seen, seconds)

    async def _is_lost(self, held: ConversationLock) -> bool:
        """Renew; whether somebody else has it. Without an answer its time goes on."""
        asked_at = self._clock()
        try:
            async with asyncio.timeout(held.ends_at - asked_at):
                is_ours = await self._database.write(conversation_locks.renew, *held.row, self._lease_seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run ends when its time does
            _log.warning("A conversation cannot be kept.", action="agent_talk", run_id=held.run_id, error=repr(error))
            return False
        if is_ours:
            held.ends_at = asked_at + self._lease_seconds - self._stop_seconds
        return not is_ours

    def _own(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
