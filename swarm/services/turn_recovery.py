"""Turns that were left unfinished: their process has crashed, was stopped, or has lost the office.

What is guaranteed: every such turn is brought to an end that people see, and nothing that it was about is run again
before. One whose run was over is completed from its row. One in the middle is sealed, and then, by the agent's policy,
run again from the start or offered for Retry. Every step may be done twice; a thread never has two messages of one turn
that grow. Other threads do not wait for this: it takes as long as Slack's limits say.

What happens on failure: a message that Slack does not let us seal stays as it is, and Slack ends it after five minutes;
the note then comes as a post of its own. What could not be stored is found again in the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from swarm.domain.conduct import Conduct
from swarm.domain.deliveries import Accepted, Answer, Refused
from swarm.domain.errors import NotFound
from swarm.domain.mrkdwn import unescape
from swarm.domain.streaming import words
from swarm.domain.streaming.agent import OnRestart, StreamingAgent
from swarm.domain.streaming.calls import NOTHING_BELOW, CloseStream, Closing, Place, Slot, StreamCall, UpdatePage
from swarm.domain.streaming.outcomes import Answered, Asks, Outcome, RunFailed, RunStopped
from swarm.domain.streaming.showing import LiveSlack
from swarm.domain.threads import Thread
from swarm.domain.transcript import ChannelType
from swarm.domain.turns import PageKind, PagePhase, TurnOutcome, TurnStatus
from swarm.services.attempt import attempt
from swarm.services.stream_ends import goes_on, is_polling
from swarm.services.turn_ends import RESTARTED, Ending, abandon, close_pages, end_turn
from swarm.store import agents, threads, turn_events, turn_pages, turns
from swarm.store.database import Database
from swarm.store.transaction import Transaction
from swarm.store.turn_pages import TurnPage
from swarm.store.turns import Turn

RESTARTED_TEXT: Final = "⚠️ The coordinator was restarted in the middle of this; the answer begins anew below."

_ATTEMPTS: Final = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfinished:
    """A turn with everything that is known of it."""

    turn: Turn
    agent_name: str
    thread: Thread | None
    pages: tuple[TurnPage, ...]
    is_polling: bool  # the agent goes on telling by itself
    goes_on: bool  # and does so now


class Recovery:
    """Brings unfinished turns to their end."""

    def __init__(
        self, database: Database, slack: LiveSlack, specs: Mapping[str, StreamingAgent], conduct: Conduct
    ) -> None:
        self._database = database
        self._slack = slack
        self._specs = specs
        self._conduct = conduct

    async def recover(self, runs: Callable[[str], bool]) -> None:
        """All of them but those that somebody ``runs``, by turn id; raises Unavailable when the database is away."""
        found = await self._database.read(turns.unfinished)
        streams = await self._database.read(turn_events.running)  # `StreamRun` looks after those that run
        lost = [turn.id for turn in found if not runs(turn.id) and turn.id not in streams]
        works = (attempt(self.bring_to_end(turn_id, counts=True), "turn_recover", turn=turn_id) for turn_id in lost)
        await asyncio.gather(*works)

    async def bring_to_end(self, turn_id: str, *, counts: bool) -> None:
        """One turn that nobody runs any more; ``counts``: to run it again takes up one of its attempts."""
        found = await self._database.read(_unfinished, turn_id)
        if found is None:
            return
        _log.info("an unfinished answer is brought to its end", action="turn_recover", turn=turn_id)
        place = self._place(found)
        if found.turn.status is TurnStatus.CLOSING:
            await self._complete(found, place)
        elif found.goes_on:
            await self._begin_anew(found, place)
        else:
            await self._break_off(found, place, counts=counts)

    async def _begin_anew(self, found: Unfinished, place: Place | None) -> None:
        """Seal what was shown of a polling agent's answer; from what is stored it is shown anew."""
        if place and found.pages:
            await self._beside_status(place, self._seal(found, place, Closing(note=RESTARTED_TEXT)))
        await self._database.write(close_pages, found.turn)

    async def _complete(self, found: Unfinished, place: Place | None) -> None:
        """Everything is known: make the last message look so."""
        turn = found.turn
        text, below = turn.final_text or "", turn.final_closing or NOTHING_BELOW
        is_shown = place is not None and await self._beside_status(place, self._show_whole(found, place, text, below))
        ending = Ending(
            outcome=_outcome(turn),
            text=_said(found.pages, text),
            leftover="" if is_shown else text,
            closing=NOTHING_BELOW if is_shown else below,
        )
        await self._database.write(end_turn, turn.id, ending, place, self._conduct)

    async def _beside_status(self, place: Place, work: Coroutine[Any, Any, bool]) -> bool:
        """What a piece of work gives; the status line goes meanwhile, so before another run has one of its own."""
        clearing = asyncio.create_task(self._slack.status(place, "", works=False))
        try:
            return await work
        finally:
            await clearing

    async def _show_whole(self, found: Unfinished, place: Place, text: str, below: Closing) -> bool:
        """Whether the last message looks as it should now."""
        page = found.pages[-1] if found.pages else None
        ts = await self._ts(place, page, found) if page else None
        if page is None or ts is None or not await self._show(place, page, ts, text, below):
            return False
        await self._database.write(_ended, found.turn.id, page.page, ts, text)
        return True

    async def _show(self, place: Place, page: TurnPage, ts: str, text: str, below: Closing) -> bool:
        """Close a stream, and set its whole text: nobody knows how much of it had arrived."""
        if page.kind is PageKind.STREAM:
            await self._call(place, _close(page, ts, NOTHING_BELOW))
        update = UpdatePage(page=page.page, ts=ts, text=text, cards=(), closing=below, is_last=True)
        return isinstance(await self._call(place, update), Accepted)

    async def _break_off(self, found: Unfinished, place: Place | None, *, counts: bool) -> None:
        """The run is lost: seal what it has shown, and run it again or say so."""
        turn = found.turn
        is_again = turn.stop_requested_at is None and (found.is_polling or self._runs_again(found.agent_name))
        outcome = _broken_off(turn)
        below = Closing(note=RESTARTED_TEXT) if is_again else _below(outcome, bool(found.pages))
        is_sealed = place is not None and await self._beside_status(place, self._seal(found, place, below))
        if is_again:
            await self._database.write(abandon, turn, self._conduct, counts=counts)
            return
        ending = Ending(outcome=outcome, closing=NOTHING_BELOW if is_sealed else below)
        await self._database.write(end_turn, turn.id, ending, place, self._conduct)

    def _runs_again(self, agent_name: str) -> bool:
        spec = self._specs.get(agent_name)
        return spec is not None and spec.on_restart is OnRestart.RERUN

    async def _seal(self, found: Unfinished, place: Place, below: Closing) -> bool:
        """End every message that may still grow; whether what is to stand below the last one does."""
        is_shown = False
        for page in found.pages:
            if page.phase is PagePhase.CLOSED or page.kind is PageKind.POST:
                continue
            ts = await self._ts(place, page, found)
            if ts is not None:
                answer = await self._call(place, _close(page, ts, below))
                is_shown = isinstance(answer, Accepted)
        return is_shown

    async def _ts(self, place: Place, page: TurnPage, found: Unfinished) -> str | None:
        """Where the message is; one that may have begun is searched for."""
        if page.ts:
            return page.ts
        known = {other.ts for other in found.pages if other.ts} | await self._database.read(
            turn_pages.known_in_thread, found.turn.thread_id or ""
        )
        after_us = await self._database.read(turn_pages.begins_after, page.turn_id, page.page)
        try:
            return await self._slack.find(place, page.page, after_us, known, is_post=page.kind is PageKind.POST)
        except NotFound:
            return None

    async def _call(self, place: Place, call: StreamCall) -> Answer:
        """Make a call that may be repeated, a few times if need be."""
        slot = Slot.CLOSE if isinstance(call, CloseStream) else Slot.UPDATE
        for _ in range(_ATTEMPTS):
            await self._slack.turn(slot, place.channel)
            answer = await self._slack.call(place, call)
            if isinstance(answer, Accepted | Refused):
                break
        if not isinstance(answer, Accepted):
            _log.info("a message could not be sealed", action="turn_seal", turn=place.turn_id, answer=repr(answer))
        return answer

    def _place(self, found: Unfinished) -> Place | None:
        thread, turn = found.thread, found.turn
        if thread is None:
            return None
        spec = self._specs.get(found.agent_name)
        return Place(
            team=thread.team,
            channel=thread.channel,
            thread_ts=thread.thread_ts,
            is_direct=thread.channel_type is ChannelType.DM,
            requester=turn.requester,
            agent_name=found.agent_name,
            turn_id=turn.id,
            display=self._conduct.policy(thread.channel).display,
            footer=spec.footer if spec else "",
        )


def _said(pages: Sequence[TurnPage], last: str) -> str:
    """What the agent said in all, as far as its messages tell: between two of them there was a blank, mostly a line."""
    texts = [*(page.text or "" for page in pages[:-1]), last]
    return unescape("\n\n".join(text.strip("\n") for text in texts if text))


def _outcome(turn: Turn) -> Outcome:
    match turn.outcome:
        case TurnOutcome.STOPPED:
            return RunStopped(by=turn.stop_requested_by)
        case TurnOutcome.FAILED:
            return RunFailed(reason=turn.outcome_note or RESTARTED)
        case TurnOutcome.WAITING:
            return Asks(asked=())
        case _:
            return Answered()


def _close(page: TurnPage, ts: str, below: Closing) -> CloseStream:
    return CloseStream(page=page.page, ts=ts, chunks=(), closing=below, text="", is_last=True)


def _broken_off(turn: Turn) -> Outcome:
    return RunStopped(by=turn.stop_requested_by) if turn.stop_requested_at else RunFailed(reason=RESTARTED)


def _below(outcome: Outcome, is_partial: bool) -> Closing:
    if isinstance(outcome, RunStopped):
        return Closing(note=words.stopped(outcome.by))
    return Closing(note=words.broke_off(RESTARTED, is_partial=is_partial), retry=True)


def _unfinished(tx: Transaction, turn_id: str) -> Unfinished | None:
    turn = turns.get(tx, turn_id)
    if turn is None or turn.ended_at is not None or turn.status is TurnStatus.WAITING:
        return None
    thread = threads.get(tx, turn.thread_id) if turn.thread_id else None
    name = agents.names(tx).get(turn.agent_id, "swarm")
    return Unfinished(
        turn=turn,
        agent_name=name,
        thread=thread,
        pages=tuple(turn_pages.of_turn(tx, turn_id)),
        is_polling=is_polling(tx, turn),
        goes_on=goes_on(tx, turn),
    )


def _ended(tx: Transaction, turn_id: str, page: int, ts: str, text: str) -> None:
    turn_pages.page_opened(tx, turn_id, page, ts)
    turn_pages.page_text(tx, turn_id, page, text)
    turn_pages.page_closed(tx, turn_id, page)
