"""The status line in a thread while a polling agent works there without showing its answer as it comes.

Each round compares what people should see with what was shown last, so nothing depends on how work begins or ends: an
answer, a lost lease, a stop and a restart are all the same. That a line is shown is recorded before Slack is called,
and forgotten after the line is cleared; a crash in between costs one more call. Lines are shown only for work that
lasts, because most answers come sooner than a line could help. Slack's refusals have no other effect.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swarm.clock import SECOND, until_next
from swarm.domain.answers import wording
from swarm.domain.answers.calls import AnswerTarget, SessionState
from swarm.domain.answers.sending import STATUS_SECONDS
from swarm.domain.answers.showing import LiveSlack, MayCall
from swarm.processes.background import BackgroundTasks
from swarm.services.rules.guarded import attempt
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import status_lines
from swarm.store.threads.status_lines import SUSPENDED_AT, StatusLine

AFTER_SECONDS: Final = 2.0
"""The time after which work counts as lasting."""

LOOK_SECONDS: Final = 1.0

AT_ONCE: Final = 20
"""The maximum number of calls of Slack at once."""


class StatusLines:
    """The status lines of polling agents' work. One process shows them: the elected one."""

    def __init__(self, database: Database, slack: LiveSlack) -> None:
        self._database = database
        self._slack = slack
        self._busy: set[str] = set()  # threads with a call in progress
        self._calls = BackgroundTasks()

    async def run(self, may_call: MayCall) -> None:
        """Keeps the status lines as people should see them, until cancelled."""
        try:
            while True:
                await attempt(self.look(may_call), "status_lines")
                await asyncio.sleep(until_next(LOOK_SECONDS))
        finally:
            await self._calls.end()

    async def look(self, may_call: MayCall) -> None:
        """Starts the calls that are due, as far as there is room for more."""
        busy = set(self._busy)  # a call that ends during the read may have changed what was read
        lines = await self._database.read(_due)
        due = [line for line in lines if line.id not in busy]
        for line in due[: AT_ONCE - len(self._busy)]:
            self._busy.add(line.id)
            self._calls.start(self._bring(line, may_call), "status line")

    async def settled(self) -> None:
        """Waits until the calls that have begun are complete."""
        await self._calls.wait()

    async def _bring(self, line: StatusLine, may_call: MayCall) -> None:
        try:
            if await may_call():
                await attempt(self._show(line) if line.agent_name else self._clear(line), "status_line", thread=line.id)
        finally:
            self._busy.discard(line.id)

    async def _show(self, line: StatusLine) -> None:
        await self._database.write(_shown, line.id)
        await self._slack.status(_place(line), wording.working(line.agent_name or ""))

    async def _clear(self, line: StatusLine) -> None:
        is_suspended = line.has_request and not line.has_run
        if not line.has_run:  # otherwise the run shows its own, and clears it
            session = SessionState.SUSPENDED if is_suspended else SessionState.ACTIVE
            await self._slack.status(_place(line), "", session=session)
        await self._database.write(status_lines.mark, line.id, SUSPENDED_AT if is_suspended else None)


def _due(tx: Transaction) -> list[StatusLine]:
    """Returns the lines to show, to renew and to clear; first those to clear, because they are wrong."""
    renewed_before = tx.now - int(STATUS_SECONDS * SECOND)
    lines = status_lines.of_all(tx, tx.now - int(AFTER_SECONDS * SECOND))
    gone = [line for line in lines if line.agent_name is None and not (line.is_suspended and line.has_request)]
    wanted = [line for line in lines if line.agent_name is not None]
    return gone + [line for line in wanted if line.status_at is None or line.status_at <= renewed_before]


def _shown(tx: Transaction, thread_id: str) -> None:
    status_lines.mark(tx, thread_id, tx.now)


def _place(line: StatusLine) -> AnswerTarget:
    return AnswerTarget(
        team=line.team,
        channel=line.channel,
        thread_ts=line.thread_ts,
        is_direct=False,
        requester=None,
        agent_name=line.agent_name or "",
        run_id=line.id,
    )
