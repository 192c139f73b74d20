"""A built-in agent, as everything else sees it: one more that runs turns.

The agent's own work goes on in a task of its own and hands its events over, so that it can be cut off at any moment:
by the clock, by people, or because nobody reads any more. However a run ends, it is first remembered and noted down,
and then said to be over: the next message of the conversation finds all of it.
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
from swarm.agents.remote.whole_answers import collected
from swarm.clock import Clock, SystemClock
from swarm.domain.answers.agents import INVOKE_SECONDS, Health, RunEnd
from swarm.domain.answers.events import AgentEvent, Broken, Failed, Finished, RunInput
from swarm.domain.errors import SwarmError
from swarm.domain.model.models import ModelUsageRecord, RunLimits, UsageOutcome, UsageRecorder
from swarm.domain.model.sessions import Memory, MessageRole, SessionMessage, SessionScope

CUT_OFF: Final = "it was stopped, as the coordinator is being restarted"

_log = structlog.get_logger(__name__)


class Works(Protocol):
    """What makes an agent this one."""

    async def answer(self, run: BuiltinRun) -> None:
        """Answer the turn of a run. Raises whatever goes wrong; `Stumbled` where it knows what to tell people."""
        ...

    async def aclose(self) -> None:
        """Let go of everything."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """What people are told of an error."""

    message: str
    code: str
    is_limit: bool = False
    detail: str = ""  # for the log alone: it may name files


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStorage:
    """Where runs of an agent are kept."""

    memory: Memory
    runs: UsageRecorder
    scope: SessionScope = SessionScope.USER


class BuiltinAgent:
    """An agent that runs in the coordinator; see `swarm.domain.answers.agents.RunsTurns`.

    ``explain`` puts errors into words; None for those that it does not know.
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
        """Wait until the sessions that became too long are summarised: for a process that has one question only."""
        await self._recorder.compacted()

    async def aclose(self) -> None:
        """End the runs that go on, once they are noted down, and let go of everything."""
        while working := set(self._working):
            for task in working:
                task.cancel()
            await asyncio.wait(working)
        await self._recorder.aclose()
        await self._works.aclose()

    def run(self, turn: RunInput) -> AsyncGenerator[AgentEvent, None]:
        """One run, event by event. Ends with a `RunEnd`, and raises nothing."""
        return self._run(turn)

    async def invoke(self, turn: RunInput) -> RunEnd:
        """One run whose answer comes whole, within a minute. Raises nothing."""
        try:
            async with asyncio.timeout(INVOKE_SECONDS), contextlib.aclosing(self._run(turn)) as events:
                return await collected(events)
        except TimeoutError:
            return Broken(reason=not_within(INVOKE_SECONDS))

    async def health(self) -> Health:
        """Always reachable: what a model or a tool cannot do is told in the run that needs it."""
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
            work.cancel()  # nobody reads any more, or it is over anyway
            self._recorder.await_end(run.session_id, work)

    def _started(self, run: BuiltinRun) -> asyncio.Task[None]:
        work = asyncio.create_task(self._work(run), name="run of a built-in agent")
        self._working.add(work)
        work.add_done_callback(self._working.discard)
        work.add_done_callback(lambda _: run.end(Broken(reason=CUT_OFF)))
        return work

    async def _work(self, run: BuiltinRun) -> None:
        """The run, whatever becomes of it."""
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
        """The turn without what other attempts at it have shown in the thread: nobody is to go on from there."""
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
    """What is remembered of a run: what was asked, what was done, and, if it ended early, that it did."""
    block = [*questions(run.turn), *run.remembered]
    if outcome is not UsageOutcome.ANSWERED:
        block.append(SessionMessage(role=MessageRole.ASSISTANT, text=f"[This answer broke off: {note}]"))
    return block
