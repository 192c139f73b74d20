"""Recovers unfinished runs after their process crashed, was stopped, slept too long, or lost the election.

Who may act: the elected process; a process that is no longer elected makes no more calls to Slack (`AnswerLost`). What
is guaranteed: people see every unfinished run come to an end. A finished run is completed from its row. For an
interrupted run, `run_ends.break_off` decides in one transaction, and then the messages are sealed with that decision.
Every step and every call may be repeated; a thread never has two growing messages of one run. Recovery takes as long as
Slack's limits require, but does not delay other threads.

What happens on failure: a message that Slack refuses to seal stays unchanged, and Slack ends its stream after five
minutes; the note is then posted separately. Steps that could not be stored, or could not be completed before the
process lost the election, are repeated in the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from swarm.domain.answers.agents import OnRestart, StreamingAgent
from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AnswerTarget,
    CloseStream,
    Closing,
    Slot,
    StreamCall,
    UpdatePage,
)
from swarm.domain.answers.events import Answered, AnswerOutcome, NeedsInput, RunFailed, RunStopped
from swarm.domain.answers.showing import AnswerLost, AnswerShown, LiveSlack, MayCall
from swarm.domain.errors import NotFound
from swarm.domain.model.deliveries import Answer, DeliveryAccepted, DeliveryRefused
from swarm.domain.model.runs import PageKind, PagePhase, RunOutcome, RunStatus
from swarm.domain.model.threads import Thread
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.text.slack_text import unescape
from swarm.services.ground.guarded import attempt
from swarm.services.runs.run_ends import (
    RESTARTED,
    RESTARTED_TEXT,
    Loss,
    below_of,
    break_off,
    close_pages,
    end_run,
    first_page_is_open,
    place_of,
    sealed,
)
from swarm.services.runs.stream_state import goes_on
from swarm.services.speaking.silence import is_silent
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_events, run_pages, runs
from swarm.store.runs.run_pages import RunPage
from swarm.store.runs.runs import Run
from swarm.store.threads import threads

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfinished:
    """An unfinished run with all related rows."""

    run: Run
    agent_name: str
    thread: Thread | None
    pages: tuple[RunPage, ...]
    goes_on: bool  # its agent continues to send events without a new run
    is_silent: bool  # nothing of it is shown


class Recovery:
    """The service that ends unfinished runs."""

    def __init__(
        self,
        database: Database,
        slack: LiveSlack,
        specs: Mapping[str, StreamingAgent],
        operating_policy: OperatingPolicy,
    ) -> None:
        self._database = database
        self._slack = slack
        self._specs = specs
        self._operating_policy = operating_policy

    async def recover(self, is_running: Callable[[str], bool], may_call: MayCall) -> None:
        """Recovers all unfinished runs except those for whose run id ``is_running`` is true.

        Raises Unavailable without the database.
        """
        found = await self._database.read(runs.unfinished)
        streams = await self._database.read(run_events.running)  # `StreamSource` handles streams that are running
        lost = [run.id for run in found if run.id not in streams]
        lost += await self._database.read(run_pages.unsealed)
        works = (
            attempt(self.bring_to_end(run_id, may_call, counts=True), "turn_recover", turn=run_id)
            for run_id in lost
            if not is_running(run_id)
        )
        await asyncio.gather(*works)

    async def bring_to_end(
        self, run_id: str, may_call: MayCall, *, counts: bool, was_called: bool = True, by_itself: bool = False
    ) -> None:
        """Ends one run that no process executes any more, while ``may_call`` permits this process to call Slack.

        The other arguments are those of `Loss`.
        """
        loss = partial(Loss, counts=counts, was_called=was_called, by_itself=by_itself)
        try:
            await self._bring_to_end(run_id, may_call, loss)
        except AnswerLost:
            _log.info("an unfinished answer now belongs to another process", action="turn_recover", turn=run_id)

    async def _bring_to_end(self, run_id: str, may_call: MayCall, loss: Callable[..., Loss]) -> None:
        found = await self._database.read(unfinished, run_id)
        if found is None:
            return
        if not await may_call():  # the elected process decides
            raise AnswerLost
        _log.info("an unfinished answer is being ended", action="turn_recover", turn=run_id)
        place = self._place(found)
        if found.run.status is RunStatus.CLOSING:
            await self._complete(found, place, may_call)
        elif found.goes_on:
            await self._begin_anew(found, place, may_call)
        elif found.run.status is RunStatus.RUNNING:
            lost = loss(runs_again=self._runs_again(found.agent_name))
            await self._database.write(break_off, run_id, lost, place, self._operating_policy)
            await self._seal(run_id, place, may_call)
        else:
            await self._seal(run_id, place, may_call)

    async def _begin_anew(self, found: Unfinished, place: AnswerTarget | None, may_call: MayCall) -> None:
        """Seals the visible part of a polling agent's answer. The stored events are then shown again from the
        beginning.
        """
        await self._database.write(first_page_is_open, found.run)
        opened = await self._database.read(unfinished, found.run.id)
        if place and opened and opened.pages:
            await _Seals(self._database, self._slack, opened, place, may_call).seal(Closing(note=RESTARTED_TEXT))
        await self._database.write(close_pages, found.run)

    async def _seal(self, run_id: str, place: AnswerTarget | None, may_call: MayCall) -> None:
        """Shows in the messages of a finished run how the run ended."""
        found = await self._database.read(unfinished, run_id)
        if found is None or found.run.status is RunStatus.CLOSING:  # all text is posted, or the run has stored its end
            return
        below = below_of(found.run, is_partial=True)
        stands = place and await _Seals(self._database, self._slack, found, place, may_call).seal(below)
        await self._database.write(sealed, run_id, place, NOTHING_BELOW if stands else below)

    async def _complete(self, found: Unfinished, place: AnswerTarget | None, may_call: MayCall) -> None:
        """Completes the last message of a run whose complete answer is stored."""
        run = found.run
        text, below = run.final_text or "", run.final_closing or NOTHING_BELOW
        is_shown = place and await _Seals(self._database, self._slack, found, place, may_call).show_whole(text, below)
        ending = AnswerShown(
            outcome=_outcome(run),
            text=_said(found.pages, text),
            leftover="" if is_shown else text,
            closing=NOTHING_BELOW if is_shown else below,
        )
        await self._database.write(end_run, run.id, ending, place, self._operating_policy)

    def _runs_again(self, agent_name: str) -> bool:
        spec = self._specs.get(agent_name)
        return spec is not None and spec.on_restart is OnRestart.RERUN

    def _place(self, found: Unfinished) -> AnswerTarget | None:
        if found.thread is None or found.is_silent:
            return None
        spec = self._specs.get(found.agent_name)
        return place_of(
            found.thread,
            self._operating_policy,
            run_id=found.run.id,
            requester=found.run.requester,
            agent_name=found.agent_name,
            footer=spec.footer if spec else "",
        )


def _said(pages: Sequence[RunPage], last: str) -> str:
    """Returns the known text of the agent. Pages were separated by whitespace, usually a line break."""
    texts = [*(page.text or "" for page in pages[:-1]), last]
    return unescape("\n\n".join(text.strip("\n") for text in texts if text))


def _outcome(run: Run) -> AnswerOutcome:
    match run.outcome:
        case RunOutcome.STOPPED:
            return RunStopped(by=run.stop_requested_by)
        case RunOutcome.FAILED:
            return RunFailed(reason=run.outcome_note or RESTARTED)
        case RunOutcome.WAITING:
            return NeedsInput(asked=())
        case _:
            return Answered()


def unfinished(tx: Transaction, run_id: str) -> Unfinished | None:
    """Returns a run that is running, closing, or has messages to seal; otherwise None."""
    run = runs.get(tx, run_id)
    if run is None or run.status is RunStatus.WAITING:
        return None
    pages = tuple(run_pages.of_run(tx, run_id))
    if run.ended_at is not None and all(page.phase is PagePhase.CLOSED for page in pages):
        return None
    thread = threads.get(tx, run.thread_id) if run.thread_id else None
    name = agents.names(tx).get(run.agent_id, "swarm")
    return Unfinished(
        run=run,
        agent_name=name,
        thread=thread,
        pages=pages,
        goes_on=goes_on(tx, run),
        is_silent=is_silent(tx, run, thread),
    )


class _Seals:
    """The sealing of one run's messages."""

    def __init__(
        self, database: Database, slack: LiveSlack, found: Unfinished, place: AnswerTarget, may_call: MayCall
    ) -> None:
        self.place = place
        self._database = database
        self._slack = slack
        self._found = found
        self._may_call = may_call

    async def show_whole(self, text: str, below: Closing) -> bool:
        """Shows the complete answer in the last message. Returns whether Slack accepted the update."""
        page = self._found.pages[-1] if self._found.pages else None
        ts = await self._ts(page) if page else None
        if page is None or ts is None or not await self._show(page, ts, text, below):
            return False
        await self._database.write(self._show_whole, self._found.run.id, page.page, ts, text)
        return True

    @staticmethod
    def _show_whole(tx: Transaction, run_id: str, page: int, ts: str, text: str) -> None:
        run_pages.page_opened(tx, run_id, page, ts)
        run_pages.page_text(tx, run_id, page, text)
        run_pages.page_closed(tx, run_id, page)

    async def seal(self, below: Closing) -> bool:
        """Closes every message that may still grow. Returns whether the closing note is visible where readers expect
        it.

        The note is added to the first message, so that an abandoned text is not mistaken for the answer. The actions
        for a failed answer are added below the last message.
        """
        pages = self._found.pages
        stands: dict[int, bool] = {}
        for page in pages:
            if page.phase is not PagePhase.CLOSED:
                is_last = page is pages[-1]
                stands[page.page] = await self._seal(page, below if is_last else replace(below, retry=False))
        counts = pages[0] if self._found.run.status is RunStatus.ABANDONED else pages[-1]
        return stands.get(counts.page, below == NOTHING_BELOW)

    async def _seal(self, page: RunPage, below: Closing) -> bool:
        ts = await self._ts(page)
        if ts is None:
            return False
        if page.kind is PageKind.STREAM and isinstance(await self._call(_close(page, ts, below)), DeliveryAccepted):
            return True
        if page.text is None:
            return False
        # The stream has already been closed.
        return isinstance(await self._call(_update(page, ts, page.text, below)), DeliveryAccepted)

    async def _show(self, page: RunPage, ts: str, text: str, below: Closing) -> bool:
        """Closes a stream and sets its complete text, because it is unknown how much text has arrived."""
        if page.kind is PageKind.STREAM:
            await self._call(_close(page, ts, NOTHING_BELOW))
        return isinstance(await self._call(_update(page, ts, text, below)), DeliveryAccepted)

    async def _ts(self, page: RunPage) -> str | None:
        """Returns the timestamp of the message; searches Slack for a message that may have been created."""
        if page.ts:
            return page.ts
        run = self._found.run
        known = {other.ts for other in self._found.pages if other.ts} | await self._database.read(
            run_pages.known_in_thread, run.thread_id or ""
        )
        try:
            is_post = page.kind is PageKind.POST
            after_us = await self._database.read(run_pages.begins_after, run.id, page.page)
            ts = await self._slack.find(self.place, page.page, after_us, known, is_post=is_post)
        except NotFound:
            return None
        if ts:
            await self._database.write(run_pages.page_opened, run.id, page.page, ts)
        return ts

    async def _call(self, call: StreamCall) -> Answer:
        """Makes an idempotent call and retries it a few times if necessary."""
        place = self.place
        slot = Slot.CLOSE if isinstance(call, CloseStream) else Slot.UPDATE
        for number in range(_ATTEMPTS):
            await asyncio.sleep(_PAUSE_SECONDS * number)
            await self._slack.acquire_slot(slot, place.channel)
            if not await self._may_call():
                raise AnswerLost
            answer = await self._slack.call(place, call)
            if isinstance(answer, DeliveryAccepted | DeliveryRefused):
                break
        if not isinstance(answer, DeliveryAccepted):
            _log.info("a message could not be sealed", action="turn_seal", turn=place.run_id, answer=repr(answer))
        return answer


def _close(page: RunPage, ts: str, below: Closing) -> CloseStream:
    return CloseStream(page=page.page, ts=ts, chunks=(), closing=below, text="", is_last=True)


def _update(page: RunPage, ts: str, text: str, below: Closing) -> UpdatePage:
    return UpdatePage(page=page.page, ts=ts, text=text, cards=(), closing=below, is_last=True)
