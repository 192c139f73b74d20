"""The sessions of a built-in agent, in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from swarm.domain.errors import Invalid, SwarmError
from swarm.domain.model.sessions import (
    COMPACTION_THRESHOLD,
    KEEP_RECENT_MESSAGES,
    MessageRole,
    Session,
    SessionMessage,
    Summarise,
    checked_name,
    kept,
    kept_text,
    message_of,
    messages_for_model,
    plain,
    recent_messages,
    to_summarise,
)
from swarm.store.bridge.database import Database
from swarm.store.builtin import sessions
from swarm.store.builtin.sessions import SessionContext
from swarm.store.runs import attempts

_log = structlog.get_logger(__name__)


class DatabaseMemory:
    """The `swarm.domain.model.sessions.Memory` of one agent, whose name it has.

    Over ``compaction_threshold`` messages, `compact_session` puts all but the last ``keep_recent_messages`` into the
    words that ``summarise`` finds for them; None: nothing is ever summarised. Every method raises Invalid for an id
    that no session can have, and Unavailable while the database is away.
    """

    def __init__(
        self,
        database: Database,
        agent: str,
        summarise: Summarise | None,
        *,
        compaction_threshold: int = COMPACTION_THRESHOLD,
        keep_recent_messages: int = KEEP_RECENT_MESSAGES,
    ) -> None:
        self._database = database
        self._agent = agent
        self._summarise = summarise
        self._threshold = compaction_threshold
        self._keep_recent = keep_recent_messages
        self._under_way: set[str] = set()  # the sessions that this process summarises

    async def get_or_create_session(self, session_id: str, metadata: Mapping[str, object] | None = None) -> Session:
        """The session, which counts as used now; one that is there keeps its metadata, but for the keys given."""
        name = checked_name(session_id, "session")
        return await self._database.write(sessions.use, self._agent, name, plain(metadata or {}))

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, turn_id: str = ""
    ) -> list[SessionMessage]:
        """What the agent is told, oldest first: the summary, if there is one, and what came after it.

        With ``limit`` the last so many, and beyond that what keeps a tool's use with its result. Whatever has lost its
        other half is left out, and so is what has no words. Empty for a session that is not there. With ``turn_id``
        nothing of other attempts at what this turn answers; if the summary knows of one, the last of the messages
        themselves in its place.
        """
        if limit is not None and limit < 0:
            raise Invalid("A limit is 0 or more.", fields={"limit": "0 or more"})
        return recent_messages((await self._told(session_id, turn_id)).messages, limit)

    async def shown_before(self, turn_id: str) -> frozenset[str]:
        """Where in Slack (``ts``) other attempts at what a turn answers were shown."""
        return await self._database.read(attempts.shown, turn_id)

    async def get_originals(self, session_id: str) -> list[SessionMessage]:
        """Everything that was ever said, oldest first, with all attempts and halves, and without summaries."""
        return await self._database.read(sessions.originals, self._agent, checked_name(session_id, "session"))

    async def add_message(
        self, session_id: str, role: MessageRole | str, content: str | Mapping[str, object]
    ) -> SessionMessage:
        """Add one message; it, as it is kept. The session is made if it is not there.

        ``content`` is text, or for tools a mapping: ``{"id", "name", "arguments"}`` of a use, ``{"id", "name",
        "content", "failed"}`` of a result. What is longer than a megabyte is cut. Raises Invalid for a role or content
        that cannot be.
        """
        message = kept(message_of(role, content))
        return await self._database.write(sessions.add, self._agent, checked_name(session_id, "session"), message)

    async def add_run(
        self,
        session_id: str,
        run: str,
        messages: Sequence[SessionMessage],
        *,
        turn_id: str = "",
        has_answered: bool = True,
    ) -> None:
        """Add all messages of a run, named by its id, at once; what is there of it already stays as it is.

        So to repeat it, when the outcome is not known, is harmless. A run that ``has_answered`` takes the place of all
        earlier attempts at what its turn answers, as far as they are not in a summary; one that broke off of none. If a
        newer attempt is there, because this one comes from a process that was deposed, its messages are kept among the
        originals and never told, which is logged. What is longer than a megabyte is cut.
        """
        name, of_run = checked_name(session_id, "session"), checked_name(run, "run")
        block = [kept(each) for each in messages]
        is_told = await self._database.write(sessions.add_run, self._agent, name, of_run, block, turn_id, has_answered)
        if not is_told:
            _log.warning(
                "an attempt came when a newer one was remembered, and is not told",
                action="session_late",
                agent=self._agent,
                session=session_id,
                run_id=run,
            )

    async def compact_session(self, session_id: str) -> bool:
        """Summarise all but the last messages, if there are more than the threshold; whether that was done.

        It may take as long as a model does, and holds up nobody: what is said meanwhile is kept after the summary. Two
        at once do no harm: one of them does nothing. A summary that fails leaves the session as it was, and is logged.
        """
        if self._summarise is None or session_id in self._under_way:
            return False
        self._under_way.add(session_id)
        try:
            return await self._compact(session_id, self._summarise)
        finally:
            self._under_way.discard(session_id)

    async def _compact(self, session_id: str, summarise: Summarise) -> bool:
        seen = await self._told(session_id)
        older = to_summarise(seen.messages, self._threshold, self._keep_recent)
        summary = await self._summary_of(session_id, older, summarise) if older else ""
        if not summary:
            return False
        done = await self._database.write(
            sessions.summarise, self._agent, session_id, seen, older[-1].position, summary
        )
        outcome = "a session was summarised" if done else "a session was changed while it was being summarised"
        _log.info(outcome, action="session_compact", agent=self._agent, session=session_id, messages=len(older))
        return done

    async def _summary_of(self, session_id: str, older: Sequence[SessionMessage], summarise: Summarise) -> str:
        """The summary, or nothing if it fails. What went wrong is named by its kind: it may quote what was said."""
        try:
            summary = kept_text(await summarise(session_id, messages_for_model(older))).strip()
            problem = "" if summary else "the model said nothing"
        except Exception as error:  # noqa: BLE001 - whatever it is, the session can go on as it is
            summary, problem = "", error.message if isinstance(error, SwarmError) else type(error).__name__
        if problem:
            _log.warning(
                "a session could not be summarised, and stays as it is",
                action="session_compact",
                agent=self._agent,
                session=session_id,
                error=problem,
            )
        return summary

    async def _told(self, session_id: str, turn_id: str = "") -> SessionContext:
        return await self._database.read(sessions.context, self._agent, checked_name(session_id, "session"), turn_id)
