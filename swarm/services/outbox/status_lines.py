"""The status lines in threads, and the states of the agent's sessions there.

Each round compares what the rows say that Slack should show (`StatusLine.session`) with what it was told last, so
nothing depends on how work begins or ends: an answer, a lost lease, a decision, an expiry, a stop, a deletion and a
restart are all the same. A run shows its own status line while it lasts; its end is told here. That something is shown
is recorded before Slack is called, and forgotten after Slack has taken the next state; a crash in between costs one
more call. Lines of polling agents are shown only for work that lasts, because most answers come sooner than a line
could help. Slack's refusals have no other effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from swarm.clock import SECOND, until_next
from swarm.domain.answers import wording
from swarm.domain.answers.calls import AnswerTarget, SessionState
from swarm.domain.answers.sending import STATUS_SECONDS
from swarm.domain.answers.showing import LiveSlack, MayCall
from swarm.services.ground.guarded import attempt
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import status_lines
from swarm.store.threads.status_lines import StatusLine
from swarm_base.processes.background import BackgroundTasks

AFTER_SECONDS: Final = 2.0
"""The time after which work counts as lasting."""

LOOK_SECONDS: Final = 1.0

LAST_SECONDS: Final = 2.0
"""The time for the last calls at the end of the process."""

AT_ONCE: Final = 20
"""The maximum number of calls of Slack at once."""


class StatusLines:
    """What Slack shows of the work in threads. One process tells it: the elected one."""

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
        lines = await self._database.read(self._look)
        due = [line for line in lines if line.id not in busy]
        for line in due[: AT_ONCE - len(self._busy)]:
            self._busy.add(line.id)
            self._calls.start(self._bring(line, may_call), "status line")

    @staticmethod
    def _look(tx: Transaction) -> list[StatusLine]:
        """Returns the lines to show, to renew and to clear; first those to clear, because they are wrong."""
        renewed_before = tx.now - int(STATUS_SECONDS * SECOND)
        lines = status_lines.of_all(tx, tx.now - int(AFTER_SECONDS * SECOND))
        gone = [line for line in lines if line.session not in (line.told, SessionState.PROCESSING)]
        wanted = [line for line in lines if line.agent_name is not None]
        return gone + [line for line in wanted if line.status_at is None or line.status_at <= renewed_before]

    async def look_once(self, may_call: MayCall) -> None:
        """Makes the calls that are due, within a limited time."""
        await attempt(self.look(may_call), "status_lines")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self.settled()
        await self._calls.end()

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
        await self._database.write(status_lines.mark_told, line)
        await self._slack.status(_place(line), wording.working(line.agent_name or ""))

    async def _clear(self, line: StatusLine) -> None:
        if await self._slack.status(_place(line), "", session=line.session):
            await self._database.write(status_lines.mark_told, line)


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
