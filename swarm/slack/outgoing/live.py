"""Runs the reducer of streamed answers on agent events and Slack's responses, and makes its calls to Slack.

One task processes all inputs sequentially, so the reducer never sees two at once. The page record is written before a
message is begun and before the last message is closed, so that recovery after a crash knows which messages to look for.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeGuard

import structlog

from swarm.clock import slack_ts_to_us
from swarm.domain.answers.calls import (
    AcquireSlot,
    AnswerTarget,
    AppendStream,
    CloseStream,
    Closing,
    Command,
    Find,
    Growth,
    HangUp,
    OpenStream,
    Over,
    PostPage,
    SetStatus,
    Slot,
    StreamCall,
    UpdatePage,
)
from swarm.domain.answers.events import AgentEvent, AnswerOutcome, Broken, TextDelta, Warned
from swarm.domain.answers.reducer import (
    AgentEventReceived,
    BreakPassed,
    GrowForAll,
    Input,
    PageLocated,
    SealRequested,
    SlackAnswered,
    SlotGranted,
    StopRequested,
    Tick,
    begin,
    step,
)
from swarm.domain.answers.sending import OPEN_PATIENCE_SECONDS, wake_at
from swarm.domain.answers.showing import AnswerLost, AnswerShown, Last, LiveSlack, MayCall, PageRecord
from swarm.domain.answers.state import Live, Pace, PageMode
from swarm.domain.errors import NotFound, SwarmError
from swarm.domain.model.deliveries import DeliveryAccepted
from swarm_base.processes.background import BackgroundTasks
from swarm_base.secrets import REMOVED

EVENTS_AHEAD: Final = 256
"""The maximum number of an agent's events that are queued. When the queue is full, the agent's stream is not read, and
the agent has to wait.
"""

PIECE_CHARACTERS: Final = 4_096
"""A longer delta counts as several events, which also limits the number of queued characters, and is not joined."""

LANDING_SECONDS: Final = 3.0
"""How long the end of an answer waits for a call in progress."""
_FIND_AGAIN_SECONDS: Final = 2.0
_FIND_AT_LEAST_EVERY_SECONDS: Final = 30.0

_ALWAYS: Final = "0"
"""A timestamp before all others."""

_log = structlog.get_logger(__name__)


class _NoRecord:
    """The page record of answers that are not recovered after a crash."""

    async def beginning(self, page: int, *, is_post: bool) -> None: ...

    async def began(self, page: int, ts: str) -> None: ...

    async def begins_after(self, page: int) -> int:
        return 0

    async def leaving(self, page: int, text: str) -> None: ...

    async def ending(self, call: Last, outcome: AnswerOutcome) -> Closing:
        return call.closing

    async def ended(self, page: int, text: str) -> None: ...

    async def showing_status(self) -> None: ...


@dataclass(kw_only=True, slots=True)
class _Seal:
    """A caller that waits for a page break; None: its number is not known yet."""

    number: int | None = None
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class LiveAnswer:
    """One answer, shown while the agent writes it.

    Slack is searched ``doubt_seconds`` after a call with an unknown outcome; by then the call can no longer take
    effect. ``may_call`` is asked before each call. ``known`` contains all messages that are currently growing,
    including those of other answers; a search skips them. ``pages`` messages of the answer were begun earlier and are
    sealed. ``posts`` contains all answers that grow as posts.
    """

    def __init__(
        self,
        place: AnswerTarget,
        slack: LiveSlack,
        *,
        mentionable: Iterable[str] = (),
        mode: PageMode = PageMode.STREAM,
        pace: Pace | None = None,
        record: PageRecord | None = None,
        may_call: MayCall | None = None,
        doubt_seconds: float = 11.0,
        clock: Callable[[], float] = time.monotonic,
        known: set[str] | None = None,
        posts: set[LiveAnswer] | None = None,
        pages: int = 0,
    ) -> None:
        self._place = place
        self._slack = slack
        self._record = record or _NoRecord()
        self._may_call = may_call or _always
        self._doubt_seconds = doubt_seconds
        self._clock = clock
        self._inputs: asyncio.Queue[Input] = asyncio.Queue()
        self._ahead = asyncio.Semaphore(EVENTS_AHEAD)
        self._tasks = BackgroundTasks(self._fail)
        self._calling: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._known = set[str]() if known is None else known
        self._own: set[str] = set()
        self._posts = set[LiveAnswer]() if posts is None else posts
        self._call_began_after = ""
        self._over: Over | None = None
        self._seals: list[_Seal] = []
        self._failure: BaseException | None = None
        self._logged: tuple[str, str] | None = None  # the last logged failure, until a call succeeds
        self._showing: asyncio.Task[None] | None = None
        self._status: tuple[SetStatus, ...] = ()
        self._looked_at = clock()  # when inputs were last processed; due work since then is still pending
        self._live, self._first = begin(
            self._looked_at,
            mentionable=mentionable,
            agent_name=place.agent_name,
            mode=mode,
            pace=pace,
            pages=pages,
            spread=_jitter(),
        )

    def stop(self, by: str | None = None) -> None:
        """Stops the answer at a person's request; ``by`` is the user id."""
        self._inputs.put_nowait(StopRequested(by=by))

    def lose(self) -> None:
        """Stops showing the answer here, because another run gives it."""
        self._failure = AnswerLost()
        self._inputs.put_nowait(Tick())

    def grow_for_all(self) -> None:
        """Goes on in posts that everybody sees growing; a stream in progress is closed."""
        self._inputs.put_nowait(GrowForAll())

    async def seal(self) -> None:
        """Shows the content so far without delay, and ends its message. What follows waits for `go_on`.

        Returns when Slack has accepted all that, or accepts no more of this answer. Only while `show` runs, which ends
        the wait when it ends.
        """
        seal = _Seal()
        self._seals.append(seal)
        self._inputs.put_nowait(SealRequested())
        await seal.is_over.wait()

    def go_on(self) -> None:
        """Goes on in another message after `seal`."""
        self._inputs.put_nowait(BreakPassed())

    async def show(self, events: AsyncGenerator[AgentEvent, None]) -> AnswerShown:
        """Shows a run until its end. The generator is always closed.

        Raises LostRight and leaves an open message open. If cancelled, still waits for a call in progress.
        """
        self._reading = self._tasks.start(self._read(events))
        try:
            await self._execute(self._first)
            while self._over is None:
                await self._step(await self._next())
                await asyncio.sleep(0)  # the queue may be full of text that takes long to read
        finally:
            self._end_seals(are_all=True)
            await self._close(events)
        outcome = self._live.outcome
        assert outcome is not None  # an answer ends together with its run
        text = str(self._live.full_text)
        if REMOVED in text:
            _log.warning(
                "A secret was removed from an agent's answer.",
                action="secret_removed",
                turn=self._place.run_id,
                agent=self._place.agent_name,
                channel=self._place.channel,
            )
        return AnswerShown(outcome=outcome, text=text, leftover=self._over.leftover, closing=self._over.closing)

    async def _next(self) -> Input:
        wake = wake_at(self._live, self._looked_at)
        timeout = None if wake is None else max(0.0, wake - self._clock())
        try:
            async with asyncio.timeout(timeout):
                return await self._inputs.get()
        except TimeoutError:
            return Tick()

    async def _step(self, taken: Input) -> None:
        """Processes one input. Queued deltas are joined."""
        if self._failure:
            raise self._failure
        rest: Input | None = taken
        while rest is not None:
            taken, rest = self._join_deltas(rest)
            self._count_posts()
            before, self._looked_at = self._live, self._clock()
            self._live, commands = step(before, taken, self._looked_at)
            if self._live.gives_up and not before.gives_up:
                _log.warning(
                    "Slack accepts no more of a streamed answer; the rest is posted after its end.",
                    action="stream_given_up",
                    turn=self._place.run_id,
                )
            if isinstance(taken, SealRequested):
                next(seal for seal in self._seals if seal.number is None).number = self._live.breaks
            await self._note_end(before, taken)
            await self._execute(commands)
            self._end_seals()

    def _count_posts(self) -> None:
        if self._live.mode is PageMode.POST:
            self._posts.add(self)
            self._live = replace(self._live, growing_posts=len(self._posts))

    def _end_seals(self, *, are_all: bool = False) -> None:
        for seal in list(self._seals):
            if are_all or (seal.number is not None and self._live.has_sealed(seal.number)):
                self._seals.remove(seal)
                seal.is_over.set()

    async def _note_end(self, before: Live, taken: Input) -> None:
        """Records the end of a message that no longer grows."""
        page = before.page
        if before.flight and isinstance(taken, SlackAnswered) and isinstance(taken.answer, DeliveryAccepted):
            page = before.flight.page
        is_begun = page is not None and page.number <= self._live.pages
        if page and is_begun and (self._live.page is None or self._live.page.number != page.number):
            await self._record.ended(page.number, page.text)

    def _join_deltas(self, taken: Input) -> tuple[Input, Input | None]:
        """Joins an input with the deltas that continue it. Returns the joined input, and the next input if one was
        taken.
        """
        if isinstance(taken, AgentEventReceived):
            self._ahead.release()
        while isinstance(taken, AgentEventReceived) and _may_grow(taken.event) and not self._inputs.empty():
            following = self._inputs.get_nowait()
            more = following.event if isinstance(following, AgentEventReceived) else None
            if not isinstance(more, TextDelta) or more.message_id != taken.event.message_id:
                return taken, following
            self._ahead.release()
            joined = TextDelta(text=taken.event.text + more.text, message_id=more.message_id)
            taken = AgentEventReceived(event=joined)
        return taken, None

    async def _execute(self, commands: Iterable[Command]) -> None:
        for command in commands:
            match command:
                case AcquireSlot():
                    self._tasks.start(self._acquire_slot(command))
                case Find(page=page):
                    self._tasks.start(self._find(page))
                case HangUp():
                    if self._reading:
                        self._reading.cancel()
                case SetStatus():
                    self._show_status(command)
                case Over():
                    self._over = command
                case OpenStream() | AppendStream() | CloseStream() | PostPage() | UpdatePage():
                    noted = await self._note(command)
                    self._calling = self._tasks.start(self._call(noted))

    async def _note(self, call: StreamCall) -> StreamCall:
        """Records, before the call, the state that recovery after a crash needs. Returns the call, complete."""
        if isinstance(call, OpenStream | PostPage):
            await self._record.beginning(call.page, is_post=isinstance(call, PostPage))
        if isinstance(call, CloseStream) and not call.is_last:
            await self._record.leaving(call.page, call.text)
        if isinstance(call, CloseStream | PostPage | UpdatePage) and call.is_last:
            assert self._live.outcome is not None  # an answer's last call comes after its outcome
            return replace(call, closing=await self._record.ending(call, self._live.outcome))
        return call

    async def _call(self, call: StreamCall) -> None:
        if not await self._may_call():
            raise AnswerLost
        self._call_began_after = max((*self._known, self._place.thread_ts or _ALWAYS), key=slack_ts_to_us)
        answer = await self._slack.call(self._place, call)
        self._log_failure(type(call).__name__, None if isinstance(answer, DeliveryAccepted) else repr(answer))
        if isinstance(answer, DeliveryAccepted) and isinstance(call, OpenStream | PostPage) and answer.ts:
            await self._remember(call.page, answer.ts)
        self._inputs.put_nowait(SlackAnswered(answer=answer))

    def _log_failure(self, call: str, answer: str | None) -> None:
        """Logs a repeated failure only once."""
        if answer and (call, answer) != self._logged:
            failure = {"turn": self._place.run_id, "call": call, "answer": answer}
            _log.info("Slack did not accept part of an answer", action="stream_call", **failure)
        self._logged = (call, answer) if answer else None

    async def _remember(self, page: int, ts: str) -> None:
        self._known.add(ts)
        self._own.add(ts)
        await self._record.began(page, ts)

    async def _find(self, page: int) -> None:
        """Searches for a message that may have been begun, after all calls have timed out."""
        await asyncio.sleep(self._doubt_seconds)
        flight, pause = self._live.flight, _FIND_AGAIN_SECONDS
        is_post = flight is not None and isinstance(flight.call, PostPage)  # the mode may have changed since
        while True:
            try:
                after_us = max(slack_ts_to_us(self._call_began_after), await self._record.begins_after(page))
                ts = await self._slack.find(self._place, page, after_us, self._known, is_post=is_post)
            except NotFound as error:
                _log.warning("an answer may not be looked up", action="stream_find", error=str(error))
                ts = None
            except SwarmError as error:
                _log.warning("an answer could not be looked up", action="stream_find", error=str(error))
                await asyncio.sleep(pause * _jitter())
                pause = min(2 * pause, _FIND_AT_LEAST_EVERY_SECONDS)
                continue
            if ts:
                await self._remember(page, ts)
            self._inputs.put_nowait(PageLocated(ts=ts))
            return

    async def _acquire_slot(self, ask: AcquireSlot) -> None:
        """Waits for a slot, unless so many answers begin at once that a stream would begin too late."""
        wait = self._slack.expected_wait_seconds(ask.slot, self._place.channel)
        if ask.slot is Slot.OPEN and self._place.growth is Growth.AUTO and wait > OPEN_PATIENCE_SECONDS:
            self.grow_for_all()
            return
        await self._slack.acquire_slot(ask.slot, self._place.channel)
        self._inputs.put_nowait(SlotGranted(slot=ask.slot))

    async def _read(self, events: AsyncGenerator[AgentEvent, None]) -> None:
        """Reads the agent's events no faster than the reducer processes them."""
        # This end counts only if no other end came before.
        last: AgentEvent = Broken(reason="it stopped in the middle of its answer")
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    if isinstance(event, Warned):
                        _log.warning("an agent warns", action="agent_warning", warning=event.message)
                    await self._enqueue(event)
        except Exception:  # noqa: BLE001 - the thread is told of every failure of an agent
            _log.exception("an agent could not be read", action="agent_read", turn=self._place.run_id)
            last = Broken(reason="it failed while I read its answer")
        await self._enqueue(last)

    async def _enqueue(self, event: AgentEvent) -> None:
        for piece in _pieces(event):
            await self._ahead.acquire()
            self._inputs.put_nowait(AgentEventReceived(event=piece))

    def _show_status(self, status: SetStatus) -> None:
        """Shows statuses one at a time; if several are queued, only the last one."""
        self._status = (status,)
        if self._showing is None or self._showing.done():
            self._showing = self._tasks.start(self._show_statuses())

    async def _show_statuses(self) -> None:
        while self._status:
            (status,), self._status = self._status, ()
            await self._record.showing_status()
            await self._slack.status(self._place, status.text)

    def _fail(self, error: Exception) -> None:
        """Ends the answer, because one of its tasks failed."""
        self._failure = error
        self._inputs.put_nowait(Tick())

    async def _close(self, events: AsyncGenerator[AgentEvent, None]) -> None:
        """Ends all tasks. A call in progress may finish first, so that no search for its effect is needed."""
        landing = {task for task in (self._calling, self._showing) if task and not task.done()}
        for task in self._tasks:
            if task not in landing:
                task.cancel()
        if landing:
            await asyncio.wait(landing, timeout=LANDING_SECONDS)
        self._known -= self._own
        self._posts.discard(self)
        await self._tasks.end()
        with contextlib.suppress(RuntimeError):  # already closed, or never started
            await events.aclose()


async def _always() -> bool:
    return True


def _jitter() -> float:
    """Returns a factor near 1, so that answers that were delayed together do not all resume at the same time."""
    return random.uniform(0.8, 1.2)  # noqa: S311 - nothing secret


def _may_grow(event: AgentEvent) -> TypeGuard[TextDelta]:
    """Returns whether text can be appended to the event without copying much."""
    return isinstance(event, TextDelta) and len(event.text) < PIECE_CHARACTERS


def _pieces(event: AgentEvent) -> Iterator[AgentEvent]:
    """Splits a long delta into events of limited size."""
    if isinstance(event, TextDelta) and len(event.text) > PIECE_CHARACTERS:
        for start in range(0, len(event.text), PIECE_CHARACTERS):
            yield TextDelta(text=event.text[start : start + PIECE_CHARACTERS], message_id=event.message_id)
    else:
        yield event


class LiveStage:
    """A factory for answers in Slack that share one gateway."""

    def __init__(self, slack: LiveSlack, *, doubt_seconds: float = 11.0, pace: Pace | None = None) -> None:
        self.slack = slack
        self._doubt_seconds = doubt_seconds
        self._pace = pace
        self._growing: set[str] = set()
        self._posts: set[LiveAnswer] = set()

    def answer(
        self, place: AnswerTarget, *, mentionable: Iterable[str], record: PageRecord, may_call: MayCall, pages: int = 0
    ) -> LiveAnswer:
        """Returns a new answer. ``pages`` earlier messages show its beginning and are sealed."""
        return LiveAnswer(
            place,
            self.slack,
            mentionable=mentionable,
            mode=PageMode.STREAM if place.thread_ts and place.growth is not Growth.EDITS else PageMode.POST,
            pace=self._pace,
            record=record,
            may_call=may_call,
            doubt_seconds=self._doubt_seconds,
            known=self._growing,
            posts=self._posts,
            pages=pages,
        )
