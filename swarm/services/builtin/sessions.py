"""The sessions of a built-in agent, stored in the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

import structlog

from swarm.domain.errors import Invalid, NotFound, SwarmError
from swarm.domain.model.agents import Reach
from swarm.domain.model.sessions import (
    COMPACTION_THRESHOLD,
    KEEP_RECENT_MESSAGES,
    MessageRole,
    Session,
    SessionMessage,
    Summarise,
    WaitingTurn,
    checked_name,
    kept,
    kept_text,
    message_of,
    messages_for_model,
    plain,
    recent_messages,
    to_summarise,
)
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import sessions, waiting_calls
from swarm.store.builtin.sessions import SessionContext
from swarm.store.runs import attempts

_log = structlog.get_logger(__name__)


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BuiltInOwner:
    """The built-in agent that has a name now. An agent that was removed and has come back is another agent."""

    name: str

    def id_in(self, tx: Transaction) -> str:
        """Returns the agent's id. Raises NotFound if it is not registered."""
        agent = agents.by_name(tx, self.name)
        if agent is None or agent.reach is not Reach.BUILTIN:
            raise NotFound(
                f"The built-in agent '{self.name}' is not registered, so it has no memory.",
                hint="It is registered at the next start, or with swarm reload.",
            )
        return agent.id


class DatabaseMemory:
    """The implementation of `swarm.domain.model.sessions.Memory` for one agent.

    The sessions belong to the agent's id. ``agent`` is this id, or finds it in each transaction. Above
    ``compaction_threshold`` messages, `compact_session` replaces all but the last ``keep_recent_messages`` with the
    summary that ``summarise`` returns; with None, nothing is ever summarised. Every method raises Invalid for an
    invalid session id, NotFound without the agent, and Unavailable without the database.
    """

    def __init__(
        self,
        database: Database,
        agent: str | BuiltInOwner,
        summarise: Summarise | None,
        *,
        compaction_threshold: int = COMPACTION_THRESHOLD,
        keep_recent_messages: int = KEEP_RECENT_MESSAGES,
    ) -> None:
        self._database = database
        self._owner = agent
        self._agent = agent if isinstance(agent, str) else agent.name  # for the log
        self._summarise = summarise
        self._threshold = compaction_threshold
        self._keep_recent = keep_recent_messages
        self._under_way: set[str] = set()  # the sessions that this process is summarising

    async def owner(self) -> str:
        """Returns the id of the agent to which the sessions belong now. Raises NotFound if there is no such agent."""
        return await self._database.read(self._id_in)

    async def get_or_create_session(self, session_id: str, metadata: Mapping[str, object] | None = None) -> Session:
        """Returns the session and marks it as just used. An existing session keeps its metadata, except for the given
        keys.
        """
        name = checked_name(session_id, "session")
        return await self._write(sessions.use, name, plain(metadata or {}))

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, run_id: str = ""
    ) -> list[SessionMessage]:
        """Returns the messages for the agent, oldest first: the summary, if any, and the later messages.

        ``limit`` restricts the result to the last messages, and more if a tool call and its result would be separated.
        Calls without results, results without calls, and messages without text are left out. Empty for an unknown
        session. With ``run_id``, nothing from other attempts at the same trigger is returned; if the summary includes
        such an attempt, the last original messages replace the summary.
        """
        if limit is not None and limit < 0:
            raise Invalid("A limit is 0 or more.", fields={"limit": "0 or more"})
        return recent_messages((await self._told(session_id, run_id)).messages, limit)

    async def shown_before(self, run_id: str) -> frozenset[str]:
        """Returns the Slack timestamps (``ts``) of messages shown by other attempts at the trigger of a run."""
        return await self._database.read(attempts.shown, run_id)

    async def get_originals(self, session_id: str) -> list[SessionMessage]:
        """Returns all messages ever added, oldest first, including all attempts and unpaired calls and results, without
        summaries.
        """
        return await self._read(sessions.originals, checked_name(session_id, "session"))

    async def add_message(
        self, session_id: str, role: MessageRole | str, content: str | Mapping[str, object]
    ) -> SessionMessage:
        """Adds one message and returns the stored message. A missing session is created.

        ``content`` is text, or a mapping for tools: ``{"id", "name", "arguments"}`` for a call, ``{"id", "name",
        "content", "failed"}`` for a result. Content over a megabyte is cut. Raises Invalid for an invalid role or
        content.
        """
        message = kept(message_of(role, content))
        return await self._write(sessions.add, checked_name(session_id, "session"), message)

    async def add_run(
        self,
        session_id: str,
        run: str,
        messages: Sequence[SessionMessage],
        *,
        run_id: str = "",
        has_answered: bool = True,
        continues: str = "",
        owner: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Adds all messages of a run, identified by its id, at once; messages already stored stay unchanged.

        Repeating the call after an unknown outcome is therefore harmless. A run that ``has_answered`` replaces all
        earlier attempts at the same trigger that are not in a summary; an interrupted run replaces none. A newer
        attempt may already be stored if this run comes from a process that is no longer elected. The messages are then
        kept with the session's originals but never returned, and a warning is logged. Content over a megabyte is cut.
        ``continues`` is the run whose waiting calls this run has settled. With an ``owner``, nothing is stored if the
        sessions belong to another agent by now.
        """
        name, of_run = checked_name(session_id, "session"), checked_name(run, "run")
        block, described = [kept(each) for each in messages], plain(metadata or {})
        is_told = await self._write(_add_run, owner, name, of_run, block, run_id, has_answered, continues, described)
        if not is_told:
            _log.warning(
                "an attempt was stored after a newer attempt and is ignored",
                action="session_late",
                agent=self._agent,
                session=session_id,
                run_id=run,
            )

    async def waiting_turn(
        self, session_id: str, conversation_id: str, call_ids: Collection[str] = ()
    ) -> WaitingTurn | None:
        """Returns the last run that asked people in this conversation to approve tool calls, if any."""
        name = checked_name(session_id, "session")
        return await self._read(waiting_calls.turn, name, conversation_id, call_ids)

    async def settle_calls(self, session_id: str, run: str, results: Sequence[SessionMessage]) -> frozenset[str]:
        """Adds results to waiting calls of a run. Returns the ids of the calls that still waited."""
        name, block = checked_name(session_id, "session"), [kept(each) for each in results]
        return await self._write(waiting_calls.settle, name, run, block)

    async def change_result(self, session_id: str, run: str, result: SessionMessage) -> None:
        """Stores the result of a tool that has run, in place of the result from `settle_calls`."""
        name = checked_name(session_id, "session")
        await self._write(waiting_calls.change_result, name, run, kept(result))

    async def compact_session(self, session_id: str) -> bool:
        """Summarises all but the last messages if there are more than the threshold. Returns whether a summary was
        stored.

        The model may take a long time without blocking other calls: new messages are kept after the summary. Of two
        concurrent calls, one has no effect. A failed summary leaves the session unchanged and is logged.
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
        done = await self._write(sessions.summarise, session_id, seen, older[-1].position, summary)
        outcome = "a session was summarised" if done else "a session was changed while it was being summarised"
        _log.info(outcome, action="session_compact", agent=self._agent, session=session_id, messages=len(older))
        return done

    async def _summary_of(self, session_id: str, older: Sequence[SessionMessage], summarise: Summarise) -> str:
        """Returns the summary, or an empty string on failure.

        The log names only the kind of an unexpected error, because its text may quote the conversation.
        """
        try:
            summary = kept_text(await summarise(session_id, messages_for_model(older))).strip()
            problem = "" if summary else "the model said nothing"
        except Exception as error:  # noqa: BLE001 - any failure leaves the session usable
            summary, problem = "", error.message if isinstance(error, SwarmError) else type(error).__name__
        if problem:
            _log.warning(
                "a session could not be summarised and is unchanged",
                action="session_compact",
                agent=self._agent,
                session=session_id,
                error=problem,
            )
        return summary

    async def _told(self, session_id: str, run_id: str = "") -> SessionContext:
        return await self._read(sessions.context, checked_name(session_id, "session"), run_id)

    def _id_in(self, tx: Transaction) -> str:
        return self._owner if isinstance(self._owner, str) else self._owner.id_in(tx)

    async def _read(self, work: Callable[Concatenate[Transaction, str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(self._as_agent, work, *args, **kwargs)

    async def _write(self, work: Callable[Concatenate[Transaction, str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.write(self._as_agent, work, *args, **kwargs)

    def _as_agent(
        self,
        tx: Transaction,
        work: Callable[Concatenate[Transaction, str, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return work(tx, self._id_in(tx), *args, **kwargs)


def _add_run(
    tx: Transaction,
    agent: str,
    owner: str,
    session_id: str,
    run: str,
    messages: Sequence[SessionMessage],
    run_id: str,
    has_answered: bool,
    continues: str,
    metadata: Mapping[str, object],
) -> bool:
    if owner and owner != agent:
        return True  # the agent was removed meanwhile: what it did is nothing for the agent that now has its name
    return sessions.add_run(tx, agent, session_id, run, messages, run_id, has_answered, continues, metadata)
