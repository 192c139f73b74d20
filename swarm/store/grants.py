"""Grants, the permissions that people give in advance, and the audit of all decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Text, bindparam, insert, or_, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.grants import AuditKind, AuditLine, Grant, GrantCovers, GrantScope
from swarm.domain.model.requests import HumanRequest
from swarm.domain.tool_names import tool_key
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables import agents
from swarm.store.tables.requests import audit, grants

_MOST_GRANTS: Final = 1_000  # of one agent and tool that are compared with a request: everybody may have their own

_g, _l = grants.c, audit.c
_name = select(agents.c.name)
_all = select(grants, _name.where(agents.c.id == _g.agent_id).scalar_subquery().label("agent"))
_is_valid = _g.revoked_at.is_(None) & or_(_g.expires_at.is_(None), _g.expires_at > bindparam("now"))
_ADD = Statement(insert(grants).values(every_column(grants, revoked_at=None, uses=0, created_at=bindparam("now"))))
_FOR = Statement(
    _all.where(
        _g.agent_id == bindparam("agent_id"),
        # Before 0031, tools were stored as the asker spelt them.
        _g.tool.in_([bindparam("tool", type_=Text), bindparam("spelt", type_=Text)]),
        or_(_g.thread_id.is_(None), _g.thread_id == bindparam("thread_id", type_=Text)),
        _is_valid,
    )
    .order_by(_g.id)
    .limit(AT_MOST_N)
)
_USE = Statement(update(grants).where(_g.id == bindparam("grant_id"), _is_valid).values(uses=_g.uses + 1))
_REVOKE = Statement(
    update(grants).where(_g.id == bindparam("grant_id"), _g.revoked_at.is_(None)).values(revoked_at=bindparam("now"))
)
_GET = Statement(_all.where(_g.id == bindparam("id")))
_VALID = Statement(_all.where(_is_valid).order_by(_g.id.desc()).limit(AT_MOST_N))
_LINE = Statement(insert(audit).values(every_column(audit, "seq", at=bindparam("now"))))
_SINCE = Statement(
    select(audit, _name.where(agents.c.id == _l.agent_id).scalar_subquery().label("agent"))
    .where(_l.at >= bindparam("since"), _l.seq > bindparam("after"))
    .order_by(_l.seq)
    .limit(AT_MOST_N)
)
_FORGET = delete_oldest(audit, _l.at, _l.at < bindparam("before"))

_grant = row_mapper(Grant)
_line = row_mapper(AuditLine)


def give(
    tx: Transaction, request: HumanRequest, scope: GrantScope, seconds: float | None, given_by: str, *,
    covers: GrantCovers,
) -> Grant:  # fmt: skip
    """Stores a permission for the tool of an approved request."""
    assert request.tool is not None  # checked when the request was asked
    grant_id = new_id()
    _ADD.run(
        tx,
        id=grant_id,
        agent_id=request.agent_id,
        tool=tool_key(request.tool.name),
        scope=scope.value,
        covers=covers.value,
        thread_id=request.thread_id if scope is GrantScope.THREAD else None,
        request_id=request.id,
        given_by=given_by,
        expires_at=None if seconds is None else tx.now + int(seconds * SECOND),
        now=tx.now,
    )
    found = get(tx, grant_id)
    assert found is not None  # just stored
    return found


def get(tx: Transaction, grant_id: str) -> Grant | None:
    row = _GET.first(tx, id=grant_id)
    return _grant(row) if row else None


def use(
    tx: Transaction, agent_id: str, tool: str, thread_id: str | None, fits: Callable[[Grant], bool]
) -> Grant | None:
    """Returns a valid grant for a tool in a thread that fits, and counts its use; None if there is none."""
    names = {"tool": tool_key(tool), "spelt": tool}
    for row in _FOR.all(tx, agent_id=agent_id, **names, thread_id=thread_id, now=tx.now, n=_MOST_GRANTS):
        if fits(_grant(row)) and _USE.run(tx, grant_id=row["id"], now=tx.now):
            return _grant(row)
    return None


def revoke(tx: Transaction, grant_id: str) -> bool:
    """Ends a grant. Returns False if there is none, or if it was revoked before."""
    return bool(_REVOKE.run(tx, grant_id=grant_id, now=tx.now))


def valid(tx: Transaction, limit: int) -> list[Grant]:
    """Returns the valid grants, newest first."""
    return [_grant(row) for row in _VALID.all(tx, now=tx.now, n=limit)]


def note(
    tx: Transaction, kind: AuditKind, outcome: str, request: HumanRequest | None = None, *, person: str | None = None,
    grant: Grant | None = None, request_id: str | None = None,
) -> None:  # fmt: skip
    """Appends a line to the audit, about a request or a grant."""
    of = request or grant
    tool = request.tool.name if request and request.tool else grant.tool if grant else None
    _LINE.run(
        tx,
        kind=kind.value,
        outcome=outcome,
        request_id=request.id if request else grant.request_id if grant else request_id,
        person=person,
        agent_id=of.agent_id if of else None,
        tool=tool,
        digest=request.digest if request else None,
        now=tx.now,
    )


def lines(tx: Transaction, since: int, after: int, limit: int) -> list[AuditLine]:
    """Returns the lines since a time with numbers after ``after``, oldest first."""
    return [_line(row) for row in _SINCE.all(tx, since=since, after=after, n=limit)]


def forget_lines(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` lines written before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
