"""One turn: a streaming agent's run for one trigger, from its row in the database to its end."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator
from typing import Final

import structlog

from swarm.clock import new_id, new_trace_id
from swarm.domain.answers.agent import History
from swarm.domain.answers.calls import AnswerTarget
from swarm.domain.answers.events import AgentEvent, RunInput
from swarm.domain.answers.showing import AnswerShown, LostRight, Showing
from swarm.domain.answers.whole import AnswerCollector
from swarm.domain.errors import LeaseLost, SwarmError, Unavailable
from swarm.domain.model.agents import Agent
from swarm.domain.model.transcript import AuthorKind, ChannelType
from swarm.domain.model.triggers import StartedBy, Trigger
from swarm.domain.prompts.client_context import client_context
from swarm.services.outbox.elections import OfficeTerm, boottime
from swarm.services.runs.run_context import HandleNotifications, ManagedAgent, RunContext
from swarm.services.runs.run_ends import Ending, end_run, offer_stop
from swarm.services.runs.run_history import NOTHING_HEARD, answered_since, heard_before
from swarm.services.runs.run_input import Ids, requester_of, run_input
from swarm.services.runs.run_loss import LeaseLossOutcome, keep
from swarm.services.runs.run_record import RunRecord
from swarm.store import agents
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.runs import run_pages, runs

SEAL_SECONDS: Final = 5.0
"""So long a run waits for the abandoned answer before it to be sealed."""

RELEASE_SECONDS: Final = 2.0
"""After so long a trigger comes again that another turn still had in hand."""

_LOOK_SECONDS: Final = 0.1
_AGAIN_SECONDS: Final = 1.0
_FRESH: Final = 2 / 3  # of a lease; it is renewed every third

_log = structlog.get_logger(__name__)


class AnswerRun:
    """A turn in motion. Cancelled, it seals what it has shown and gives its work back."""

    def __init__(
        self,
        crew: RunContext,
        agent: Agent,
        one: ManagedAgent,
        trigger: Trigger,
        term: OfficeTerm,
        take_news: HandleNotifications,
    ) -> None:
        self.turn_id = new_id()
        self.agent = agent
        self.task_id = trigger.task.id if trigger.task else None
        self._entry_ids = {entry.id for entry in trigger.inbox_messages}  # that somebody still wants answered
        self._crew = crew
        self._one = one
        self._trigger = trigger
        self._term = term
        self._confirmed_at = boottime()  # that the lease holds
        self._is_lost = False  # the work is somebody else's by now
        self._was_called = False  # the agent may have begun
        self._take_news = take_news
        self._requester = requester_of(trigger)
        self._showing: Showing | None = None
        self._reading: asyncio.Task[None] | None = None  # of a run that is not shown live
        self._stopped: tuple[str | None] | None = None  # by whom, if people want no more of it

    async def run(self) -> None:
        """Run the agent, show what it does, and record how it ended."""
        ids = Ids(
            turn_id=self.turn_id, run_id=new_id(), trace_id=new_trace_id(), conversation_id=self._conversation_id()
        )
        await self._until_sealed()
        starting = self._crew.background(self._start(ids))
        beside = [self._crew.background(self._keep_lease())]
        try:
            if await asyncio.shield(starting):
                await self._go(ids, beside)
            else:
                await self._crew.work.release(self.agent, [self._trigger.lease_token], RELEASE_SECONDS)
        except LostRight as error:
            _log.info("a turn is somebody else's by now", action="turn", turn=self.turn_id)
            await asyncio.shield(self._give_up(error))
        except BaseException as error:
            await asyncio.gather(starting, return_exceptions=True)
            await asyncio.shield(self._give_up(error))
            if not isinstance(error, Exception):
                raise
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def stop(self, by: str | None) -> None:
        """People want no more of it; ``by`` is a user id."""
        self._stopped = self._stopped if self._stopped and by is None else (by,)
        if self._showing:
            self._showing.stop(by)
        if self._reading:
            self._reading.cancel()

    def withdraw(self, entry_id: str) -> None:
        """A message is deleted, perhaps one of those that are answered here."""
        if entry_id in self._entry_ids:
            self._entry_ids.remove(entry_id)
            if not self._entry_ids:
                self.stop(None)

    async def _go(self, ids: Ids, beside: list[asyncio.Task[None]]) -> None:
        """The run itself; what goes on ``beside`` it ends with it."""
        place = self._place()
        if place and self._requester and self._crew.stop_button_seconds is not None:
            beside.append(self._crew.background(self._offer_stop(self._crew.stop_button_seconds)))
        taken = await self._input(ids)
        if not await self._may_call():
            raise LostRight
        self._was_called = True
        await self._end(await self._shown(taken, place), place)

    async def _until_sealed(self) -> None:
        """Wait until the agent's last answer in this thread says that it was abandoned, for a few seconds."""
        place = self._trigger.place
        if place is None:
            return
        try:
            async with asyncio.timeout(SEAL_SECONDS):
                while True:
                    read = self._crew.database.read(run_pages.is_unsealed_in_thread, place.id, self.agent.id)
                    if not await read:
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return  # the work is given back, and comes again
        except Unavailable as error:
            _log.warning("a turn cannot begin yet", action="turn", turn=self.turn_id, error=error.message)
        except asyncio.CancelledError:
            await asyncio.shield(self._crew.work.release(self.agent, [self._trigger.lease_token], 0))
            raise

    async def _start(self, ids: Ids) -> bool:
        return await self._crew.database.write(self._started, ids)

    def _started(self, tx: Transaction, ids: Ids) -> bool:
        """False if the work is not ours to begin.

        Another turn has the trigger in hand, the agent was removed a moment ago, the lease was lost since it was
        granted, or an earlier answer of the agent in this thread does not say yet that it was abandoned.
        """
        trigger = self._trigger
        if agents.by_id(tx, self.agent.id) is None or not leases.holds(
            leases.by_token(tx, trigger.lease_token), tx.now
        ):
            return False
        if trigger.place and run_pages.is_unsealed_in_thread(tx, trigger.place.id, self.agent.id):
            return False
        turn = runs.start(
            tx,
            agent_id=self.agent.id,
            thread_id=trigger.place.id if trigger.place else None,
            lease_token=trigger.lease_token,
            trigger_id=trigger.id,
            attempt=trigger.attempt,
            conversation_id=ids.conversation_id,
            run_id=ids.run_id,
            requester=self._requester,
            task_id=self.task_id,
            entry_ids=[entry.id for entry in trigger.inbox_messages],
            turn_id=self.turn_id,
        )
        return turn is not None

    def _conversation_id(self) -> str:
        """That of the thread; of a task without one, one of its own."""
        place = self._trigger.place
        if place is None:
            return self._one.conversation_id(team=self._crew.me.team, channel="task", thread_ts=self._trigger.id)
        return self._one.conversation_id(team=place.team, channel=place.channel, thread_ts=place.thread_ts)

    async def _input(self, ids: Ids) -> RunInput:
        directory, me = self._crew.directory, self._crew.me
        remembers = self._one.spec.history is History.NEW
        return run_input(
            self._trigger,
            ids,
            heard=await heard_before(self._crew.database, self._trigger, self.agent.id) if remembers else NOTHING_HEARD,
            history_characters=self._crew.conduct.history_characters,
            bot_name=await directory.author_name(me.user_id, AuthorKind.USER),
            client_context=await self._context(),
            since=await answered_since(self._crew.database, directory, self._trigger),
        )

    async def _context(self) -> dict[str, object]:
        """What shapes the answer beside the words: where they were said."""
        place = self._trigger.place
        if place is None:
            return client_context(channel_type=ChannelType.CHANNEL)
        policy = self._crew.conduct.policy(place.channel)
        directory = self._crew.directory
        email = await directory.user_email(self._requester) if policy.share_email and self._requester else None
        return client_context(
            channel_type=place.channel_type,
            facts=await directory.channel_facts(place.channel),
            user_email=email,
            by_strangers=self._trigger.started_by is StartedBy.STRANGERS,
            extra=policy.client_context,
        )

    def _place(self) -> AnswerTarget | None:
        place = self._trigger.place
        if place is None:
            return None
        return AnswerTarget(
            team=place.team,
            channel=place.channel,
            thread_ts=place.thread_ts,
            is_direct=place.channel_type is ChannelType.DM,
            requester=self._requester,
            agent_name=self.agent.name,
            turn_id=self.turn_id,
            display=self._crew.conduct.policy(place.channel).display,
            footer=self._one.spec.footer,
        )

    async def _shown(self, taken: RunInput, place: AnswerTarget | None) -> AnswerShown:
        """Live for people; whole for bots, and where there is no thread to show it in."""
        if place is None or self._requester is None:
            return await self._whole(taken, has_thread=place is not None)
        showing = self._crew.stage.answer(
            place,
            mentionable=self._people(),
            record=RunRecord(self._crew.database, self.turn_id),
            may_call=self._may_call,
        )
        self._showing = showing
        if self._stopped:
            showing.stop(*self._stopped)
        if self._is_lost:
            showing.lose()
        return await showing.show(self._one.client.run(taken))

    async def _whole(self, taken: RunInput, *, has_thread: bool) -> AnswerShown:
        whole = AnswerCollector(self._people())
        reading = self._read_invoked(taken, whole) if has_thread else self._read_run(self._one.client.run(taken), whole)
        self._reading = asyncio.create_task(reading)
        if self._stopped:
            self._reading.cancel()
        try:
            await asyncio.wait({self._reading})
        finally:
            self._reading.cancel()
        if self._is_lost:
            raise LostRight
        if self._stopped:
            whole.stop(*self._stopped)
        return whole.shown()

    async def _read_invoked(self, taken: RunInput, whole: AnswerCollector) -> None:
        whole.hear(await self._one.client.invoke(taken))

    async def _read_run(self, events: AsyncGenerator[AgentEvent, None], whole: AnswerCollector) -> None:
        async with contextlib.aclosing(events):
            async for event in events:
                whole.hear(event)
                if whole.is_over:
                    return

    def _people(self) -> frozenset[str]:
        """Whom the answer may mention: people who have spoken in the thread."""
        spoken = {said.author_id for said in self._trigger.thread_context if said.kind is AuthorKind.USER}
        return frozenset(spoken | ({self._requester} if self._requester else set()))

    async def _end(self, shown: AnswerShown, place: AnswerTarget | None) -> None:
        """Record the end, however long the database takes to come back."""
        ending = Ending(outcome=shown.outcome, text=shown.text, leftover=shown.leftover, closing=shown.closing)
        while True:
            try:
                await self._crew.database.write(end_run, self.turn_id, ending, place, self._crew.conduct)
            except Unavailable as error:
                _log.warning("the end of a turn cannot be stored yet", action="turn", error=error.message)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                _log.info("a turn has ended", action="turn", turn=self.turn_id, outcome=type(shown.outcome).__name__)
                return

    async def _give_up(self, error: BaseException) -> None:
        """Seal what was shown, and give the work back: as after a crash, but at once."""
        is_told = isinstance(error, asyncio.CancelledError)
        if isinstance(error, SwarmError):
            _log.warning("a turn breaks off", action="turn", turn=self.turn_id, error=error.message)
        elif not is_told and not isinstance(error, LostRight):
            _log.error("a turn failed inside", action="turn", turn=self.turn_id, exc_info=error)
        if not self._term.holds():
            return  # whoever is in office now brings it to its end
        try:
            await self._crew.recovery.bring_to_end(
                self.turn_id, self._term.is_ours, counts=not is_told, was_called=self._was_called
            )
        except SwarmError as trouble:
            _log.warning("a turn is to be ended later", action="turn", turn=self.turn_id, error=trouble.message)

    async def _keep_lease(self) -> None:
        """Renew the lease until the end; a run that has lost it is stopped."""
        while True:
            await asyncio.sleep(self._crew.conduct.lease_seconds / 3)
            asked_at = boottime()
            try:
                heartbeat = await self._crew.work.renew(self.agent, [self._trigger.lease_token])
                if not heartbeat.renewed.lost:
                    self._confirmed_at = asked_at
                elif await self._keep() is not LeaseLossOutcome.OURS:
                    return
            except (Unavailable, LeaseLost) as error:
                _log.warning("a lease could not be renewed", action="turn_renew", error=error.message)
                continue
            for trigger in heartbeat.notices:
                await self._take_news(self.agent, trigger)

    async def _keep(self) -> LeaseLossOutcome:
        """Keep the work although the time of its lease is over, if nobody has taken it away meanwhile."""
        asked_at = boottime()
        kept = await self._crew.database.write(keep, self.turn_id, self._crew.conduct.lease_seconds)
        if kept is LeaseLossOutcome.OURS:
            self._confirmed_at = asked_at
            return kept
        _log.warning("a turn has lost its lease", action="turn_renew", turn=self.turn_id, work=kept.value)
        if kept is LeaseLossOutcome.SETTLED:
            self._confirmed_at = math.inf
            self.stop(None)
        else:
            self.lose()
        return kept

    def lose(self) -> None:
        """The work is somebody else's: nothing more is shown, and the agent is not listened to any more."""
        self._is_lost = True
        if self._showing:
            self._showing.lose()
        if self._reading:
            self._reading.cancel()

    async def _may_call(self) -> bool:
        """Whether Slack and the agent may be called: the office is ours, and so is the work.

        A lease that was not confirmed for most of its time is asked for, since the process may have slept.
        """
        if self._is_lost:
            return False
        is_fresh = boottime() - self._confirmed_at < self._crew.conduct.lease_seconds * _FRESH
        if not is_fresh and await self._keep() is LeaseLossOutcome.TAKEN:
            return False
        return await self._term.is_ours()

    async def _offer_stop(self, after_seconds: float) -> None:
        await asyncio.sleep(after_seconds)
        await self._crew.database.write(offer_stop, self.turn_id)
