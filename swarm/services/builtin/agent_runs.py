"""Runs of built-in agents for clients that read the events, one at a time in each conversation.

Who may act: a conversation belongs to its client, so equal conversation ids of two clients never collide. One run at a
time uses a conversation, across all coordinator processes (`swarm.services.builtin.conversation_locks`). A run has its
own asyncio task, which drives the agent's generator from the first step to the last and waits while the client reads no
events. A run ends when the agent finishes, when its client leaves or cancels, after a time limit, when it loses its
conversation lock, or with the coordinator; the client receives the reason immediately.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, Protocol, runtime_checkable

import structlog

from swarm.domain.answers.agents import INVOKE_SECONDS, LONGEST_RUN_SECONDS, AgentClient, Health, RunEnd
from swarm.domain.answers.events import AgentEvent, Asked, Broken, Cancelled, Failed, Interrupted, Origin, RunInput
from swarm.domain.errors import NotFound, RateLimited, Unavailable
from swarm.domain.model.agents import Agent
from swarm.domain.policy.access import CallerPolicy
from swarm.services.builtin.conversation_locks import RESTARTING, ConversationKey, ConversationLock, ConversationLocks

MOST_RUNS: Final = 100
"""The maximum number of concurrent runs in one process."""

MOST_RUNS_EACH: Final = 50
"""The maximum number of concurrent runs of one client, so that no client takes all the capacity."""

EVENTS_AHEAD: Final = 16
"""The maximum number of unread events of a run."""

PATIENCE_SECONDS: Final = 2.0
"""How long a new run waits for the previous run of its conversation, whose client may have just left."""

ENDING_SECONDS: Final = 2.0
"""The time allowed for runs to end when the coordinator stops."""

OPEN_QUESTIONS: Final = 1000
"""The number of conversations whose open questions are kept; questions of older conversations are dropped."""

CALLERS_HINT: Final = "The operator lists who may call an agent in agents.builtin.NAME.callers."

BUDGET_HINT: Final = "The operator sets the budgets; a new day begins at midnight UTC."
BUDGET_SECONDS: Final = 600.0
"""When a client may try again whose run was refused because of a budget."""

WhyNotStart = Callable[[str], Awaitable[str]]
"""Returns why an agent, by its name, may start no run, as a sentence; empty if it may."""

STOPPING: Final = Failed(message=RESTARTING, code="unavailable")
NO_END: Final = Broken(reason="it stopped in the middle of its answer")
OUR_FAULT: Final = Broken(reason="something went wrong on our side")

_log = structlog.get_logger(__name__)


@runtime_checkable
class RemembersQuestions(Protocol):
    """An agent that stores its open questions."""

    async def open_questions(self, origin: Origin, conversation_id: str) -> tuple[Asked, ...]:
        """Returns the questions of a conversation that nobody has answered."""
        ...


class AgentRun:
    """One run for a client. The client calls `next` until a `RunEnd`, and `leave` in any case."""

    def __init__(self, events: AsyncGenerator[AgentEvent, None], *, id: str, longest_seconds: float) -> None:
        self.id = id
        self.end: RunEnd | None = None  # the end, as reported to the client
        self._waiting: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(EVENTS_AHEAD)
        self.task = asyncio.create_task(self._work(events, longest_seconds), name=f"agent run {id}")

    async def next(self) -> AgentEvent:
        """Returns the next event. No event follows a `RunEnd`."""
        event = await self._waiting.get()
        self._room.release()
        return event

    def leave(self) -> None:
        """Ends the run if it is unfinished, because its client has left."""
        self.stop(Cancelled())

    def stop(self, last: RunEnd, *, tell_rest: bool = True) -> bool:
        """Ends the run now, with ``last`` as its last event. Returns whether the run was unfinished.

        The agent may take a moment to clean up, but the client does not have to wait. Without ``tell_rest`` the client
        gets none of the unread events.
        """
        if not tell_rest and not self._waiting.empty():
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self.end = None  # not yet reported
        is_first = self._conclude(last)
        if is_first:
            self.task.cancel()
        return is_first

    async def _work(self, events: AsyncGenerator[AgentEvent, None], longest_seconds: float) -> None:
        limit = asyncio.timeout(longest_seconds)
        try:
            async with limit, aclosing(events):
                async for event in events:
                    await self._tell(event)
            self._conclude(NO_END)
        except asyncio.CancelledError:
            self._conclude(NO_END)  # cancelled without a reason, by a timer of the agent
            raise
        except Exception:  # noqa: BLE001 - logged there; the client needs an end
            if limit.expired():
                self._conclude(Broken(reason=f"it did not finish within {longest_seconds:g} s"))
                return
            _log.exception("A run of a built-in agent failed.", action="agent_run_failed", run_id=self.id)
            self._conclude(OUR_FAULT)

    async def _tell(self, event: AgentEvent) -> None:
        """Passes on an event when there is room; drops events after the end."""
        if isinstance(event, RunEnd):
            self._conclude(event)
        elif self.end is None:
            await self._room.acquire()
            if self.end is None:
                self._waiting.put_nowait(event)

    def _conclude(self, end: RunEnd) -> bool:
        """Sets the end. The first end counts, and does not require room."""
        if self.end is not None:
            return False
        self.end = end
        self._waiting.put_nowait(end)
        return True


class AgentRuns:
    """The built-in agents as offered to clients; the first agent is the default.

    The agents are not closed here, because Slack may use the same agents.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentClient],
        locks: ConversationLocks,
        policies: Mapping[str, CallerPolicy],
        *,
        most_runs: int = MOST_RUNS,
        most_runs_each: int = MOST_RUNS_EACH,
        longest_run_seconds: float = LONGEST_RUN_SECONDS,
        invoke_seconds: float = INVOKE_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        why_not_start: WhyNotStart | None = None,
    ) -> None:
        self._agents = dict(agents)
        self._why_not_start = why_not_start
        self._locks = locks
        self._policies = policies
        self._most_runs = most_runs
        self._most_runs_each = most_runs_each
        self._longest_run_seconds = longest_run_seconds
        self._invoke_seconds = invoke_seconds
        self._patience_seconds = patience_seconds
        self._running: dict[AgentRun, ConversationKey] = {}  # runs in this process
        self._questions: OrderedDict[ConversationKey, tuple[Asked, ...]] = OrderedDict()
        self._is_closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, the default first."""
        return tuple(self._agents)

    def callable_by(self, caller: Agent | None) -> tuple[str, ...]:
        """Returns the agents that a caller may call, the default first. None is the operator."""
        return tuple(name for name in self._agents if self._policies[name].allows(caller))

    def tells_tools(self, name: str) -> bool:
        """Whether callers of this agent receive the arguments and results of its tools."""
        return self._policies[name].tool_details

    def named(self, name: str | None, caller: Agent | None) -> str:
        """Returns the name of an agent that the caller may call; the default agent's name for None.

        Raises NotFound with the names of the callable agents; the caller sees no other names.
        """
        there = self.callable_by(caller)
        chosen = name or next(iter(there), "")
        if chosen not in there:
            missing = f"There is no built-in agent '{chosen}'." if chosen else "You may not call any built-in agent."
            hint = f"Available agents: {', '.join(there)}." if there else CALLERS_HINT
            raise NotFound(missing, hint=hint)
        return chosen

    async def health(self, name: str) -> Health:
        """Checks whether an agent could answer now."""
        return await self._agents[name].health()

    async def begin(self, key: ConversationKey, run_input: RunInput) -> AgentRun:
        """Starts a run whose events are passed on as they happen.

        Raises Conflict while the conversation has another run, RateLimited, and Unavailable without the database or at
        shutdown.
        """
        lock = await self._acquire(key, run_input)
        return self._start(lock, self._agents[key.agent].run(run_input), self._longest_run_seconds)

    async def invoke(self, key: ConversationKey, run_input: RunInput) -> AgentRun:
        """Starts a run that reports only its end, with the complete answer. Raises the errors of `begin`."""
        lock = await self._acquire(key, run_input)
        return self._start(lock, _whole(self._agents[key.agent], run_input), self._invoke_seconds)

    def cancel(self, client: str, conversation: str, agent: str | None = None) -> bool:
        """Ends a client's run in a conversation, optionally of one agent.

        Returns whether this process had such a run.
        """
        stopped = [
            run.stop(Cancelled())
            for run, key in self._running.items()
            if (key.client, key.id) == (client, conversation) and agent in (None, key.agent)
        ]
        return any(stopped)

    async def questions(self, key: ConversationKey, origin: Origin) -> tuple[Asked, ...]:
        """Returns the open questions of a conversation's last run, if no other run followed.

        Questions about tool calls are in the session of a built-in agent, so they outlive the process that asked.
        Raises Unavailable without the database.
        """
        for run, of in self._running.items():
            if of == key and isinstance(run.end, Interrupted):  # still cleaning up
                return run.end.asked
        if key in self._questions:
            return self._questions[key]
        agent = self._agents[key.agent]
        return await agent.open_questions(origin, key.id) if isinstance(agent, RemembersQuestions) else ()

    async def close(self) -> None:
        """Accepts no more runs and ends the active runs; their clients are informed immediately. Takes at most
        seconds.
        """
        self._is_closed = True
        tasks = [run.task for run in self._running]
        for run in self._running:
            run.stop(STOPPING)
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=ENDING_SECONDS)
            for task in stuck:
                task.cancel()
                _log.warning("A run of a built-in agent does not end.", action="agent_run_stuck", run=task.get_name())
        await self._locks.close()

    async def _acquire(self, key: ConversationKey, run_input: RunInput) -> ConversationLock:
        """Takes the conversation lock for a run, which then starts without further waiting."""
        self._check_room(key.client)
        if self._why_not_start and (reason := await self._why_not_start(key.agent)):
            raise RateLimited(reason, hint=BUDGET_HINT, retry_after_seconds=BUDGET_SECONDS)
        lock = await self._locks.take(key, run_input.agui_run_id, patience_seconds=self._patience_seconds)
        try:
            self._check_room(key.client)
        except (RateLimited, Unavailable):
            self._locks.leave(lock)
            raise
        return lock

    def _check_room(self, client: str) -> None:
        if self._is_closed:
            raise Unavailable(STOPPING.message)
        if len(self._running) >= self._most_runs:
            raise RateLimited("The built-in agents have reached their limit of concurrent runs.", retry_after_seconds=5)
        if sum(key.client == client for key in self._running.values()) >= self._most_runs_each:
            raise RateLimited(
                f"You have {self._most_runs_each} concurrent runs of built-in agents.",
                hint="Wait until one of them has ended, or cancel one.",
                retry_after_seconds=5,
            )

    def _start(
        self, lock: ConversationLock, events: AsyncGenerator[AgentEvent, None], longest_seconds: float
    ) -> AgentRun:
        self._questions.pop(lock.key, None)
        run = AgentRun(events, id=lock.agui_run_id, longest_seconds=longest_seconds)
        self._running[run] = lock.key
        keeping = asyncio.create_task(self._locks.keep(lock, lambda why: run.stop(Broken(reason=why))))
        run.task.add_done_callback(lambda _: self._ended(lock, run, keeping))
        return run

    def _ended(self, lock: ConversationLock, run: AgentRun, keeping: asyncio.Task[None]) -> None:
        key = self._running.pop(run)
        keeping.cancel()
        self._locks.leave(lock)
        if isinstance(run.end, Interrupted):
            self._questions[key] = run.end.asked
            if len(self._questions) > OPEN_QUESTIONS:
                self._questions.popitem(last=False)
        ids = {"agent": key.agent, "client": key.client, "run_id": run.id}
        how = type(run.end).__name__.lower()
        _log.info("A run of a built-in agent has ended.", action="agent_run", how=how, **ids)


async def _whole(agent: AgentClient, run_input: RunInput) -> AsyncGenerator[AgentEvent, None]:
    yield await agent.invoke(run_input)
