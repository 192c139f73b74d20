"""The messages of an answer that nobody gives any more: whole from its row, or sealed with what became of it.

Every call may be repeated, and none is made by a process that has lost the office (`AnswerLost`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

import structlog

from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, CloseStream, Closing, Slot, StreamCall, UpdatePage
from swarm.domain.answers.showing import AnswerLost, LiveSlack, MayCall
from swarm.domain.errors import NotFound
from swarm.domain.model.deliveries import Answer, DeliveryAccepted, DeliveryRefused
from swarm.domain.model.runs import PageKind, PagePhase, RunStatus
from swarm.domain.model.threads import Thread
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_pages
from swarm.store.runs.run_pages import RunPage
from swarm.store.runs.runs import Run

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfinished:
    """A turn with everything that is known of it."""

    turn: Run
    agent_name: str
    thread: Thread | None
    pages: tuple[RunPage, ...]
    goes_on: bool  # its agent goes on telling by itself


class Seals:
    """Brings the messages of one turn to their end."""

    def __init__(
        self, database: Database, slack: LiveSlack, found: Unfinished, place: AnswerTarget, may_call: MayCall
    ) -> None:
        self.place = place
        self._database = database
        self._slack = slack
        self._found = found
        self._may_call = may_call

    async def show_whole(self, text: str, below: Closing) -> bool:
        """Whether the last message looks as it should now."""
        page = self._found.pages[-1] if self._found.pages else None
        ts = await self._ts(page) if page else None
        if page is None or ts is None or not await self._show(page, ts, text, below):
            return False
        await self._database.write(_ended, self._found.turn.id, page.page, ts, text)
        return True

    async def seal(self, below: Closing) -> bool:
        """End every message that may still grow; whether what is to stand below them does where people look for it.

        The first message says it, so that nobody takes what is abandoned for the answer; what people may do about an
        answer that failed stands below the last one.
        """
        pages = self._found.pages
        stands: dict[int, bool] = {}
        for page in pages:
            if page.phase is not PagePhase.CLOSED:
                is_last = page is pages[-1]
                stands[page.page] = await self._seal(page, below if is_last else replace(below, retry=False))
        counts = pages[0] if self._found.turn.status is RunStatus.ABANDONED else pages[-1]
        return stands.get(counts.page, below == NOTHING_BELOW)

    async def _seal(self, page: RunPage, below: Closing) -> bool:
        ts = await self._ts(page)
        if ts is None:
            return False
        if page.kind is PageKind.STREAM and isinstance(await self._call(_close(page, ts, below)), DeliveryAccepted):
            return True
        if page.text is None:
            return False
        return isinstance(
            await self._call(_update(page, ts, page.text, below)), DeliveryAccepted
        )  # it was closed before

    async def _show(self, page: RunPage, ts: str, text: str, below: Closing) -> bool:
        """Close a stream, and set its whole text: nobody knows how much of it had arrived."""
        if page.kind is PageKind.STREAM:
            await self._call(_close(page, ts, NOTHING_BELOW))
        return isinstance(await self._call(_update(page, ts, text, below)), DeliveryAccepted)

    async def _ts(self, page: RunPage) -> str | None:
        """Where the message is; one that may have begun is searched for."""
        if page.ts:
            return page.ts
        turn = self._found.turn
        known = {other.ts for other in self._found.pages if other.ts} | await self._database.read(
            run_pages.known_in_thread, turn.thread_id or ""
        )
        try:
            is_post = page.kind is PageKind.POST
            after_us = await self._database.read(run_pages.begins_after, turn.id, page.page)
            ts = await self._slack.find(self.place, page.page, after_us, known, is_post=is_post)
        except NotFound:
            return None
        if ts:
            await self._database.write(run_pages.page_opened, turn.id, page.page, ts)
        return ts

    async def _call(self, call: StreamCall) -> Answer:
        """Make a call that may be repeated, a few times if need be."""
        place = self.place
        slot = Slot.CLOSE if isinstance(call, CloseStream) else Slot.UPDATE
        for number in range(_ATTEMPTS):
            await asyncio.sleep(_PAUSE_SECONDS * number)
            await self._slack.turn(slot, place.channel)
            if not await self._may_call():
                raise AnswerLost
            answer = await self._slack.call(place, call)
            if isinstance(answer, DeliveryAccepted | DeliveryRefused):
                break
        if not isinstance(answer, DeliveryAccepted):
            _log.info("a message could not be sealed", action="turn_seal", turn=place.turn_id, answer=repr(answer))
        return answer


def _close(page: RunPage, ts: str, below: Closing) -> CloseStream:
    return CloseStream(page=page.page, ts=ts, chunks=(), closing=below, text="", is_last=True)


def _update(page: RunPage, ts: str, text: str, below: Closing) -> UpdatePage:
    return UpdatePage(page=page.page, ts=ts, text=text, cards=(), closing=below, is_last=True)


def _ended(tx: Transaction, turn_id: str, page: int, ts: str, text: str) -> None:
    run_pages.page_opened(tx, turn_id, page, ts)
    run_pages.page_text(tx, turn_id, page, text)
    run_pages.page_closed(tx, turn_id, page)
