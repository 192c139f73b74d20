"""Shows the answer of a run and records its end, whatever the source of the events.

Who may act: the elected process, with one `AnswerRun` per run. What is guaranteed: one process at a time shows an
answer, and messages begun by another process are sealed first. The end is recorded even if the database is unavailable
for a long time.

What happens on failure: the shown messages are sealed at once, as after a crash (`run_recovery`). Claimed work is given
back. The answer of a polling agent is shown again by the next run, or posted from the stored text after an internal
error; text that cannot be shown live is also posted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

import structlog

from swarm.domain.answers.calls import AnswerTarget, Closing, Growth
from swarm.domain.answers.events import AgentEvent, AnswerOutcome, Broken, NeedsInput, Warned
from swarm.domain.answers.showing import AnswerCollector, AnswerLost, AnswerShown, Last, Showing, Stage
from swarm.domain.errors import SwarmError, Unavailable
from swarm.domain.model.runs import PageKind
from swarm.domain.policy.access import Me
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import Directory
from swarm.services.ground.guarded import attempt
from swarm.services.ground.locks import LockTerm
from swarm.services.inbox.work import Work
from swarm.services.requests.asking import ask_of_run
from swarm.services.requests.budgets import RunUsage
from swarm.services.runs.run_ends import end_run, keep_for_later, offer_stop, with_facts
from swarm.services.runs.run_recovery import Recovery
from swarm.services.runs.settling import outcome_of
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_pages, runs
from swarm.store.threads import status_lines, transcript
from swarm_base.processes.background import BackgroundTasks

T = TypeVar("T")

_AGAIN_SECONDS: Final = 1.0
_LOOK_FOR_WRITERS_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """The services shared by all runs.

    After ``stop_button_seconds`` a run gets a Stop button, unless Slack shows its own; None: never.
    """

    database: Database
    stage: Stage
    work: Work
    directory: Directory
    me: Me
    operating_policy: OperatingPolicy
    recovery: Recovery
    run_usage: RunUsage
    stop_button_seconds: float | None = 5.0
    background: BackgroundTasks = field(default_factory=BackgroundTasks, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """The place and the settings of a new answer."""

    place: AnswerTarget | None  # None for a task without a thread
    mentionable: frozenset[str]  # user ids
    writers: frozenset[str] = frozenset()  # the people who have written in the thread, by user id
    sealed_pages: int = 0  # messages that already show the beginning of the answer
    is_silent: bool = False  # nothing is shown before the answer is judged


class RunSource(Protocol):
    """The events of one run and the right to show them. Each method receives the run, so that it can stop the run or
    end it as lost.
    """

    run_id: str
    agent_id: str | None  # the agent whose limit of parallel runs counts this run; None if the agent runs elsewhere
    task_id: str | None  # a task whose cancellation stops the run
    inbox_message_ids: set[str]  # messages whose deletion stops the run once all of them are deleted
    was_called: bool  # the agent may have started

    async def ready(self, run: AnswerRun) -> bool:
        """Waits until earlier messages in the thread are sealed. Returns False if there is nothing to run."""
        ...

    async def begin(self) -> Opening | None:
        """Starts the run. Returns None if the work belongs to another run."""
        ...

    async def keep(self, run: AnswerRun) -> None:
        """Keeps the claim on the work during the run, until cancelled."""
        ...

    async def is_ours(self, run: AnswerRun) -> bool:
        """Whether the work still belongs to the run."""
        ...

    async def events(self, run: AnswerRun) -> AsyncGenerator[AgentEvent, None]:
        """Starts producing events. Raises AnswerLost."""
        ...

    async def passed_on(self) -> None:
        """Waits until everything that the agent has said so far has been passed on by `events`."""
        ...

    async def stored(self) -> AnswerShown | None:
        """Returns the stored answer; None if the answer exists only as a run that must be repeated."""
        ...


class AnswerRun:
    """A run in progress. On cancellation, it seals the shown messages and leaves its work for another run."""

    def __init__(self, run_context: RunContext, source: RunSource, term: LockTerm) -> None:
        self.source = source
        self.run_id = source.run_id
        self.term = term
        self._run_context = run_context
        self._showing: Showing | None = None
        self._watching: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None  # reads an answer that is not shown live
        self._stopped: tuple[str | None] | None = None  # the user id of the person who stopped the run
        self._is_lost = False  # the work now belongs to another run
        self._waits = False  # the work waits until its agent is back
        self._has_begun = asyncio.Event()

    async def run(self) -> None:
        """Shows the answer and records its end."""
        if not await self.source.ready(self):
            return
        beside = [self._run_context.background.start(self.source.keep(self))]
        place = None
        try:
            opening = await self.source.begin()
            if opening:
                place = opening.place
                beside += self._offer_stop(None if opening.is_silent else place)
                await self._end(await self._shown(opening), place)
        except AnswerLost as error:
            if not self._waits:
                await asyncio.shield(self._give_up(error, place))
        except BaseException as error:
            await asyncio.shield(self._give_up(error, place))
            if not isinstance(error, Exception):
                raise
        finally:
            beside += [self._watching] if self._watching else []
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def stop(self, by: str | None) -> None:
        """Stops the answer. ``by`` is a user id; a later stop without a person does not replace it."""
        self._stopped = self._stopped if self._stopped and by is None else (by,)
        if self._showing:
            self._showing.stop(by)
        if self._reading:
            self._reading.cancel()

    def lose(self) -> None:
        """Ends the run as lost: no more events are read or shown."""
        self._is_lost = True
        if self._showing:
            self._showing.lose()
        if self._reading:
            self._reading.cancel()

    async def may_call(self) -> bool:
        """Whether Slack and the agent may be called: this process is still elected and the run still has its work."""
        return not self._is_lost and await self.source.is_ours(self) and await self.term.is_ours()

    async def seal(self) -> None:
        """Waits until Slack has what the agent has said so far, in messages that are final.

        What follows is held back until `go_on`. It may wait for ever, if the run ends meanwhile.
        """
        await self._has_begun.wait()
        if self._showing:
            await self.source.passed_on()
            await self._showing.seal()

    def go_on(self) -> None:
        """Shows what follows after `seal`, in another message."""
        if self._showing:
            self._showing.go_on()

    def _offer_stop(self, place: AnswerTarget | None) -> list[asyncio.Task[None]]:
        seconds = self._run_context.stop_button_seconds
        if place is None or place.requester is None or seconds is None:
            return []

        async def offer() -> None:
            await asyncio.sleep(seconds)
            if not (place.thread_ts and self._run_context.stage.slack.shows_stop):
                await self._run_context.database.write(offer_stop, self.run_id)

        return [self._run_context.background.start(attempt(offer(), "turn", turn=self.run_id))]

    async def _watch_writers(self, showing: Showing, place: AnswerTarget, writers: frozenset[str]) -> None:
        """Lets the answer grow for everybody once a second person has written in the thread."""
        while len(writers) < 2:
            await asyncio.sleep(_LOOK_FOR_WRITERS_SECONDS)
            try:
                writers |= await self._run_context.database.read(
                    transcript.latest_writers, place.team, place.channel, place.thread_ts
                )
            except Unavailable:
                continue
        showing.grow_for_all()

    async def _shown(self, opening: Opening) -> AnswerShown:
        """Shows the answer live to people; collects the complete answer in silence, for bots, or without a thread."""
        events, place = self._unless_away(await self.source.events(self)), opening.place
        if place is None or place.requester is None or opening.is_silent:
            self._has_begun.set()
            shown = await self._whole(events, opening.mentionable)
            return shown if opening.is_silent else replace(shown, withheld=None)
        showing = self._run_context.stage.answer(
            place,
            mentionable=opening.mentionable,
            record=RunRecord(self._run_context.database, self.run_id, self._run_context.operating_policy),
            may_call=self.may_call,
            pages=opening.sealed_pages,
        )
        self._showing = showing
        if place.growth is Growth.AUTO and place.thread_ts and not place.is_direct:
            self._watching = self._run_context.background.start(self._watch_writers(showing, place, opening.writers))
        if self._stopped:
            showing.stop(*self._stopped)
        if self._is_lost:
            showing.lose()
        self._has_begun.set()
        return await showing.show(events)

    async def _unless_away(self, events: AsyncGenerator[AgentEvent, None]) -> AsyncGenerator[AgentEvent, None]:
        """Yields the events. If the run has not reached its agent, its work waits, and nothing is shown."""
        has_begun = False
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, Broken) and event.is_away and not has_begun:
                    policy = self._run_context.operating_policy
                    kept = self._run_context.database.write(keep_for_later, self.run_id, event.reason, policy)
                    self._waits = await kept
                    if self._waits:
                        self.lose()
                        return
                has_begun = has_begun or not isinstance(event, Warned)
                yield event

    async def _whole(self, events: AsyncGenerator[AgentEvent, None], mentionable: frozenset[str]) -> AnswerShown:
        whole = AnswerCollector(mentionable)
        self._reading = asyncio.create_task(_read(events, whole))
        if self._stopped or self._is_lost:
            self._reading.cancel()
        try:
            await asyncio.wait({self._reading})
        finally:
            self._reading.cancel()
        if self._is_lost:
            raise AnswerLost
        if self._stopped:
            whole.stop(*self._stopped)
        return whole.shown()

    async def _end(self, shown: AnswerShown, place: AnswerTarget | None) -> None:
        """Records the end, retrying for as long as the database is unavailable."""
        while True:
            try:
                outcome = await self._run_context.database.write(
                    end_run, self.run_id, shown, place, self._run_context.operating_policy
                )
            except Unavailable as error:
                _log.warning("the end of a run cannot be stored yet", action="turn", error=error.message)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                name = type(outcome).__name__ if outcome else "abandoned"
                _log.info("a run has ended", action="turn", turn=self.run_id, outcome=name)
                return

    async def _give_up(self, error: BaseException, place: AnswerTarget | None) -> None:
        """Seals the shown messages immediately, in the same way as after a crash."""
        is_told, is_lost = isinstance(error, asyncio.CancelledError), isinstance(error, AnswerLost)
        by_itself = not (is_told or is_lost or isinstance(error, Unavailable))
        if is_lost:
            _log.info("a run now belongs to another process", action="turn", turn=self.run_id)
        elif isinstance(error, SwarmError):
            _log.warning("a run breaks off", action="turn", turn=self.run_id, error=error.message)
        elif not is_told:
            _log.error("run failed", action="turn", turn=self.run_id, exc_info=error)
        if not self.term.holds():
            return  # the elected process ends the run
        try:
            await self._run_context.recovery.bring_to_end(
                self.run_id,
                self.term.is_ours,
                counts=not is_told,
                was_called=self.source.was_called,
                by_itself=by_itself,
            )
            stored = await self.source.stored() if place and by_itself else None  # what would fail again
            if stored:
                await self._end(stored, place)
        except SwarmError as trouble:
            _log.warning("a run will be ended later", action="turn", turn=self.run_id, error=trouble.message)


async def _read(events: AsyncGenerator[AgentEvent, None], whole: AnswerCollector) -> None:
    async with contextlib.aclosing(events):
        async for event in events:
            whole.hear(event)
            if whole.is_over:
                return


class RunRecord:
    """The messages of one run, recorded in the database for recovery. Raises AnswerLost once the run has ended."""

    def __init__(self, database: Database, run_id: str, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._run_id = run_id
        self._operating_policy = operating_policy

    async def beginning(self, page: int, *, is_post: bool) -> None:
        """Records a message before the call to Slack that creates it."""
        kind = PageKind.POST if is_post else PageKind.STREAM
        if not await self._database.write(self._beginning, page, kind):
            raise AnswerLost

    def _beginning(self, tx: Transaction, page: int, kind: PageKind) -> bool:
        if not _is_running(tx, self._run_id):
            return False
        run_pages.open_page(tx, self._run_id, page, kind)
        return True

    async def began(self, page: int, ts: str) -> None:
        """Records the timestamp of a message. If the run has ended in the meantime, recovery seals the message."""
        if not await self._database.write(self._began, page, ts):
            raise AnswerLost

    def _began(self, tx: Transaction, page: int, ts: str) -> bool:
        if not run_pages.page_opened(tx, self._run_id, page, ts):
            given_up = [one for one in run_pages.of_run(tx, self._run_id) if one.page == page and one.ts is None]
            if given_up:  # recovery did not find the message, but it has reached Slack
                run_pages.page_reopened(tx, self._run_id, page, ts)
        return _is_running(tx, self._run_id)

    async def begins_after(self, page: int) -> int:
        """Returns a time on Slack's clock before any possible start of a message."""
        return await self._database.read(run_pages.begins_after, self._run_id, page)

    async def leaving(self, page: int, text: str) -> None:
        """Records the text of a message before the next message begins, so that recovery can still add a note to it."""
        await self._database.write(run_pages.page_text, self._run_id, page, text)

    async def ending(self, call: Last, outcome: AnswerOutcome) -> Closing:
        """Records the end before the last call. After that, any process can complete the answer."""
        closing = await self._database.write(self._ending, call, outcome)
        if closing is None:
            raise AnswerLost
        return closing

    def _ending(self, tx: Transaction, call: Last, outcome: AnswerOutcome) -> Closing | None:
        """Returns the blocks to be shown; None if the run has ended otherwise."""
        known, note = outcome_of(outcome)
        closing = with_facts(tx, self._run_id, call.closing, self._operating_policy)
        if runs.closing(tx, self._run_id, text=call.text, closing=closing, outcome=known, note=note):
            run = runs.get(tx, self._run_id)
            if run and isinstance(outcome, NeedsInput):
                ask_of_run(tx, run, outcome.asked, self._operating_policy)
            return closing
        run = runs.get(tx, self._run_id)  # a repeated call finds a closing run
        is_closing = run is not None and run.outcome is known and run.ended_at is None
        return closing if is_closing else None

    async def ended(self, page: int, text: str) -> None:
        """Records that a message is final."""
        await self._database.write(self._ended, page, text)

    def _ended(self, tx: Transaction, page: int, text: str) -> None:
        run_pages.page_text(tx, self._run_id, page, text)
        run_pages.page_closed(tx, self._run_id, page)

    async def showing_status(self) -> None:
        """Records, before the call, that the thread has a status line, which is cleared after the end of the run."""
        await attempt(self._database.write(status_lines.shown_by_run, self._run_id), "status_line", turn=self._run_id)


def _is_running(tx: Transaction, run_id: str) -> bool:
    run = runs.get(tx, run_id)
    return run is not None and run.ended_at is None
