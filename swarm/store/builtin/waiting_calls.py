"""Tool calls of built-in agents that wait for people's approval, as messages of their sessions.

A waiting call is a stored tool call without a result. Who settles it locks the session first, so one of several
processes settles a call, and only that process runs the tool: it stores a note that the tool has begun, runs the tool,
and stores the result in place of the note. After a crash in between, the note stays, and tells the model that the tool
may have run. The messages are erased with the message that people deleted, like all work for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import bindparam, select, update

from swarm.domain.model.sessions import MessageRole, SessionMessage, WaitingTurn, open_calls
from swarm.store.bridge.statements import AT_MOST_N, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import sessions
from swarm.store.tables.sessions import session_messages

_NEWEST: Final = 100
"""The number of the newest calls that are looked at."""

_m = session_messages.c
_of_session = (_m.agent == bindparam("of_agent")) & (_m.session_id == bindparam("of_session"))
_MARKED: Final = Statement(
    select(session_messages)
    .where(
        _of_session,
        _m.role == literally(MessageRole.TOOL_USE),
        _m.replaced_at.is_(None),
        _m.content.like('%"waits_in":%'),
    )
    .order_by(_m.position.desc())
    .limit(AT_MOST_N)
)
_CHANGE: Final = Statement(
    update(session_messages).where(_of_session, _m.position == bindparam("at")).values(content=bindparam("new_content"))
)


def turn(
    tx: Transaction, agent: str, session_id: str, conversation_id: str, call_ids: Collection[str] = ()
) -> WaitingTurn | None:
    """Returns the last run that asked people in a conversation; see `swarm.domain.model.sessions.Memory`."""
    for row in _MARKED.all(tx, **sessions.key_of(agent, session_id), n=_NEWEST):
        call = sessions.message_of(row)
        if call.waits_in == conversation_id and row["agui_run_id"] and (not call_ids or call.call_id in call_ids):
            rows = sessions.rows_of_run(tx, agent, session_id, row["agui_run_id"])
            return WaitingTurn(run=row["agui_run_id"], messages=[sessions.message_of(each) for each in rows])
    return None


def settle(tx: Transaction, agent: str, session_id: str, run: str, results: Sequence[SessionMessage]) -> frozenset[str]:
    """Adds results to a run's waiting calls. Returns the ids of the calls that were settled now."""
    sessions.lock(tx, agent, session_id)
    rows = sessions.rows_of_run(tx, agent, session_id, run)
    waiting = {call.call_id for call in open_calls([sessions.message_of(row) for row in rows])}
    new = [result for result in results if result.call_id in waiting]
    if new:
        sessions.move_to_end(tx, agent, session_id, run, new)
    return frozenset(result.call_id for result in new)


def change_result(tx: Transaction, agent: str, session_id: str, run: str, result: SessionMessage) -> bool:
    """Replaces the result of a run's settled call. Returns whether there was one; erased messages have none."""
    sessions.lock(tx, agent, session_id)
    for row in reversed(sessions.rows_of_run(tx, agent, session_id, run)):
        stored = sessions.message_of(row)
        if stored.role is MessageRole.TOOL_RESULT and stored.call_id == result.call_id:
            at = sessions.key_of(agent, session_id) | {"at": row["position"]}
            _CHANGE.run(tx, **at, new_content=sessions.content_of(result))
            return True
    return False
