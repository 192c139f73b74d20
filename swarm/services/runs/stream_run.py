"""The answer of a polling agent while it is shown: by the elected process, from what is stored, like any other run.

What is guaranteed: an answer is shown from its first word by one process at a time; one that another process has begun
to show is sealed before. What happens on failure: what cannot be shown live is posted, and an answer that is not closed
is left to its agent, which is told so by its next call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from swarm.domain.answers.calls import AnswerTarget
from swarm.domain.answers.events import AgentEvent
from swarm.domain.answers.pieces import MAX_PIECES, event_of
from swarm.domain.answers.showing import AnswerShown, LostRight, Showing
from swarm.domain.answers.whole import AnswerCollector
from swarm.domain.errors import SwarmError, Unavailable
from swarm.domain.model.runs import PagePhase, RunStatus
from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import AuthorKind, ChannelType
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.text.readable import mentioned_ids
from swarm.services.outbox.elections import OfficeTerm
from swarm.services.runs.run_context import RunContext
from swarm.services.runs.run_ends import Ending, end_run, offer_stop
from swarm.services.runs.run_record import RunRecord
from swarm.services.runs.stream_ends import goes_on
from swarm.services.runs.stream_tail import Tail
from swarm.store import agents
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_events, run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads, transcript

_AGAIN_SECONDS: Final = 1.0
_TO_THE_END: Final = "~"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Streaming:
    """An answer that is to be shown, as the database has it."""

    turn: Run
    agent_name: str
    thread: Thread
    people: frozenset[str]  # whom it may mention: who has spoken in the thread, or was mentioned there
    pages: int  # messages that were begun before
    is_left: bool  # by another process: one of them may still grow, or it is not to be shown any more


class StreamRun:
    """A polling agent's answer in motion. Cancelled, it seals what it has shown; its successor shows it anew."""

    def __init__(self, crew: RunContext, turn: Run, term: OfficeTerm) -> None:
        self.turn_id = turn.id
        self._crew = crew
        self._term = term
        self._showing: Showing | None = None
        self._reading: asyncio.Task[None] | None = None  # of an answer that is not shown live
        self._stopped: tuple[str | None] | None = None  # by whom, if people want no more of it

    async def run(self) -> None:
        """Show the answer to its end, and record how it ended."""
        streaming = await self._sealed()
        if streaming is None:
            return
        place = self._place(streaming)
        beside = self._offer_stop(place)
        try:
            await self._end(await self._shown(streaming, place), place)
        except LostRight:
            _log.info("a stream is another process's by now", action="stream", turn=self.turn_id)
        except BaseException as error:
            await asyncio.shield(self._give_up(error, streaming, place))
            raise
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def stop(self, by: str | None) -> None:
        """People want no more of it; ``by`` is a user id."""
        self._stopped = (by,)
        if self._showing:
            self._showing.stop(by)
        if self._reading:
            self._reading.cancel()

    async def _sealed(self) -> Streaming | None:
        """What is to be shown, once nothing of it grows that another process has begun; None if it is over."""
        streaming = await self._crew.database.read(_streaming, self.turn_id, self._crew.conduct)
        if streaming is None or not streaming.is_left:
            return streaming
        await self._crew.recovery.bring_to_end(self.turn_id, self._term.is_ours, counts=True)
        return await self._crew.database.read(_streaming, self.turn_id, self._crew.conduct)

    def _place(self, streaming: Streaming) -> AnswerTarget:
        thread = streaming.thread
        return AnswerTarget(
            team=thread.team,
            channel=thread.channel,
            thread_ts=thread.thread_ts,
            is_direct=thread.channel_type is ChannelType.DM,
            requester=streaming.turn.requester,
            agent_name=streaming.agent_name,
            turn_id=self.turn_id,
            display=self._crew.conduct.policy(thread.channel).display,
        )

    def _offer_stop(self, place: AnswerTarget) -> list[asyncio.Task[None]]:
        seconds = self._crew.stop_button_seconds
        if place.requester is None or seconds is None:
            return []

        async def offer() -> None:
            await asyncio.sleep(seconds)
            await self._crew.database.write(offer_stop, self.turn_id)

        return [self._crew.background(offer())]

    async def _shown(self, streaming: Streaming, place: AnswerTarget) -> AnswerShown:
        """Live for people; whole for bots."""
        tail = Tail(self._crew.database, self.turn_id, self.stop, self._crew.conduct)
        if place.requester is None:
            return await self._whole(tail, streaming.people)
        showing = self._crew.stage.answer(
            place,
            mentionable=streaming.people,
            record=RunRecord(self._crew.database, self.turn_id),
            may_call=self._term.is_ours,
            pages=streaming.pages,
        )
        self._showing = showing
        if self._stopped:
            showing.stop(*self._stopped)
        return await showing.show(tail.events())

    async def _whole(self, tail: Tail, people: Iterable[str]) -> AnswerShown:
        whole = AnswerCollector(people)

        async def read() -> None:
            async with contextlib.aclosing(tail.events()) as events:
                async for event in events:
                    whole.hear(event)

        self._reading = asyncio.create_task(read())
        if self._stopped:
            self._reading.cancel()
        try:
            await asyncio.wait({self._reading})
        finally:
            self._reading.cancel()
        if self._stopped:
            whole.stop(*self._stopped)
        return whole.shown()

    async def _end(self, shown: AnswerShown, place: AnswerTarget) -> None:
        """Record the end, however long the database takes to come back."""
        ending = Ending(outcome=shown.outcome, text=shown.text, leftover=shown.leftover, closing=shown.closing)
        while True:
            try:
                await self._crew.database.write(_finish, self.turn_id, ending, place, self._crew.conduct)
            except Unavailable as error:
                _log.warning("the end of a stream cannot be stored yet", action="stream", error=error.message)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                _log.info(
                    "a stream has ended", action="stream", turn=self.turn_id, outcome=type(shown.outcome).__name__
                )
                return

    async def _give_up(self, error: BaseException, streaming: Streaming, place: AnswerTarget) -> None:
        """Seal what was shown. After a mistake of ours, what is stored is posted; else a successor shows it anew."""
        if isinstance(error, asyncio.CancelledError) and not self._term.holds():
            return  # it is the successor who seals
        try:
            await self._crew.recovery.bring_to_end(self.turn_id, self._term.is_ours, counts=False)
            if not isinstance(error, asyncio.CancelledError):
                _log.error("a stream failed inside", action="stream", turn=self.turn_id, exc_info=error)
                await self._end(await self._stored(streaming), place)
        except SwarmError as trouble:
            _log.warning(
                "a stream is left to the next start", action="stream", turn=self.turn_id, error=trouble.message
            )

    async def _stored(self, streaming: Streaming) -> AnswerShown:
        """Everything that was told until now."""
        whole = AnswerCollector(streaming.people)
        for event in await self._crew.database.read(_told, self.turn_id):
            whole.hear(event)
        return whole.shown()


def _finish(tx: Transaction, turn_id: str, ending: Ending, place: AnswerTarget, conduct: OperatingPolicy) -> None:
    """A run that waits for the end of this answer may begin its own."""
    if end_run(tx, turn_id, ending, place, conduct):
        tx.wake(runs.TURNS)


def _streaming(tx: Transaction, turn_id: str, conduct: OperatingPolicy) -> Streaming | None:
    turn = runs.get(tx, turn_id)
    if turn is None or turn.status is not RunStatus.RUNNING or turn.thread_id is None:
        return None
    thread = threads.get(tx, turn.thread_id)
    assert thread is not None  # threads that turns refer to are never removed
    pages = run_pages.of_turn(tx, turn_id)
    return Streaming(
        turn=turn,
        agent_name=agents.names(tx).get(turn.agent_id, "swarm"),
        thread=thread,
        people=_people(tx, turn, thread),
        pages=max((page.page for page in pages), default=0),
        is_left=any(page.phase is not PagePhase.CLOSED for page in pages) or not goes_on(tx, turn, conduct),
    )


def _people(tx: Transaction, turn: Run, thread: Thread) -> frozenset[str]:
    said = transcript.of_thread(tx, thread.team, thread.channel, thread.thread_ts, _TO_THE_END)
    spoken = {one.author_id for one in said if one.kind is AuthorKind.USER}
    mentioned = set[str]().union(*(mentioned_ids(one.text) for one in said))
    return frozenset(spoken | mentioned | ({turn.requester} if turn.requester else set()))


def _told(tx: Transaction, turn_id: str) -> list[AgentEvent]:
    found = (event_of(event.piece) for event in run_events.after(tx, turn_id, 0, MAX_PIECES))
    return [event for event in found if event is not None]
