"""Lists of the sessions of built-in agents, by the agents' names. Sessions of removed agents are not listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json
from sqlalchemy import ColumnElement, bindparam, select

from swarm.domain.model.sessions import MessageRole
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, sessions
from swarm.store.tables.sessions import session_messages


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedSession:
    """A session in a list, with its first question."""

    id: str
    agent: str  # the name
    question: str  # the first message to the agent
    updated_at: int  # microseconds since 1970 UTC


_s, _m = sessions.c, session_messages.c

_first_question = (
    select(_m.content)
    .where(_m.agent == _s.agent, _m.session_id == _s.id, _m.role == literally(MessageRole.USER))
    .order_by(_m.position)
    .limit(1)
    .correlate(sessions)
    .scalar_subquery()
)


def _newest(*conditions: ColumnElement[bool]) -> Statement:
    return Statement(
        select(agents.c.name.label("agent"), _s.id, _s.updated_at, _first_question.label("question"))
        .join(agents, agents.c.id == _s.agent)
        .where(agents.c.revoked_at.is_(None), *conditions)
        .order_by(_s.updated_at.desc(), _s.id.desc())
        .limit(AT_MOST_N)
    )


_begins = _s.id.like(bindparam("pattern"))
_NEWEST = _newest(_begins)
_NEWEST_OF_AGENT = _newest(_begins, agents.c.name == bindparam("of_agent"))
_NAMED = _newest(_s.id == bindparam("of_session"))


def newest(tx: Transaction, prefix: str, agent: str | None, limit: int) -> list[ListedSession]:
    """Returns the most recently used sessions, newest first, whose ids have this prefix, of one agent or of all agents.

    ``prefix`` must not contain wildcards of LIKE.
    """
    pattern = f"{prefix}%"
    if agent is None:
        return [_listed(row) for row in _NEWEST.all(tx, pattern=pattern, n=limit)]
    return [_listed(row) for row in _NEWEST_OF_AGENT.all(tx, pattern=pattern, of_agent=agent, n=limit)]


def named(tx: Transaction, session_id: str, limit: int) -> list[ListedSession]:
    """Returns the sessions with this id, newest first. Each agent can have one."""
    return [_listed(row) for row in _NAMED.all(tx, of_session=session_id, n=limit)]


def _listed(row: Row) -> ListedSession:
    content = cast(dict[str, Any], from_json(row["question"] or "{}"))
    return ListedSession(
        id=row["id"], agent=row["agent"], question=content.get("text", ""), updated_at=row["updated_at"]
    )
