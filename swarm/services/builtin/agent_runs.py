"""Runs of built-in agents that somebody asks for and listens to: one at a time in a conversation.

Who may do what: a conversation belongs to the client that leads it, so two clients with the same id for theirs never
meet. One run at a time has it, over all coordinator processes: `swarm.services.builtin.conversation_locks`. A run has a
task of its own, in which the agent's generator lives from its first step to its last; the task waits when nobody takes
what the agent says. A run ends by itself, when its listener leaves, when its client cancels it, when it has taken too
long, when it loses its conversation, or with the coordinator; whoever listens is told at once which.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

import structlog

from swarm.domain.access import CallerPolicy
from swarm.domain.answers.agents import INVOKE_SECONDS, LONGEST_RUN_SECONDS, AgentClient, Health, RunEnd
from swarm.domain.answers.events import AgentEvent, Asked, Broken, Cancelled, Failed, Interrupted, RunInput
from swarm.domain.errors import NotFound, RateLimited, Unavailable
from swarm.domain.model.agents import Agent
from swarm.services.builtin.conversation_locks import RESTARTING, ConversationKey, ConversationLock, ConversationLocks

MOST_RUNS: Final = 100
"""So many runs at once are taken on in one process."""

MOST_RUNS_EACH: Final = 50
"""So many of them are one client's: nobody takes the whole room."""

EVENTS_AHEAD: Final = 16
"""An agent is so many events ahead of its listener at most."""

PATIENCE_SECONDS: Final = 2.0
"""So long a new run waits for the one before it in its conversation, which a client has left perhaps just now."""

ENDING_SECONDS: Final = 2.0
"""So long runs have to end when the coordinator stops."""

OPEN_QUESTIONS: Final = 1000
"""Of so many conversations the questions that wait for people are kept; of older ones they are forgotten."""

CALLERS_HINT: Final = "The operator lists who may call an agent in agents.builtin.NAME.callers."

STOPPING: Final = Failed(message=RESTARTING, code="unavailable")
NO_END: Final = Broken(reason="it stopped in the middle of its answer")
OUR_FAULT: Final = Broken(reason="something went wrong on our side")

_log = structlog.get_logger(__name__)


class AgentRun:
    """One run, to be listened to: `next` again and again until a `RunEnd`, and `leave` in any case."""

    def __init__(self, events: AsyncGenerator[AgentEvent, None], *, id: str, longest_seconds: float) -> None:
        self.id = id
        self.end: RunEnd | None = None  # how it ended, as far as anybody is told
        self._waiting: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(EVENTS_AHEAD)
        self.task = asyncio.create_task(self._work(events, longest_seconds), name=f"agent run {id}")

    async def next(self) -> AgentEvent:
        """What the agent does next. After a `RunEnd` nothing comes any more."""
        event = await self._waiting.get()
        self._room.release()
        return event

    def leave(self) -> None:
        """Nobody listens any more: the run ends, unless it has ended anyway."""
        self.stop(Cancelled())

    def stop(self, last: RunEnd, *, tell_rest: bool = True) -> bool:
        """End it now, with this as its last event; whether it had not ended before.

        The agent may take a moment to clear up; its listener need not wait for that. Without ``tell_rest`` the listener
        gets nothing of what the agent has done and nobody has taken yet.
        """
        if not tell_rest and not self._waiting.empty():
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self.end = None  # of which nobody has been told
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
            self._conclude(NO_END)  # by nobody who said why: a timer of the agent's own
            raise
        except Exception:  # noqa: BLE001 - logged there; whoever listens needs an end
            if limit.expired():
                self._conclude(Broken(reason=f"it did not finish within {longest_seconds:g} s"))
                return
            _log.exception("A run of a built-in agent failed.", action="agent_run_failed", run_id=self.id)
            self._conclude(OUR_FAULT)

    async def _tell(self, event: AgentEvent) -> None:
        """Hand on an event, once there is room; what comes after the end concerns nobody."""
        if isinstance(event, RunEnd):
            self._conclude(event)
        elif self.end is None:
            await self._room.acquire()
            if self.end is None:
                self._waiting.put_nowait(event)

    def _conclude(self, end: RunEnd) -> bool:
        """The first end counts, and needs no room."""
        if self.end is not None:
            return False
        self.end = end
        self._waiting.put_nowait(end)
        return True


class AgentRuns:
    """The built-in agents, for clients; the first one is the default.

    The agents are not closed here: Slack may be served by the same ones.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentClient],
        talks: ConversationLocks,
        policies: Mapping[str, CallerPolicy],
        *,
        most_runs: int = MOST_RUNS,
        most_runs_each: int = MOST_RUNS_EACH,
        longest_run_seconds: float = LONGEST_RUN_SECONDS,
        invoke_seconds: float = INVOKE_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._agents = dict(agents)
        self._talks = talks
        self._policies = policies
        self._most_runs = most_runs
        self._most_runs_each = most_runs_each
        self._longest_run_seconds = longest_run_seconds
        self._invoke_seconds = invoke_seconds
        self._patience_seconds = patience_seconds
        self._running: dict[AgentRun, ConversationKey] = {}  # in this process
        self._questions: OrderedDict[ConversationKey, tuple[Asked, ...]] = OrderedDict()
        self._is_closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """The agents there are, the default first."""
        return tuple(self._agents)

    def callable_by(self, caller: Agent | None) -> tuple[str, ...]:
        """The agents that an agent may call, or, if None, the operator; their default first."""
        return tuple(name for name in self._agents if self._policies[name].allows(caller))

    def tells_tools(self, name: str) -> bool:
        """Whether callers of this agent are told what it says to its tools, and what these answer."""
        return self._policies[name].tool_details

    def named(self, name: str | None, caller: Agent | None) -> str:
        """The name of an agent that the caller may call; the default's for None.

        Raises NotFound, naming those there are; for the caller there are no others.
        """
        there = self.callable_by(caller)
        chosen = name or next(iter(there), "")
        if chosen not in there:
            missing = f"There is no built-in agent '{chosen}'." if chosen else "There is no built-in agent for you."
            hint = f"There are: {', '.join(there)}." if there else CALLERS_HINT
            raise NotFound(missing, hint=hint)
        return chosen

    async def health(self, name: str) -> Health:
        """Whether an agent could answer now."""
        return await self._agents[name].health()

    async def begin(self, talk: ConversationKey, turn: RunInput) -> AgentRun:
        """A run whose events come as they happen.

        Raises Conflict while the conversation has another run, RateLimited, and Unavailable without the database or at
        shutdown.
        """
        held = await self._held(talk, turn)
        return self._start(held, self._agents[talk.agent].run(turn), self._longest_run_seconds)

    async def invoke(self, talk: ConversationKey, turn: RunInput) -> AgentRun:
        """A run of which only its end is told, with the whole answer in it. Raises as `begin` does."""
        held = await self._held(talk, turn)
        return self._start(held, _whole(self._agents[talk.agent], turn), self._invoke_seconds)

    def cancel(self, client: str, conversation: str, agent: str | None = None) -> bool:
        """End a client's run in a conversation, with any agent or with this one; whether this process had one."""
        stopped = [
            run.stop(Cancelled())
            for run, talk in self._running.items()
            if (talk.client, talk.id) == (client, conversation) and agent in (None, talk.agent)
        ]
        return any(stopped)

    def questions(self, talk: ConversationKey) -> tuple[Asked, ...]:
        """What the last run of a conversation has asked people, if this process ran it and nothing came after."""
        for run, of in self._running.items():
            if of == talk and isinstance(run.end, Interrupted):  # it still clears up
                return run.end.asked
        return self._questions.get(talk, ())

    async def close(self) -> None:
        """Take no more runs, and end those there are; their listeners are told at once. Takes seconds at most."""
        self._is_closed = True
        tasks = [run.task for run in self._running]
        for run in self._running:
            run.stop(STOPPING)
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=ENDING_SECONDS)
            for task in stuck:
                task.cancel()
                _log.warning("A run of a built-in agent does not end.", action="agent_run_stuck", run=task.get_name())
        await self._talks.close()

    async def _held(self, talk: ConversationKey, turn: RunInput) -> ConversationLock:
        """The conversation, taken for a run that begins before anything is waited for."""
        self._check_room(talk.client)
        held = await self._talks.take(talk, turn.run_id, patience_seconds=self._patience_seconds)
        try:
            self._check_room(talk.client)
        except (RateLimited, Unavailable):
            self._talks.leave(held)
            raise
        return held

    def _check_room(self, client: str) -> None:
        if self._is_closed:
            raise Unavailable(STOPPING.message)
        if len(self._running) >= self._most_runs:
            raise RateLimited("The built-in agents have too much to do at the moment.", retry_after_seconds=5)
        if sum(talk.client == client for talk in self._running.values()) >= self._most_runs_each:
            raise RateLimited(
                f"You have {self._most_runs_each} runs of built-in agents at once.",
                hint="Wait until one of them has ended, or cancel one.",
                retry_after_seconds=5,
            )

    def _start(
        self, held: ConversationLock, events: AsyncGenerator[AgentEvent, None], longest_seconds: float
    ) -> AgentRun:
        self._questions.pop(held.talk, None)
        run = AgentRun(events, id=held.run_id, longest_seconds=longest_seconds)
        self._running[run] = held.talk
        keeping = asyncio.create_task(self._talks.keep(held, lambda why: run.stop(Broken(reason=why))))
        run.task.add_done_callback(lambda _: self._ended(held, run, keeping))
        return run

    def _ended(self, held: ConversationLock, run: AgentRun, keeping: asyncio.Task[None]) -> None:
        talk = self._running.pop(run)
        keeping.cancel()
        self._talks.leave(held)
        if isinstance(run.end, Interrupted):
            self._questions[talk] = run.end.asked
            if len(self._questions) > OPEN_QUESTIONS:
                self._questions.popitem(last=False)
        ids = {"agent": talk.agent, "client": talk.client, "run_id": run.id}
        how = type(run.end).__name__.lower()
        _log.info("A run of a built-in agent has ended.", action="agent_run", how=how, **ids)


async def _whole(agent: AgentClient, turn: RunInput) -> AsyncGenerator[AgentEvent, None]:
    yield await agent.invoke(turn)
