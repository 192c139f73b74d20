"""Verifies authors whom Slack did not identify in time, and then routes their messages.

An author is also verified if lists of people decide, and Slack has not said in time whether the author is on them.

Who may act: the elected process. What is guaranteed: such a message stays in the database until its author is verified,
also across restarts, and is then routed once; no agent sees it earlier. What happens on failure: the verification is
retried every few seconds, and after a day the author counts as unverifiable, or as being on none of the lists.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.threads import Standing
from swarm.domain.policy.access import without
from swarm.services.ground.guarded import attempt, watch
from swarm.services.intake.ingest import Ingest
from swarm.services.speaking.participants import Standings
from swarm.store.bridge.database import Database
from swarm.store.threads import early
from swarm.store.threads.early import Parked

AT_ONCE: Final = 20
ASK_SECONDS: Final = 10.0
"""How long one attempt waits for Slack."""

RETRY_SECONDS: Final = 5.0
GIVE_UP_SECONDS: Final = 24 * 3600
_LOOK_EVERY_SECONDS: Final = 5.0


class Verifier:
    """The background task that repeats the verification."""

    def __init__(self, database: Database, ingest: Ingest, standings: Standings) -> None:
        self._database = database
        self._ingest = ingest
        self._standings = standings

    async def run(self) -> None:
        """Verifies authors until cancelled or shut down; errors do not end the task."""
        await watch(self._database.wakeups, early.UNVERIFIED, self.verify_due, "verify", seconds=_LOOK_EVERY_SECONDS)

    async def verify_due(self) -> None:
        """Asks Slack for the authors of due messages, and routes the messages of identified authors."""
        due = await self._database.read(early.parked, AT_ONCE)
        await asyncio.gather(*(attempt(self._verify(parked), "verify") for parked in due))

    async def _verify(self, parked: Parked) -> None:
        message, is_over = parked.message, parked.age_us >= GIVE_UP_SECONDS * SECOND
        author = await self._standings.settled(
            self._standings.known(message.author, message.channel), wait_seconds=ASK_SECONDS
        )
        if author.standing is None and is_over:
            author = replace(author, standing=Standing.UNVERIFIED)
        if author.standing is None:
            await self._ingest.postpone(message, RETRY_SECONDS)
            return
        missing = await self._ingest.resume(replace(message, author=author))
        if missing:
            author = await self._standings.settled(author, missing, ASK_SECONDS)
            missing = await self._ingest.resume(replace(message, author=author))
        if missing and is_over:
            missing = await self._ingest.resume(replace(message, author=without(author, missing)))
        if missing:
            await self._ingest.postpone(message, RETRY_SECONDS)
