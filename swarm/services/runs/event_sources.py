"""The two sources of a run's events: an agent called by the coordinator, and a polling agent that streams its answer.

`AgentSource` runs work claimed by this process: it renews the lease and ends a run that has lost its lease. A polling
agent has claimed its work itself, through any process: `StreamSource` reads the stored pieces of its slack-stream calls
and leaves the lease to the agent.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import structlog

from swarm.clock import boottime, new_id, new_trace_id
from swarm.domain.answers.agents import AgentClient, History, StreamingAgent
from swarm.domain.answers.events import MAX_PIECES, AgentEvent, Closed, Failed, RunInput, RunStopped, event_of
from swarm.domain.answers.showing import AnswerCollector, AnswerLost, AnswerShown
from swarm.domain.errors import LeaseLost, Unavailable
from swarm.domain.model.agents import Agent, Reach
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import Author, AuthorKind, ChannelType, Thread
from swarm.domain.model.triggers import StartedBy, Trigger
from swarm.domain.prompts.input import client_context
from swarm.domain.text.slack_text import mentioned_ids
from swarm.services.runs.answer_run import AnswerRun, Opening, RunContext
from swarm.services.runs.run_ends import LeaseLossOutcome, keep, place_of
from swarm.services.runs.run_input import (
    NOTHING_HEARD,
    Ids,
    answered_since,
    heard_before,
    new_messages,
    requester_of,
    run_input,
)
from swarm.services.runs.run_recovery import Unfinished, unfinished
from swarm.services.runs.stream_state import look_at
from swarm.store import agents
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.runs import run_events, run_pages, runs
from swarm.store.runs.run_events import RunEvent
from swarm.store.runs.runs import Run
from swarm.store.threads import transcript

SEAL_SECONDS: Final = 5.0
"""The time that a run waits until the previous, abandoned answer is sealed."""

RELEASE_SECONDS: Final = 2.0
"""The delay before a trigger is handed out again while another run still holds it."""

_LOOK_SECONDS: Final = 0.1
_TAIL_SECONDS: Final = 1.0  # pieces are read when one is added, and also at this interval
_FRESH: Final = 2 / 3  # the share of a lease that counts as fresh; leases are renewed every third of their time

_log = structlog.get_logger(__name__)

HandleNotifications = Callable[[Agent, "ManagedAgent", Trigger], Awaitable[None]]
"""Handles a notice that was returned by a lease renewal."""


class NameConversation(Protocol):
    """Returns the id of the conversation in a thread, which is identical for every run in that thread."""

    def __call__(self, *, team: str, channel: str, thread_ts: str) -> str: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedAgent:
    """An agent run by the coordinator, and the function that names its conversations."""

    spec: StreamingAgent
    client: AgentClient
    conversation_id: NameConversation


class AgentSource:
    """The source for an agent that is called with a claimed trigger. Implements `RunSource`."""

    def __init__(
        self, run_context: RunContext, agent: Agent, one: ManagedAgent, trigger: Trigger, take_news: HandleNotifications
    ) -> None:
        self.run_id = new_id()
        self.agent_id: str | None = agent.id
        self.task_id = trigger.task.id if trigger.task and not trigger.notice else None
        self.inbox_message_ids = {inbox_message.id for inbox_message in new_messages(trigger)}
        self.was_called = False
        self._run_context = run_context
        self._agent = agent
        self._one = one
        self._trigger = trigger
        self._take_news = take_news
        self._requester = requester_of(trigger)
        self._confirmed_at = boottime()  # the lease was valid at this time

    async def ready(self, run: AnswerRun) -> bool:
        """Waits a few seconds until the agent's last abandoned answer in this thread is sealed."""
        place = self._trigger.thread
        try:
            async with asyncio.timeout(SEAL_SECONDS):
                while place:
                    if not await self._run_context.database.read(
                        run_pages.is_unsealed_in_thread, place.id, self._agent.id
                    ):
                        break
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            pass  # `begin` gives the work back for another attempt
        except Unavailable as error:
            _log.warning("a run cannot start yet", action="turn", turn=self.run_id, error=error.message)
        except asyncio.CancelledError:
            await asyncio.shield(self._release(0))
            raise
        return True

    async def begin(self) -> Opening | None:
        starting = asyncio.ensure_future(self._run_context.database.write(self._begin))
        try:
            is_started = await asyncio.shield(starting)
        except BaseException:
            await asyncio.gather(starting, return_exceptions=True)  # the row of the run must exist before its end
            raise
        if not is_started:
            await self._release(RELEASE_SECONDS)
            return None
        thread, place = self._trigger.thread, None
        if thread:
            place = place_of(
                thread,
                self._run_context.operating_policy,
                run_id=self.run_id,
                requester=self._requester,
                agent_name=self._agent.name,
                footer=self._one.spec.footer,
            )
        spoken = {said.author_id for said in self._trigger.thread_context if said.kind is AuthorKind.USER}
        return Opening(
            place=place,
            mentionable=frozenset(spoken | ({self._requester} if self._requester else set())),
            writers=frozenset(spoken | ({self._requester} if self._requester else set())),
            is_silent=self._trigger.overthink or self._trigger.notice is not None,
        )

    def _begin(self, tx: Transaction) -> bool:
        """Returns False if the work must not be started.

        This is the case if another run holds the trigger, the agent was just removed, the lease was lost, or an
        abandoned answer of the agent in this thread is not sealed yet.
        """
        trigger = self._trigger
        if agents.by_id(tx, self._agent.id) is None or not leases.holds(leases.by_token(tx, trigger.lease_token)):
            return False
        if trigger.thread and run_pages.is_unsealed_in_thread(tx, trigger.thread.id, self._agent.id):
            return False
        run = runs.start(
            tx,
            agent_id=self._agent.id,
            thread_id=trigger.thread.id if trigger.thread else None,
            lease_token=trigger.lease_token,
            trigger_id=trigger.id,
            attempt=trigger.attempt,
            conversation_id=self._ids.conversation_id,
            agui_run_id=self._ids.agui_run_id,
            trace_id=self._ids.trace_id,
            requester=self._requester,
            task_id=self.task_id,
            inbox_message_ids=[inbox_message.id for inbox_message in new_messages(trigger)],
            run_id=self.run_id,
        )
        return run is not None

    async def keep(self, run: AnswerRun) -> None:
        """Renews the lease until the run ends; stops a run that has lost its lease."""
        while True:
            await asyncio.sleep(self._run_context.operating_policy.lease_seconds / 3)
            asked_at = boottime()
            try:
                heartbeat = await self._run_context.work.renew(self._agent, [self._trigger.lease_token])
                if not heartbeat.renewed.lost:
                    self._confirmed_at = asked_at
                elif await self._keep(run) is not LeaseLossOutcome.OURS:
                    return
            except (Unavailable, LeaseLost) as error:
                _log.warning("a lease could not be renewed", action="turn_renew", error=error.message)
                continue
            for trigger in heartbeat.notices:
                await self._take_news(self._agent, self._one, trigger)

    async def is_ours(self, run: AnswerRun) -> bool:
        """Verifies a lease that was not confirmed for most of its duration, because the process may have slept."""
        is_fresh = boottime() - self._confirmed_at < self._run_context.operating_policy.lease_seconds * _FRESH
        return is_fresh or await self._keep(run) is not LeaseLossOutcome.TAKEN

    async def events(self, run: AnswerRun) -> AsyncGenerator[AgentEvent, None]:
        taken = await self._input()
        if not await run.may_call():
            raise AnswerLost
        self.was_called = True
        is_for_bots = self._trigger.thread is not None and self._requester is None
        events = self._invoked(taken) if is_for_bots else self._one.client.run(taken)
        return self._within_budget(events) if self._agent.reach is Reach.BUILTIN else events

    async def passed_on(self) -> None:
        """Does nothing, because each event is passed on before the agent goes on."""

    async def stored(self) -> AnswerShown | None:
        return None

    async def _within_budget(self, events: AsyncGenerator[AgentEvent, None]) -> AsyncGenerator[AgentEvent, None]:
        """Starts a built-in agent unless a budget is used up and people do not approve more."""
        place = self._trigger.thread
        async with aclosing(events):
            reason = await self._run_context.run_usage.why_not_start(
                self._agent.name, self.run_id, place.id if place else None
            )
            if reason:
                yield Failed(message=reason, code="budget")
                return
            async for event in events:
                yield event

    async def _invoked(self, taken: RunInput) -> AsyncGenerator[AgentEvent, None]:
        yield await self._one.client.invoke(taken)

    async def _release(self, delay_seconds: float) -> None:
        await self._run_context.work.release(self._agent, [self._trigger.lease_token], delay_seconds)

    @cached_property
    def _ids(self) -> Ids:
        """Returns the ids of the run. A task without a thread is a separate conversation."""
        place, name = self._trigger.thread, self._one.conversation_id
        if place is None:
            conversation_id = name(team=self._run_context.me.team, channel="task", thread_ts=self._trigger.id)
        else:
            conversation_id = name(team=place.team, channel=place.channel, thread_ts=place.thread_ts)
        return Ids(run_id=self.run_id, agui_run_id=new_id(), trace_id=new_trace_id(), conversation_id=conversation_id)

    async def _input(self) -> RunInput:
        database, directory = self._run_context.database, self._run_context.directory
        remembers = self._one.spec.history is History.NEW
        return run_input(
            self._trigger,
            self._ids,
            heard=await heard_before(database, self._trigger, self._agent.id) if remembers else NOTHING_HEARD,
            agent_id=self._agent.id,
            history_characters=self._run_context.operating_policy.history_characters,
            bot_name=await directory.author_name(self._run_context.me.user_id, AuthorKind.USER),
            client_context=await self._context(),
            since=await answered_since(database, directory, self._trigger),
        )

    async def _context(self) -> dict[str, object]:
        """Returns the client context: facts about the channel and the person."""
        place, directory, user = self._trigger.thread, self._run_context.directory, None
        if self._requester:
            name = await directory.author_name(self._requester, AuthorKind.USER)
            user = Author(id=self._requester, kind=AuthorKind.USER, name=name)
        if place is None:
            return client_context(channel_type=ChannelType.CHANNEL, user=user)
        policy = self._run_context.operating_policy.policy(place.channel)
        email = await directory.user_email(self._requester) if policy.share_email and self._requester else None
        return client_context(
            channel_type=place.channel_type,
            facts=await directory.channel_facts(place.channel),
            user=user,
            user_email=email,
            overthink=self._trigger.overthink,
            humble_followup=self._trigger.humble_followup,
            by_strangers=self._trigger.started_by is StartedBy.STRANGERS,
            extra=policy.client_context,
        )

    async def _keep(self, run: AnswerRun) -> LeaseLossOutcome:
        """Keeps the work by renewing its lease, unless the work has been taken away in the meantime."""
        asked_at = boottime()
        kept = await self._run_context.database.write(
            keep, self.run_id, self._run_context.operating_policy.lease_seconds
        )
        if kept is LeaseLossOutcome.OURS:
            self._confirmed_at = asked_at
            return kept
        _log.warning("a run has lost its lease", action="turn_renew", turn=self.run_id, work=kept.value)
        if kept is LeaseLossOutcome.SETTLED:
            self._confirmed_at = math.inf
            run.stop(None)
        else:
            run.lose()
        return kept


class StreamSource:
    """The source for a polling agent's answer, read from its stored pieces. Implements `RunSource`.

    The run needs no notices, because `stream_state.look_at` returns the end of its work together with the pieces.
    """

    agent_id: str | None = None
    task_id: str | None = None
    was_called = True

    def __init__(self, run_context: RunContext, run_id: str) -> None:
        self.run_id = run_id
        self.inbox_message_ids: set[str] = set()
        self._run_context = run_context
        self._people: frozenset[str] = frozenset()
        self._writers: frozenset[str] = frozenset()
        self._found: Unfinished
        self._seq = 0  # of the last piece that was passed on
        self._has_moved = asyncio.Event()

    async def ready(self, run: AnswerRun) -> bool:
        """Seals the messages that another process has created."""
        found = await self._read()
        if found and (not found.goes_on or found.pages):
            await self._run_context.recovery.bring_to_end(self.run_id, run.term.is_ours, counts=True)
            found = await self._read()
        if found is None or found.thread is None:
            return False
        self._found = found
        self._people, self._writers = await self._run_context.database.read(self._ready, found.run, found.thread)
        return True

    @staticmethod
    def _ready(tx: Transaction, run: Run, thread: Thread) -> tuple[frozenset[str], frozenset[str]]:
        """Returns the people whom the answer may mention, authors in the thread and people mentioned in it, and the
        authors alone.
        """
        said = transcript.of_thread(tx, thread)
        spoken = {one.author_id for one in said if one.kind is AuthorKind.USER}
        mentioned = set[str]().union(*(mentioned_ids(one.text) for one in said))
        writers = frozenset(spoken | ({run.requester} if run.requester else set()))
        return writers | mentioned, writers

    async def begin(self) -> Opening | None:
        run, thread = self._found.run, self._found.thread
        assert thread is not None  # otherwise the run was not ready
        place = place_of(
            thread,
            self._run_context.operating_policy,
            run_id=run.id,
            requester=run.requester,
            agent_name=self._found.agent_name,
        )
        sealed = max((page.page for page in self._found.pages), default=0)
        return Opening(
            place=place,
            mentionable=self._people,
            writers=self._writers,
            sealed_pages=sealed,
            is_silent=self._found.is_silent,
        )

    async def keep(self, run: AnswerRun) -> None:
        """Does nothing, because the agent renews its own lease."""

    async def is_ours(self, run: AnswerRun) -> bool:
        return True

    async def events(self, run: AnswerRun) -> AsyncGenerator[AgentEvent, None]:
        return self._tail(run)

    async def passed_on(self) -> None:
        last = await self._run_context.database.read(run_events.last, self.run_id)
        while last and self._seq < last.seq:
            self._has_moved.clear()
            await self._has_moved.wait()

    async def stored(self) -> AnswerShown | None:
        whole = AnswerCollector(self._people)
        for event in await self._run_context.database.read(self._stored):
            whole.hear(event)
        return whole.shown()

    def _stored(self, tx: Transaction) -> list[AgentEvent]:
        found = (event_of(event.piece) for event in run_events.after(tx, self.run_id, 0, MAX_PIECES))
        return [event for event in found if event is not None]

    async def _tail(self, run: AnswerRun) -> AsyncGenerator[AgentEvent, None]:
        """Yields all events, starting with the first piece. After a stop, no more events and no end follow."""
        seq, wakeups, topic = 0, self._run_context.database.wakeups, run_events.topic_of(self.run_id)
        while True:
            seen = wakeups.generation(topic)
            pieces, end = await self._look(seq)
            for event in pieces:
                seq = event.seq
                shown = event_of(event.piece)
                if shown is not None:
                    yield shown
                self._seq = seq
                self._has_moved.set()
                if isinstance(event.piece, Closed):
                    return
            if isinstance(end, RunStopped):
                run.stop(end.by)
                await asyncio.Event().wait()  # cancelled when the run is stopped
            elif end is not None and len(pieces) < run_events.AT_ONCE:
                yield end
                return
            if not pieces and wakeups.closed:
                await asyncio.sleep(_TAIL_SECONDS)
            elif not pieces:
                await wakeups.wait(topic, seen, _TAIL_SECONDS)

    async def _look(self, seq: int) -> tuple[list[RunEvent], AgentEvent | RunStopped | None]:
        while True:
            try:
                return await self._run_context.database.read(look_at, self.run_id, seq)
            except Unavailable as error:
                _log.warning("a stream cannot be read yet", action="stream_read", error=error.message)
                await asyncio.sleep(_TAIL_SECONDS)

    async def _read(self) -> Unfinished | None:
        found = await self._run_context.database.read(unfinished, self.run_id)
        return found if found and found.run.status is RunStatus.RUNNING else None
