"""Turns that were left unfinished: their process has crashed, was stopped, slept too long, or has lost the office.

What is guaranteed: every such turn is brought to an end that people see. One whose run was over is completed from its
row. Of one in the middle `turn_loss` decides, in one transaction, and then its messages are sealed with what was
decided. Every step may be done twice; a thread never has two messages of one turn that grow. Other threads do not wait
for this: it takes as long as Slack's limits say.

What happens on failure: a message that Slack does not let us seal stays as it is, and Slack ends it after five minutes;
the note then comes as a post of its own. What could not be stored, or not be done before the office was lost, is found
again in the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from swarm.domain.answers.agent import OnRestart, StreamingAgent
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, Closing
from swarm.domain.answers.outcomes import Answered, AnswerOutcome, Asks, RunFailed, RunStopped
from swarm.domain.answers.showing import LiveSlack, LostRight, MayCall
from swarm.domain.model.runs import PagePhase, RunOutcome, RunStatus
from swarm.domain.model.transcript import ChannelType
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.text.mrkdwn import unescape
from swarm.services.rules.guarded import attempt
from swarm.services.runs.run_ends import Ending, close_pages, end_run
from swarm.services.runs.run_loss import (
    RESTARTED,
    RESTARTED_TEXT,
    Loss,
    below_of,
    break_off,
    first_page_is_open,
    sealed,
)
from swarm.services.runs.run_seals import Seals, Unfinished
from swarm.services.runs.stream_ends import goes_on
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_events, run_pages, runs
from swarm.store.runs.run_pages import RunPage
from swarm.store.runs.runs import Run
from swarm.store.threads import threads

_log = structlog.get_logger(__name__)


class Recovery:
    """Brings unfinished turns to their end."""

    def __init__(
        self, database: Database, slack: LiveSlack, specs: Mapping[str, StreamingAgent], conduct: OperatingPolicy
    ) -> None:
        self._database = database
        self._slack = slack
        self._specs = specs
        self._conduct = conduct

    async def recover(self, is_running: Callable[[str], bool], may_call: MayCall) -> None:
        """All of them but those that ``is_running`` names, by turn id; raises Unavailable when the database is away."""
        found = await self._database.read(runs.unfinished)
        streams = await self._database.read(run_events.running)  # `StreamRun` looks after those that run
        lost = [turn.id for turn in found if turn.id not in streams]
        lost += await self._database.read(run_pages.unsealed)
        works = (
            attempt(self.bring_to_end(turn_id, may_call, counts=True), "turn_recover", turn=turn_id)
            for turn_id in lost
            if not is_running(turn_id)
        )
        await asyncio.gather(*works)

    async def bring_to_end(self, turn_id: str, may_call: MayCall, *, counts: bool, was_called: bool = True) -> None:
        """One turn that nobody runs any more, as long as this process ``may_call`` Slack.

        ``counts``: to run it again takes up one of its attempts. ``was_called``: its agent may have begun.
        """
        try:
            await self._bring_to_end(turn_id, may_call, counts=counts, was_called=was_called)
        except LostRight:
            _log.info("an unfinished answer is somebody else's by now", action="turn_recover", turn=turn_id)

    async def _bring_to_end(self, turn_id: str, may_call: MayCall, *, counts: bool, was_called: bool) -> None:
        found = await self._database.read(_unfinished, turn_id, self._conduct)
        if found is None:
            return
        if not await may_call():  # the one who is elected decides
            raise LostRight
        _log.info("an unfinished answer is brought to its end", action="turn_recover", turn=turn_id)
        place = self._place(found)
        if found.turn.status is RunStatus.CLOSING:
            await self._complete(found, place, may_call)
        elif found.goes_on:
            await self._begin_anew(found, place, may_call)
        elif found.turn.status is RunStatus.RUNNING:
            loss = Loss(runs_again=self._runs_again(found.agent_name), counts=counts, was_called=was_called)
            await self._database.write(break_off, turn_id, loss, place, self._conduct)
            await self._seal(turn_id, place, may_call)
        else:
            await self._seal(turn_id, place, may_call)

    async def _begin_anew(self, found: Unfinished, place: AnswerTarget | None, may_call: MayCall) -> None:
        """Seal what was shown of a polling agent's answer; from what is stored it is shown anew."""
        await self._database.write(first_page_is_open, found.turn)
        opened = await self._database.read(_unfinished, found.turn.id, self._conduct)
        if place and opened and opened.pages:
            seals = Seals(self._database, self._slack, opened, place, may_call)
            await self._beside_status(place, seals.seal(Closing(note=RESTARTED_TEXT)))
        await self._database.write(close_pages, found.turn)

    async def _seal(self, turn_id: str, place: AnswerTarget | None, may_call: MayCall) -> None:
        """The messages of a turn that is over say how it ended."""
        found = await self._database.read(_unfinished, turn_id, self._conduct)
        if found is None or found.turn.status is RunStatus.CLOSING:  # all is said, or its run has told its end
            if place and found is None:
                await self._slack.status(place, "", works=False)
            return
        below = below_of(found.turn, is_partial=True)
        stands = False
        if place:
            seals = Seals(self._database, self._slack, found, place, may_call)
            stands = await self._beside_status(place, seals.seal(below))
        await self._database.write(sealed, turn_id, place, NOTHING_BELOW if stands else below)

    async def _complete(self, found: Unfinished, place: AnswerTarget | None, may_call: MayCall) -> None:
        """Everything is known: make the last message look so."""
        turn = found.turn
        text, below = turn.final_text or "", turn.final_closing or NOTHING_BELOW
        is_shown = False
        if place:
            seals = Seals(self._database, self._slack, found, place, may_call)
            is_shown = await self._beside_status(place, seals.show_whole(text, below))
        ending = Ending(
            outcome=_outcome(turn),
            text=_said(found.pages, text),
            leftover="" if is_shown else text,
            closing=NOTHING_BELOW if is_shown else below,
        )
        await self._database.write(end_run, turn.id, ending, place, self._conduct)

    async def _beside_status(self, place: AnswerTarget, work: Coroutine[Any, Any, bool]) -> bool:
        """What a piece of work gives; the status line goes meanwhile, so before another run has one of its own."""
        clearing = asyncio.create_task(self._slack.status(place, "", works=False))
        try:
            return await work
        finally:
            await clearing

    def _runs_again(self, agent_name: str) -> bool:
        spec = self._specs.get(agent_name)
        return spec is not None and spec.on_restart is OnRestart.RERUN

    def _place(self, found: Unfinished) -> AnswerTarget | None:
        thread, turn = found.thread, found.turn
        if thread is None:
            return None
        spec = self._specs.get(found.agent_name)
        return AnswerTarget(
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


def _said(pages: Sequence[RunPage], last: str) -> str:
    """What the agent said in all, as far as its messages tell: between two of them there was a blank, mostly a line."""
    texts = [*(page.text or "" for page in pages[:-1]), last]
    return unescape("\n\n".join(text.strip("\n") for text in texts if text))


def _outcome(turn: Run) -> AnswerOutcome:
    match turn.outcome:
        case RunOutcome.STOPPED:
            return RunStopped(by=turn.stop_requested_by)
        case RunOutcome.FAILED:
            return RunFailed(reason=turn.outcome_note or RESTARTED)
        case RunOutcome.WAITING:
            return Asks(asked=())
        case _:
            return Answered()


def _unfinished(tx: Transaction, turn_id: str, conduct: OperatingPolicy) -> Unfinished | None:
    turn = runs.get(tx, turn_id)
    if turn is None or turn.status is RunStatus.WAITING:
        return None
    pages = tuple(run_pages.of_turn(tx, turn_id))
    if turn.ended_at is not None and all(page.phase is PagePhase.CLOSED for page in pages):
        return None
    thread = threads.get(tx, turn.thread_id) if turn.thread_id else None
    name = agents.names(tx).get(turn.agent_id, "swarm")
    return Unfinished(
        turn=turn,
        agent_name=name,
        thread=thread,
        pages=pages,
        goes_on=goes_on(tx, turn, conduct),
    )
