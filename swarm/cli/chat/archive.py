"""Messages and usage of sessions, read from the database in either mode of the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import reduce
from operator import add
from typing import Final

from swarm.cli.chat.arguments import PREFIX
from swarm.config import Settings
from swarm.domain.errors import Unavailable
from swarm.domain.model.models import ModelUsage, UsagePurpose
from swarm.domain.model.sessions import SessionMessage
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.admin import preparation
from swarm.store.bridge.database import Database
from swarm.store.builtin import sessions
from swarm.store.builtin.sessions import ListedSession

SHOWN_SESSIONS: Final = 20
_COUNTED_RUNS: Final = 1_000


class Archive:
    """The database, opened on first use, and closed with ``stack``.

    ``is_ours``: no coordinator prepares the database, so the archive does. Otherwise all methods raise Unavailable for
    a database of another version, or one out of reach.
    """

    def __init__(self, settings: Settings, stack: AsyncExitStack, *, is_ours: bool) -> None:
        self._settings = settings
        self._stack = stack
        self._is_ours = is_ours
        self._database: Database | None = None

    async def database(self) -> Database:
        """The database. Also raises ConfigurationError, for an invalid URL."""
        if self._database is None:
            await asyncio.to_thread(self._prepare)
            self._database = await self._stack.enter_async_context(Database(self._settings.database_url))
        return self._database

    async def latest(self, agent: str | None = None, limit: int = SHOWN_SESSIONS) -> list[ListedSession]:
        """The last used sessions of terminals, newest first, of one agent or of all."""
        return await (await self.database()).read(sessions.newest, PREFIX, agent, limit)

    async def named(self, session_id: str) -> list[ListedSession]:
        """The sessions with this id, newest first; each agent may have one."""
        return await (await self.database()).read(sessions.named, session_id, SHOWN_SESSIONS)

    async def said(self, agent: str, session_id: str) -> Sequence[SessionMessage]:
        """All messages of a session, oldest first; none for an unknown session."""
        return await DatabaseMemory(await self.database(), agent, None).get_originals(session_id)

    async def usage(self, agent: str, session_id: str) -> tuple[int, ModelUsage]:
        """The number of the session's answers, and the usage with its summaries. Very old ones are not counted."""
        latest = await ModelUsageLog(await self.database()).latest(agent, _COUNTED_RUNS)
        runs = [run for run in latest if run.session_id == session_id]
        answers = sum(run.purpose is UsagePurpose.ANSWER for run in runs)
        return answers, reduce(add, (run.usage for run in runs), ModelUsage())

    def _prepare(self) -> None:
        url = self._settings.database_url
        if self._is_ours:
            preparation.prepare(url)
        elif not preparation.is_current(url):
            raise Unavailable(
                "The coordinator's database cannot be read from here, so there are no earlier sessions to be seen.",
                hint="Use the settings of the coordinator (SWARM_HOME, SWARM_DATABASE_URL).",
            )
