"""Agents that the coordinator runs, over one database, with a Slack that shows live answers in memory."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from swarm.domain.answers.agents import AgentClient, Health, RemoteAgent, RunEnd, StreamingAgent, conversation_with
from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AnswerTarget,
    AppendStream,
    Chunk,
    CloseStream,
    Closing,
    OpenStream,
    PostPage,
    SessionState,
    Slot,
    StreamCall,
    Text,
    UpdatePage,
)
from swarm.domain.answers.events import AgentEvent, Finished, RunInput, TextDelta
from swarm.domain.answers.state import Pace
from swarm.domain.model.agents import Agent
from swarm.domain.model.deliveries import Answer, DeliveryAccepted
from swarm.domain.model.threads import SlackMessage
from swarm.services.ground.locks import LockTerm
from swarm.services.outbox.status_lines import StatusLines
from swarm.services.runs.active_runs import ActiveRuns, RunNotifications
from swarm.services.runs.answer_run import RunContext
from swarm.services.runs.event_sources import ManagedAgent
from swarm.services.runs.run_recovery import Recovery
from swarm.services.runs.streaming_agents import StreamingAgentRuns
from swarm.slack.outgoing.live import LiveStage
from swarm.store import agents
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from tests.support.slack import next_ts
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import ME, World

FAST = Pace(append=0.02, line=0.01, update=0.02)

Events = AsyncGenerator[AgentEvent, None]
Script = Callable[[RunInput], Events]


@dataclass
class Shown:
    """A message of a live answer."""

    ts: str
    place: AnswerTarget
    page: int
    text: str
    streaming: bool
    closing: Closing = NOTHING_BELOW


@dataclass
class FakeLive:
    """Slack's streams in memory. ``script`` answers the next calls instead; ``hold`` keeps calls from being answered.

    ``calls`` is everything that was asked, in order.
    """

    script: deque[Callable[[FakeLive, AnswerTarget, StreamCall], Answer]] = field(default_factory=deque)
    hold: dict[type, asyncio.Event] = field(default_factory=dict)
    calls: list[tuple[str, StreamCall]] = field(default_factory=list)  # by run
    messages: list[Shown] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)  # by thread, as it stands
    told: list[tuple[str, str, SessionState]] = field(default_factory=list)  # calls for statuses, in order
    shows_stop: bool = False
    crowded: frozenset[Slot] = frozenset()  # methods whose turn comes late
    is_down: bool = False  # takes no status

    async def acquire_slot(self, slot: Slot, channel: str) -> None:
        await asyncio.sleep(0)

    def expected_wait_seconds(self, slot: Slot, channel: str) -> float:
        return 60.0 if slot in self.crowded else 0.0

    async def call(self, place: AnswerTarget, call: StreamCall) -> Answer:
        self.calls.append((place.run_id, call))
        answer = (self.script.popleft() if self.script else FakeLive.takes)(self, place, call)
        if type(call) in self.hold:
            await self.hold[type(call)].wait()
        return answer

    def takes(self, place: AnswerTarget, call: StreamCall) -> Answer:
        match call:
            case OpenStream():
                return self._begins(place, call.page, _text(call.chunks), streaming=True)
            case PostPage():
                return self._begins(place, call.page, call.text, streaming=False, closing=call.closing)
            case AppendStream():
                self._at(call.ts).text += _text(call.chunks)
            case CloseStream():
                shown = self._at(call.ts)
                shown.text += _text(call.chunks)
                shown.streaming, shown.closing = False, call.closing
            case UpdatePage():
                shown = self._at(call.ts)
                shown.text, shown.closing = call.text, call.closing
        return DeliveryAccepted(ts=call.ts, thread_ts=place.thread_ts)

    async def find(
        self, place: AnswerTarget, page: int, after_us: int, known: Container[str], *, is_post: bool = False
    ) -> str | None:
        found = [shown.ts for shown in self.messages if shown.place.thread_ts == place.thread_ts]
        return next((ts for ts in reversed(found) if ts not in known), None)

    async def status(self, place: AnswerTarget, text: str, *, session: SessionState = SessionState.PROCESSING) -> bool:
        self.statuses[place.thread_ts] = text
        self.told.append((place.thread_ts, text, session))
        return not self.is_down

    def of(self, root: SlackMessage) -> list[Shown]:
        """The messages of live answers in a thread."""
        return [shown for shown in self.messages if shown.place.thread_ts == root.root_ts]

    def _begins(
        self, place: AnswerTarget, page: int, text: str, *, streaming: bool, closing: Closing = NOTHING_BELOW
    ) -> Answer:
        shown = Shown(ts=next_ts(), place=place, page=page, text=text, streaming=streaming, closing=closing)
        self.messages.append(shown)
        return DeliveryAccepted(ts=shown.ts, thread_ts=place.thread_ts)

    def _at(self, ts: str) -> Shown:
        (shown,) = [shown for shown in self.messages if shown.ts == ts]
        return shown


def _text(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))


def says(text: str = "Hello.") -> Script:
    """An agent that says this and is done."""

    async def script(run: RunInput) -> Events:
        yield TextDelta(text=text, message_id="1")
        yield Finished()

    return script


def ends(*events: AgentEvent) -> Script:
    """An agent that does just this."""

    async def script(run: RunInput) -> Events:
        for event in events:
            yield event

    return script


@dataclass
class Gate:
    """An agent that says something, waits until it may go on, and then says more. Each run has a gate of its own."""

    before: str = "Some words.\n"
    after: str = "The end."
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)  # the run was ended, or has ended

    async def __call__(self, run: RunInput) -> Events:
        try:
            if self.before:
                yield TextDelta(text=self.before, message_id="1")
            self.arrived.set()
            await self.opened.wait()
            yield TextDelta(text=self.after, message_id="1")
            yield Finished()
        finally:
            self.left.set()


class Scripted(AgentClient):
    """An agent in this process. ``scripts`` are for the next runs, after them ``usual`` is."""

    def __init__(self, usual: Script | None = None) -> None:
        self.usual = usual or says()
        self.scripts: deque[Script] = deque()
        self.inputs: list[RunInput] = []
        self.invoked: list[RunInput] = []
        self.running = 0
        self.most = 0  # runs at once
        self.reachable = True
        self.result: RunEnd = Finished(result="Beep.")

    async def run(self, run: RunInput) -> Events:
        self.inputs.append(run)
        script = self.scripts.popleft() if self.scripts else self.usual
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            async for event in script(run):
                yield event
        finally:
            self.running -= 1

    async def invoke(self, run: RunInput) -> RunEnd:
        self.invoked.append(run)
        return self.result

    async def health(self) -> Health:
        return Health(reachable=self.reachable, detail="" if self.reachable else "nobody answers")

    async def aclose(self) -> None: ...


def hired(name: str, client: AgentClient, **spec: object) -> ManagedAgent:
    """An agent that is run, named so."""
    remote = RemoteAgent(name=name, url="http://agent.example/")
    given = StreamingAgent(**{"name": name, **spec})  # type: ignore[arg-type]
    return ManagedAgent(spec=given, client=client, conversation_id=partial(conversation_with, remote))


@dataclass
class Show:
    """The part of a coordinator that runs agents, as it is while its process is in office."""

    world: World
    live: FakeLive
    streaming_agents: StreamingAgentRuns
    running: ActiveRuns
    recovery: Recovery
    term: LockTerm
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.lines = StatusLines(self.world.database, self.live)

    async def agent(self, name: str, *, is_here: bool = True) -> Agent:
        """An agent once it is registered, and there."""

        async def look() -> Agent | None:
            found = await self.world.database.read(agents.by_name, name)
            return found if found and (found.last_seen_at or not is_here) else None

        found = await wait_until(look, what=f"{name} is there")
        assert found
        return found

    async def runs(self, root: SlackMessage) -> list[Run]:
        """The runs of a thread, oldest first."""
        threads = await self.world.rows("SELECT id, channel, thread_ts FROM threads")
        where = (root.channel, root.root_ts)
        found = [row["id"] for row in threads if (row["channel"], row["thread_ts"]) == where]
        return (await self.world.database.read(runs.of_thread, found[0]))[::-1] if found else []

    async def over(self, root: SlackMessage, count: int = 1, within_seconds: float = PATIENCE_SECONDS) -> list[Run]:
        """The runs of a thread once so many have ended, or wait for people, and their messages say so."""

        async def look() -> list[Run]:
            over = [run for run in await self.runs(root) if run.ended_at or run.status == "waiting"]
            growing = await self.world.database.read(run_pages.unsealed)
            return [run for run in over if run.id not in growing]

        over = await wait_until(
            look, lambda ended: len(ended) >= count, within_seconds=within_seconds, what=f"{count} runs are over"
        )
        await self.lines.look_once(self.term.is_ours)
        return over

    async def deposed(self) -> None:
        """The process loses its office in the middle: it may not call Slack any more, and finds its work cancelled."""
        self.term.end()
        await self.stop()

    async def stop(self) -> None:
        """The process ends in good order, unless it has lost its office before."""
        if self.task:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task
            self.task = None
            await self.lines.look_once(self.term.is_ours)

    def begin(self) -> None:
        """A term begins."""
        self.term = LockTerm(self.term.number + 1, math.inf, time.monotonic)
        self.task = asyncio.create_task(self.streaming_agents.run(self.term))


def show(
    world: World, *agents: ManagedAgent, live: FakeLive | None = None, stop_button_seconds: float | None = None
) -> Show:
    """What runs these agents; nothing runs before `Show.begin`."""
    live = live or FakeLive()
    specs = {one.spec.name: one.spec for one in agents}
    recovery = Recovery(world.database, live, specs, world.operating_policy)
    run_context = RunContext(
        database=world.database,
        stage=LiveStage(live, doubt_seconds=0.05, pace=FAST),
        work=world.services.work,
        directory=world.slack,
        me=ME,
        operating_policy=world.operating_policy,
        recovery=recovery,
        run_usage=world.services.run_usage,
        stop_button_seconds=stop_button_seconds,
    )
    running = ActiveRuns(run_context)
    news = RunNotifications(world.services.work, world.services.tasks, world.services.delegations, running)
    streaming_agents = StreamingAgentRuns(world.database, world.services.polls, running, recovery, news, agents)
    term = LockTerm(0, math.inf, time.monotonic)
    return Show(
        world=world, live=live, streaming_agents=streaming_agents, running=running, recovery=recovery, term=term
    )


@asynccontextmanager
async def playing(
    world: World, *agents: ManagedAgent, live: FakeLive | None = None, stop_button_seconds: float | None = None
) -> AsyncIterator[Show]:
    """A process in office that runs these agents, once they are registered."""
    playing = show(world, *agents, live=live, stop_button_seconds=stop_button_seconds)
    playing.begin()
    try:
        for one in agents:
            await playing.agent(one.spec.name, is_here=(await one.client.health()).reachable)
        yield playing
    finally:
        await playing.stop()
