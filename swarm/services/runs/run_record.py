"""The record of an answer's messages in the database, for whoever finds it unfinished."""

from __future__ import annotations

from typing import assert_never

from swarm.domain.answers.events import Answered, AnswerOutcome, NeedsInput, RunFailed, RunStopped
from swarm.domain.answers.showing import AnswerLost, Last
from swarm.domain.model.runs import PageKind, RunOutcome
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import interrupts, run_pages, runs


class RunRecord:
    """Writes what happens to the messages of one turn. Raises LostRight where the turn is somebody else's by now."""

    def __init__(self, database: Database, turn_id: str) -> None:
        self._database = database
        self._turn_id = turn_id

    async def beginning(self, page: int, *, is_post: bool) -> None:
        """Before Slack is asked for a message."""
        kind = PageKind.POST if is_post else PageKind.STREAM
        if not await self._database.write(_beginning, self._turn_id, page, kind):
            raise AnswerLost

    async def began(self, page: int, ts: str) -> None:
        """Slack has it. Where the answer was taken from us meanwhile, the message is left to whoever seals it."""
        if not await self._database.write(_began, self._turn_id, page, ts):
            raise AnswerLost

    async def leaving(self, page: int, text: str) -> None:
        """Before a message is closed that is not the last: who finds it closed can still say something below it."""
        await self._database.write(run_pages.page_text, self._turn_id, page, text)

    async def ending(self, call: Last, outcome: AnswerOutcome) -> None:
        """Before the last call: from now on anybody can bring the answer to its end."""
        if not await self._database.write(_closing, self._turn_id, call, outcome):
            raise AnswerLost

    async def ended(self, page: int, text: str) -> None:
        """A message will not change any more."""
        await self._database.write(_page_ended, self._turn_id, page, text)


def outcome_of(outcome: AnswerOutcome) -> tuple[RunOutcome, str | None]:
    """The outcome as its row has it, and why it failed."""
    match outcome:
        case Answered():
            return RunOutcome.ANSWERED, None
        case RunFailed(reason=reason):
            return RunOutcome.FAILED, reason
        case RunStopped(by=by):
            return RunOutcome.STOPPED, f"stopped by <@{by}>" if by else "stopped"
        case NeedsInput():
            return RunOutcome.WAITING, None
        case _:
            assert_never(outcome)


def _beginning(tx: Transaction, turn_id: str, page: int, kind: PageKind) -> bool:
    """False if the turn is over."""
    turn = runs.get(tx, turn_id)
    if turn is None or turn.ended_at is not None:
        return False
    run_pages.open_page(tx, turn_id, page, kind)
    return True


def _began(tx: Transaction, turn_id: str, page: int, ts: str) -> bool:
    """False if the turn is over."""
    turn = runs.get(tx, turn_id)
    if not run_pages.page_opened(tx, turn_id, page, ts):
        given_up = [one for one in run_pages.of_turn(tx, turn_id) if one.page == page and one.ts is None]
        if given_up:  # it was searched for and not found, and has come to Slack after all
            run_pages.page_reopened(tx, turn_id, page, ts)
    return turn is not None and turn.ended_at is None


def _closing(tx: Transaction, turn_id: str, call: Last, outcome: AnswerOutcome) -> bool:
    known, note = outcome_of(outcome)
    if runs.closing(tx, turn_id, text=call.text, closing=call.closing, outcome=known, note=note):
        if isinstance(outcome, NeedsInput):
            interrupts.add(tx, turn_id, outcome.asked)
        return True
    turn = runs.get(tx, turn_id)  # the same call made again finds it closing
    return turn is not None and turn.outcome is known and turn.ended_at is None


def _page_ended(tx: Transaction, turn_id: str, page: int, text: str) -> None:
    run_pages.page_text(tx, turn_id, page, text)
    run_pages.page_closed(tx, turn_id, page)
