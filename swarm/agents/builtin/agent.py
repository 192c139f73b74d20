"""A built-in agent behind the same interface as every other agent.

The agent's own work runs in a separate task and hands its events over, so that it can be cut off at any moment: by a
time limit, by people, or because the reader has left. A run is stored in the session and its usage recorded before its
end is reported, so the next message of the conversation finds all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from swarm.agents.builtin.recorder import Recorder
from swarm.agents.builtin.run import BuiltinRun, Stumbled
from swarm.agents.builtin.sessions import questions, session_of
from swarm.agents.failures import OUR_FAULT, not_within
from swarm.agents.remote.translation.translator import collected
from swarm.clock import Clock, SystemClock
from swarm.domain.answers.agents import INVOKE_SECONDS, Health, RunEnd
from swarm.domain.answers.events import AgentEvent, Broken, Failed, Finished, RunInput
from swarm.domain.errors import SwarmError
from swarm.domain.model.models import ModelUsageRecord, RunLimits, UsageOutcome, UsageRecorder
from swarm.domain.model.sessions import Memory, MessageRole, SessionMessage, SessionScope

CUT_OFF: Final = "it was stopped, as the coordinator is being restarted"

_log = structlog.get_logger(__name__)


class Works(Protocol):
    """The behaviour of one particular agent."""

    async def answer(self, run: BuiltinRun) -> None:
        """Answers a run. Raises any error; `Stumbled` carries a message for people."""
        ...

    async def aclose(self) -> None:
        """Releases all resources."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """An error in words for people."""

    message: str
    code: str
    is_limit: bool = False
    detail: str = ""  # for the log alone: may name files


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStorage:
    """The stores for runs of an agent."""

    memory: Memory
    runs: UsageRecorder
    scope: SessionScope = SessionScope.USER


class BuiltinAgent:
    """An agent that runs in the coordinator; implements `swarm.domain.answers.remote.RunsTurns`.

    ``explain`` puts errors into words; None for unknown errors.
    """

    def __init__(
        self,
        name: str,
        works: Works,
        record: RunStorage,
        limits: RunLimits,
        *,
        explain: Callable[[BaseException], Trouble | None],
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._works = works
        self._record = record
        self._limits = limits
        self._explain = explain
        self._clock = clock or SystemClock()
        self._recorder = Recorder(record.memory, record.runs)
        self._working: set[asyncio.Task[None]] = set()

    async def compacted(self) -> None:
        """Waits until sessions that became too long are summarised: for a process with a single question."""
        await self._recorder.compacted()

    async def aclose(self) -> None:
        """Ends the current runs after recording them, and releases all resources."""
        while working := set(self._working):
            for task in working:
                task.cancel()
            await asyncio.wait(working)
        await self._recorder.aclose()
        await self._works.aclose()

    def run(self, turn: RunInput) -> AsyncGenerator[AgentEvent, None]:
        """Runs the agent, event by event. Ends with a `RunEnd`, and raises nothing."""
        return self._run(turn)

    async def invoke(self, turn: RunInput) -> RunEnd:
        """Runs the agent for a whole answer within a minute. Raises nothing."""
        try:
            async with asyncio.timeout(INVOKE_SECONDS), contextlib.aclosing(self._run(turn)) as events:
                return await collected(events)
        except TimeoutError:
            return Broken(reason=not_within(INVOKE_SECONDS))

    async def health(self) -> Health:
        """Reports the agent as always reachable: failures of models and tools are reported in their runs."""
        return Health(reachable=True, detail="it runs in the coordinator")

    async def _run(self, turn: RunInput) -> AsyncGenerator[AgentEvent, None]:
        run = BuiltinRun(turn, session_of(turn, self._record.scope))
        work = self._started(run)
        try:
            while True:
                event = await run.heard()
                yield event
                if isinstance(event, RunEnd):
                    return
        finally:
            work.cancel()  # the reader has left, or the run is over
            self._recorder.await_end(run.session_id, work)

    def _started(self, run: BuiltinRun) -> asyncio.Task[None]:
        work = asyncio.create_task(self._work(run), name="run of a built-in agent")
        self._working.add(work)
        work.add_done_callback(self._working.discard)
        work.add_done_callback(lambda _: run.end(Broken(reason=CUT_OFF)))
        return work

    async def _work(self, run: BuiltinRun) -> None:
        """Executes the run and records it, in success and failure."""
        begun = self._clock.now_us()
        try:
            outcome, end, note = await self._answered(run)
        except asyncio.CancelledError:
            self._store(run, begun, UsageOutcome.STOPPED, "it was stopped")
            raise
        try:
            await asyncio.shield(self._store(run, begun, outcome, note))
        finally:
            run.end(end)

    async def _answered(self, run: BuiltinRun) -> tuple[UsageOutcome, Finished | Failed | Broken, str]:
        limit = asyncio.timeout(self._limits.seconds)
        try:
            async with limit:
                await self._recorder.settled(run.session_id)
                run.turn = await self._afresh(run.turn)
                await self._works.answer(run)
        except Exception as error:  # noqa: BLE001 - whoever waits for the run needs its end; unknown ones are logged there
            if limit.expired():
                message = f"This took longer than {self._limits.seconds:g} s, which is the limit (limits.seconds)."
                return UsageOutcome.LIMITED, Failed(message=message, code="limit"), message
            return self._failed(run, error)
        return UsageOutcome.ANSWERED, Finished(), ""

    async def _afresh(self, turn: RunInput) -> RunInput:
        """Removes texts that other attempts at the same trigger showed in the thread: no attempt continues another."""
        if not turn.turn_id or not turn.history:
            return turn
        shown = await self._record.memory.shown_before(turn.turn_id)
        return replace(turn, history=tuple(said for said in turn.history if said.id not in shown))

    def _failed(self, run: BuiltinRun, error: Exception) -> tuple[UsageOutcome, Failed | Broken, str]:
        ids = {"agent": self.name, "run_id": run.turn.run_id}
        trouble = self._trouble(error)
        if trouble is None:
            _log.error("A run failed inside.", action="agent_failed", exc_info=error, **ids)
            return UsageOutcome.FAILED, Broken(reason=OUR_FAULT), OUR_FAULT
        _log.warning(
            "A run failed.", action="agent_broken", reason=trouble.detail or trouble.message, code=trouble.code, **ids
        )
        outcome = UsageOutcome.LIMITED if trouble.is_limit else UsageOutcome.FAILED
        return outcome, Failed(message=trouble.message, code=trouble.code), trouble.message

    def _trouble(self, error: Exception) -> Trouble | None:
        if isinstance(error, Stumbled):
            return Trouble(message=error.message, code=error.code)
        if known := self._explain(error):
            return known
        return Trouble(message=error.message, code=error.code) if isinstance(error, SwarmError) else None

    def _store(self, run: BuiltinRun, begun: int, outcome: UsageOutcome, note: str) -> asyncio.Task[None]:
        return self._recorder.store(self._noted(run, begun, outcome, note), _block(run, outcome, note))

    def _noted(self, run: BuiltinRun, begun: int, outcome: UsageOutcome, note: str) -> ModelUsageRecord:
        origin = run.turn.origin
        return ModelUsageRecord(
            id=run.turn.run_id,
            agent=self.name,
            door=origin.door,
            session_id=run.session_id,
            turn_id=run.turn.turn_id,
            requester=origin.user_id or origin.client_name or origin.client,
            model=run.model,
            outcome=outcome,
            note=note,
            usage=run.usage,
            started_at=begun,
            ended_at=self._clock.now_us(),
        )


def _block(run: BuiltinRun, outcome: UsageOutcome, note: str) -> list[SessionMessage]:
    """Returns the messages to remember of a run: the question, the work, and a note if the run ended early."""
    block = [*questions(run.turn), *run.remembered]
    if outcome is not UsageOutcome.ANSWERED:
        block.append(SessionMessage(role=MessageRole.ASSISTANT, text=f"[This answer broke off: {note}]"))
    return block
