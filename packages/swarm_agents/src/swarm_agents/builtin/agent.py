"""Runs a built-in agent behind the interface shared by all agents, and records its runs.

The agent's own work runs in a separate task that passes its events to the reader. The task can therefore be cancelled
at any time: by a time limit, by a person, or because the reader has disconnected. Before the end of a run is reported,
tasks separate from the run store it in the session and record its usage. The next run of a session waits until earlier
runs are stored, so the next message of the conversation sees the complete history. If one store fails, the other is
still written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

import structlog

from swarm.agents.failures import OUR_FAULT, not_within
from swarm.agents.remote.translation.translator import collected
from swarm.clock import SystemClock
from swarm.domain.answers.agents import INVOKE_SECONDS, Health, RunEnd
from swarm.domain.answers.events import AgentEvent, Asked, Broken, Failed, Finished, Interrupted, Origin, RunInput
from swarm.domain.errors import SwarmError
from swarm.domain.model.language_models import (
    NO_LIMITS,
    ConversationUsage,
    Door,
    ModelUsageRecord,
    RunLimits,
    UsageOutcome,
    UsageRecorder,
)
from swarm.domain.model.sessions import Memory, MessageRole, SessionMessage, SessionScope
from swarm_agents.builtin.approvals import question_of
from swarm_agents.builtin.recording import recorded
from swarm_agents.builtin.run import BuiltinRun, Stumbled, conversation_session, questions, session_of
from swarm_agents.toolbox.people import CALLER, PausableTimeout, ToolCaller
from swarm_base.processes.background import BackgroundTasks

CLOSING_SECONDS: Final = 5.0
"""Unfinished writes delay the shutdown of the coordinator for at most this time."""

_log = structlog.get_logger(__name__)

LIMIT: Final = "limit"
"""The code of a run that one of the operator's limits has ended."""

CUT_OFF: Final = "it was stopped because the coordinator is being restarted"
NOT_ASKED: Final = "its question about a tool call could not be stored"


class _Recorder:
    """Writes one agent's runs to its stores."""

    def __init__(self, memory: Memory, runs: UsageRecorder) -> None:
        self._memory = memory
        self._runs = runs
        self._before: dict[str, set[asyncio.Task[Any]]] = {}  # by session: tasks that the next run waits for
        self._storing = BackgroundTasks()
        self._compacting = BackgroundTasks()
        self._is_closed = False

    async def settled(self, session_id: str) -> None:
        """Waits until the finished and the cancelled runs of a session are stored."""
        while before := self._before.get(session_id):
            await asyncio.wait(set(before))

    def await_end(self, session_id: str, run: asyncio.Task[Any]) -> None:
        """Makes the next run of the session wait until this task has ended."""
        if run.done():
            return
        self._before.setdefault(session_id, set()).add(run)
        run.add_done_callback(lambda task: self._is_over(session_id, task))

    def store(
        self, run: ModelUsageRecord, block: Sequence[SessionMessage], continues: str = "", owner: str = ""
    ) -> asyncio.Task[bool]:
        """Stores a run in its session and records its usage. The task returns whether the session has it."""
        storing = self._storing.start(self._stored(run, block, continues, owner), "store a run")
        self.await_end(run.session_id, storing)
        return storing

    async def compacted(self) -> None:
        """Waits until finished runs are stored and sessions that grew too long are summarised."""
        while self._storing or self._compacting:
            await self._storing.wait()
            await self._compacting.wait()

    async def aclose(self) -> None:
        """Waits for current writes for a limited time. Pending summaries are postponed."""
        self._is_closed = True
        self._compacting.cancel()  # their usage is still recorded
        await asyncio.gather(self._storing.end(CLOSING_SECONDS), self._compacting.end(CLOSING_SECONDS))

    def _is_over(self, session_id: str, task: asyncio.Task[Any]) -> None:
        left = self._before.get(session_id, set())
        left.discard(task)
        if not left:
            self._before.pop(session_id, None)

    async def _stored(self, run: ModelUsageRecord, block: Sequence[SessionMessage], continues: str, owner: str) -> bool:
        ids = {"agent": run.agent, "run_id": run.id}
        is_remembered, _ = await asyncio.gather(
            recorded(partial(self._remember, run, block, continues, owner), "remembered", **ids),
            recorded(partial(self._runs.note, run), "noted down", **ids),
        )
        if is_remembered and not self._is_closed:
            self._compacting.start(self._compacted(run), "compact a session")
        return is_remembered

    async def _remember(
        self, run: ModelUsageRecord, block: Sequence[SessionMessage], continues: str, owner: str
    ) -> None:
        await self._memory.add_run(
            run.session_id,
            run.id,
            block,
            run_id=run.run_id,
            has_answered=run.outcome is UsageOutcome.ANSWERED,
            continues=continues,
            owner=owner,
            metadata=_described(run),
        )

    async def _compacted(self, run: ModelUsageRecord) -> None:
        try:
            await self._memory.compact_session(run.session_id)
        except Exception as error:  # noqa: BLE001 - the session stays as it is, and the next run tries again
            _log.warning(
                "A session could not be compacted.",
                action="session_compact",
                agent=run.agent,
                session=run.session_id,
                error=type(error).__name__,
            )


class Works(Protocol):
    """The behaviour of one kind of built-in agent."""

    async def answer(self, run: BuiltinRun) -> None:
        """Answers a run. May raise any error; the message of a `Stumbled` is meant for the user."""
        ...

    async def aclose(self) -> None:
        """Releases all resources."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """A user-facing description of an error."""

    message: str
    code: str
    is_limit: bool = False
    limit: str = ""  # the limit of the run that was reached, as in `RunLimits`
    detail: str = ""  # for the log only: may contain file names


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStorage:
    """The stores in which an agent's runs are saved."""

    memory: Memory
    runs: ConversationUsage
    scope: SessionScope = SessionScope.USER


class BuiltinAgent:
    """An agent that runs in the coordinator; implements `swarm.domain.answers.agents.AgentClient`.

    ``limits`` are those of each run, and ``day`` those of a conversation's runs on one day in UTC. ``explain`` turns an
    error into a user-facing description; it returns None for unknown errors.
    """

    def __init__(
        self,
        name: str,
        works: Works,
        record: RunStorage,
        limits: RunLimits,
        *,
        explain: Callable[[BaseException], Trouble | None],
        day: RunLimits = NO_LIMITS,
    ) -> None:
        self.name = name
        self._works = works
        self._record = record
        self._limits = limits
        self._day = day
        self._explain = explain
        self._clock = SystemClock()
        self._recorder = _Recorder(record.memory, record.runs)
        self._working = BackgroundTasks()

    async def compacted(self) -> None:
        """Waits until sessions that grew too long are summarised; used by a process that asks a single question."""
        await self._recorder.compacted()

    async def aclose(self) -> None:
        """Cancels the current runs, records them, and releases all resources."""
        await self._working.end()
        await self._recorder.aclose()
        await self._works.aclose()

    def run(self, run_input: RunInput) -> AsyncGenerator[AgentEvent, None]:
        """Runs the agent and yields its events. Ends with a `RunEnd`, and raises nothing."""
        return self._run(run_input)

    async def invoke(self, run_input: RunInput) -> RunEnd:
        """Runs the agent and returns the complete answer within a minute. Raises nothing."""
        try:
            async with asyncio.timeout(INVOKE_SECONDS), contextlib.aclosing(self._run(run_input)) as events:
                return await collected(events)
        except TimeoutError:
            return Broken(reason=not_within(INVOKE_SECONDS))

    async def open_questions(self, origin: Origin, conversation_id: str) -> tuple[Asked, ...]:
        """Returns the questions that a conversation's last run asked and nobody has answered, from the session.

        Raises Unavailable without the database.
        """
        session_id = conversation_session(origin, conversation_id, self._record.scope)
        turn = await self._record.memory.waiting_turn(session_id, conversation_id)
        return tuple(question_of(call) for call in turn.open_calls) if turn else ()

    async def health(self) -> Health:
        """Reports the agent as reachable. Failures of models and tools are reported in their runs."""
        return Health(reachable=True, detail="it runs in the coordinator")

    async def _run(self, run_input: RunInput) -> AsyncGenerator[AgentEvent, None]:
        run = BuiltinRun(run_input, session_of(run_input, self._record.scope))
        work = self._started(run)
        try:
            while True:
                event = await run.heard()
                yield event
                if isinstance(event, RunEnd):
                    return
        finally:
            work.cancel()  # the reader has disconnected, or the run is over
            self._recorder.await_end(run.session_id, work)

    def _started(self, run: BuiltinRun) -> asyncio.Task[None]:
        work = self._working.start(self._work(run), "run of a built-in agent")
        work.add_done_callback(lambda _: run.end(Broken(reason=CUT_OFF)))
        return work

    async def _work(self, run: BuiltinRun) -> None:
        """Executes the run and records it, whether it succeeds or fails."""
        begun = self._clock.now_us()
        try:
            outcome, end, note = await self._answered(run)
        except asyncio.CancelledError:
            self._store(run, begun, UsageOutcome.STOPPED, "it was stopped")
            raise
        try:
            is_stored = await asyncio.shield(self._store(run, begun, outcome, note))
            if isinstance(end, Interrupted) and not is_stored:
                end = Broken(reason=NOT_ASKED)
        finally:
            run.end(end)

    async def _answered(self, run: BuiltinRun) -> tuple[UsageOutcome, RunEnd, str]:
        limit = PausableTimeout(self._limits.seconds)
        caller = ToolCaller(run_id=run.input.run_id, limit=limit)
        CALLER.set(caller)  # in the run's own task
        try:
            async with limit:
                await self._recorder.settled(run.session_id)
                run.owner = await self._record.memory.owner()
                run.limits = await self._limits_of(run)
                run.input = await self._afresh(run.input)
                await self._works.answer(run)
        except Exception as error:  # noqa: BLE001 - the reader needs the end of the run; unknown errors are logged there
            if limit.expired():
                message = self._limits.reached("seconds")
                ended: tuple[UsageOutcome, RunEnd, str] = (
                    UsageOutcome.LIMITED,
                    Failed(message=message, code=LIMIT),
                    message,
                )
            else:
                ended = self._failed(run, error)
            if not caller.handed_to:
                return ended
            await run.announce(caller.handed_to)  # others do the work, so there is nothing to try again
            return ended[0], Finished(elsewhere=True), ended[2]
        return UsageOutcome.ANSWERED, Interrupted(asked=run.asked) if run.asked else Finished(), ""

    async def _limits_of(self, run: BuiltinRun) -> RunLimits:
        """Returns the limits of a run, lowered to what is left of its conversation's day. Raises Stumbled if nothing is
        left.
        """
        if self._day == NO_LIMITS:
            return self._limits
        used = await self._record.runs.used_today(run.session_id, run.input.run_id)
        limits = self._limits.within(self._day, used)
        if limits.used_up:
            raise Stumbled(limits.reached(limits.used_up), code=LIMIT)
        return limits

    async def _afresh(self, run_input: RunInput) -> RunInput:
        """Removes text that other attempts at the same trigger posted in the thread, because each attempt
        starts over.
        """
        if not run_input.run_id or not run_input.history:
            return run_input
        shown = await self._record.memory.shown_before(run_input.run_id)
        return replace(run_input, history=tuple(said for said in run_input.history if said.id not in shown))

    def _failed(self, run: BuiltinRun, error: Exception) -> tuple[UsageOutcome, Failed | Broken, str]:
        ids = {"agent": self.name, "run_id": run.input.agui_run_id}
        trouble = self._trouble(error, run.limits)
        if trouble is None:
            _log.error("A run failed with an unexpected error.", action="agent_failed", exc_info=error, **ids)
            return UsageOutcome.FAILED, Broken(reason=OUR_FAULT), OUR_FAULT
        _log.warning(
            "A run failed.", action="agent_broken", reason=trouble.detail or trouble.message, code=trouble.code, **ids
        )
        outcome = UsageOutcome.LIMITED if trouble.is_limit else UsageOutcome.FAILED
        return outcome, Failed(message=trouble.message, code=trouble.code), trouble.message

    def _trouble(self, error: Exception, limits: RunLimits) -> Trouble | None:
        if isinstance(error, Stumbled):
            return Trouble(message=error.message, code=error.code, is_limit=error.code == LIMIT)
        if known := self._explain(error):
            return replace(known, message=limits.reached(known.limit)) if known.limit else known
        return Trouble(message=error.message, code=error.code) if isinstance(error, SwarmError) else None

    def _store(self, run: BuiltinRun, begun: int, outcome: UsageOutcome, note: str) -> asyncio.Task[bool]:
        noted, block = self._noted(run, begun, outcome, note), _block(run, outcome, note)
        return self._recorder.store(noted, block, run.continues, run.owner)

    def _noted(self, run: BuiltinRun, begun: int, outcome: UsageOutcome, note: str) -> ModelUsageRecord:
        origin = run.input.origin
        return ModelUsageRecord(
            id=run.input.agui_run_id,
            agent=self.name,
            door=origin.door,
            session_id=run.session_id,
            run_id=run.input.run_id,
            requester=origin.user_id or origin.client_name or origin.client,
            model=run.model,
            outcome=outcome,
            note=note,
            usage=run.usage,
            started_at=begun,
            ended_at=self._clock.now_us(),
        )


def _described(run: ModelUsageRecord) -> dict[str, str]:
    """Returns what a session tells about its conversation, without people: their texts and names are deleted apart."""
    door, _, rest = run.session_id.partition(":")
    place = {"channel": rest.partition(":")[0]} if door == Door.SLACK else {}
    return {"source": run.door.value, "model": run.model, "last_outcome": run.outcome.value, **place}


def _block(run: BuiltinRun, outcome: UsageOutcome, note: str) -> list[SessionMessage]:
    """Returns the messages of a run to store: the question, the work, and a note if the run ended early."""
    block = [*questions(run.input), *run.remembered]
    if outcome is not UsageOutcome.ANSWERED:
        block.append(SessionMessage(role=MessageRole.ASSISTANT, text=f"[This answer broke off: {note}]"))
    return block
