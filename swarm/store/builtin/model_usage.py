"""The model usage of runs: finished runs of built-in agents, and what polling agents report of their runs.

A report is the total of a run so far. The row of the run is locked, so that reports of one run follow each other, and a
total that is lower than before changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import compress, product
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    update,
)

from swarm.clock import SECOND
from swarm.domain.model.budgets import BudgetScope, BudgetUnit
from swarm.domain.model.language_models import (
    Door,
    ModelUsage,
    ModelUsageRecord,
    UsageGrouping,
    UsageOutcome,
    UsagePurpose,
    UsageTotal,
)
from swarm.domain.policy.budgets import Budgets
from swarm.domain.watchers import ModelsUsed
from swarm.store import forgotten
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, literally, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from swarm.store.tables.sessions import budget_raises, model_usage

DAY: Final = 24 * 3600 * SECOND
"""Microseconds in a day."""

MOST_TOTALS: Final = 1_000
"""The maximum number of totals that are returned together, except for those of days."""

_COUNTS: Final = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "tool_calls",
)

_r = model_usage.c


_NOTE = Statement(lambda insert: insert(model_usage).on_conflict_do_nothing(index_elements=["id"]))
_PLACE = Statement(select(_r.ended_at, _r.id).where(_r.id == bindparam("usage_id")))
_OF_ID = Statement(select(model_usage).where(_r.id == bindparam("usage_id")))
_GROW = Statement(
    update(model_usage)
    .where(_r.id == bindparam("usage_id"))
    .values(
        ended_at=bindparam("now"),
        **{f"{name}": bindparam(f"new_{name}") for name in ("model", "note", *_COUNTS, "cost_microdollars")},
    )
)
_ACCEPT = Statement(update(model_usage).where(_r.id == bindparam("usage_id")).values(note=""))


_of_agent = _r.agent == bindparam("of_agent")
_of_purpose = _r.purpose == bindparam("of_purpose")
_older = tuple_(_r.ended_at, _r.id) < tuple_(bindparam("before_ended_at"), bindparam("before_id"))


def _newest(*conditions: ColumnElement[bool]) -> Statement:
    return Statement(select(model_usage).where(*conditions).order_by(_r.ended_at.desc(), _r.id.desc()).limit(AT_MOST_N))


# Keyed by the filters in use: agent, purpose, position.
_NEWEST = {
    filters: _newest(*compress((_of_agent, _of_purpose, _older), filters))
    for filters in product((False, True), repeat=3)
}


def _sum(of: ColumnElement[Any]) -> ColumnElement[int]:
    """Returns the sum of integers as an integer; PostgreSQL would return a decimal."""
    return cast(func.sum(of), BigInteger)


_day = _r.ended_at // literal_column(str(DAY), BigInteger)


_run_id = case((_r.run_id == "", _r.id), else_=_r.run_id)
_of_thread = _r.thread_id == bindparam("of_thread")
_GROUPS: Final[dict[UsageGrouping, dict[str, ColumnElement[Any]]]] = {
    UsageGrouping.DAY: {"day": _day, "agent": _r.agent, "model": _r.model},
    UsageGrouping.AGENT: {"agent": _r.agent},
    UsageGrouping.THREAD: {"thread_id": _r.thread_id},
    UsageGrouping.RUN: {"run_id": _run_id, "agent": _r.agent, "thread_id": _r.thread_id},
}
_IN_GROUPS: Final = ("day", "agent", "model", "thread_id", "run_id")


def _totals(by: UsageGrouping, *conditions: ColumnElement[bool]) -> Statement:
    groups = _GROUPS[by]
    order = (_day.desc(), _r.agent, _r.model) if by is UsageGrouping.DAY else (func.max(_r.ended_at).desc(),)
    known = [groups.get(name, null()).label(name) for name in _IN_GROUPS]
    statement = (
        select(
            *known,
            func.count().label("runs"),
            (func.count() - func.count(_r.cost_microdollars)).label("runs_of_unknown_cost"),
            *(_sum(_r[name]).label(name) for name in (*_COUNTS, "cost_microdollars")),
        )
        .where(_r.ended_at >= bindparam("since"), *conditions)
        .group_by(*groups.values())
        .order_by(*order)
    )
    return Statement(statement if by is UsageGrouping.DAY else statement.limit(AT_MOST_N))


# Keyed by the grouping, and by the filters in use: purpose, agent, thread.
_TOTALS = {
    (by, *filters): _totals(by, *compress((_of_purpose, _of_agent, _of_thread), filters))
    for by in UsageGrouping
    for filters in product((False, True), repeat=3)
}


_tokens, _cost = _r.input_tokens + _r.output_tokens, func.coalesce(_r.cost_microdollars, 0)


def _used(*conditions: ColumnElement[bool]) -> Statement:
    tokens, cost = _sum(_tokens), _sum(_r.cost_microdollars)
    return Statement(
        select(func.coalesce(tokens, 0).label("tokens"), func.coalesce(cost, 0).label("cost")).where(*conditions)
    )


def _approved(unit: BudgetUnit) -> ColumnElement[int]:
    """Returns the limit that people have approved for a run; 0: the operator's."""
    b = budget_raises.c
    is_it = (b.scope == literally(BudgetScope.RUN), b.unit == literally(unit), b.subject == _r.run_id)
    return func.coalesce(select(b.new_limit).where(*is_it).scalar_subquery(), 0)


def _larger(*conditions: ColumnElement[bool]) -> Statement:
    approved_tokens, approved_cost = _approved(BudgetUnit.TOKENS), _approved(BudgetUnit.DOLLARS)
    return Statement(
        select(
            _r.agent,
            _tokens.label("tokens"),
            _cost.label("cost"),
            approved_tokens.label("approved_tokens"),
            approved_cost.label("approved_cost"),
        ).where(
            _r.door == literally(Door.POLLING),
            or_(_tokens > bindparam("least_tokens"), _cost > bindparam("least_cost")),
            *conditions,
        )
    )


_today = _r.ended_at >= bindparam("since")
_OF_SCOPE: Final = {
    BudgetScope.RUN: (_r.run_id == bindparam("of"), _r.run_id != literal_column("''", Text)),
    BudgetScope.THREAD: (_r.thread_id == bindparam("of"),),
    BudgetScope.AGENT: (_r.agent == bindparam("of"), _today),
    BudgetScope.DAY: (_today,),
}
_USED = {scope: _used(*conditions) for scope, conditions in _OF_SCOPE.items()}
_LARGER = {scope: _larger(*conditions) for scope, conditions in _OF_SCOPE.items()}


def _used_by_answers(*conditions: ColumnElement[bool]) -> Statement:
    return Statement(
        select(*(_sum(_r[name]).label(name) for name in (*_COUNTS, "cost_microdollars"))).where(
            _today,
            _r.purpose == literally(UsagePurpose.ANSWER),
            _r.door != literally(Door.POLLING),
            *conditions,
        )
    )


_USED_IN_THREAD = _used_by_answers(_of_thread)
_USED_IN_SESSION = _used_by_answers(_r.session_id == bindparam("of_session"))
_FORGET = delete_oldest(model_usage, _r.ended_at, _r.ended_at < bindparam("before"))


def note(tx: Transaction, run: ModelUsageRecord) -> bool:
    """Stores a finished run. Returns False if the run is already stored; it is then left unchanged."""
    if run.requester and forgotten.was_forgotten_since(tx, run.requester, run.started_at):
        run = replace(run, requester="", session_id=f"slack:{forgotten.NOBODY}")
    found = runs.get(tx, run.run_id) if run.run_id and run.thread_id is None else None
    values = asdict(replace(run, thread_id=found.thread_id) if found else run)
    if not _NOTE.run(tx, **values.pop("usage"), **values):
        return False
    _tell(tx, run.agent, run.usage)
    return True


def report(tx: Transaction, run: Run, agent: str, total: ModelUsage, model: str, refusal: str = "") -> ModelUsage:
    """Stores what a polling agent has used in a run so far, where it is more than before. Returns what is stored.

    ``agent`` is the agent's name, ``model`` is empty if unknown. ``total`` without a cost leaves the known cost. A run
    without usage gets no row. With a ``refusal``, the run's budget counts as used up until people approve more. The
    run's row must be locked.
    """
    row = _OF_ID.first(tx, usage_id=run.id)
    before = _usage(row) if row else ModelUsage(cost_microdollars=None)
    now = _grown(before, total)
    if now == before and not refusal:
        return before
    if row is None:
        note(
            tx,
            ModelUsageRecord(
                id=run.id,
                agent=agent,
                door=Door.POLLING,
                session_id=run.conversation_id,
                run_id=run.id,
                requester=run.requester or "",
                model=model,
                outcome=UsageOutcome.REPORTED,
                note=refusal,
                usage=now,
                started_at=run.started_at,
                ended_at=tx.now,
                thread_id=run.thread_id,
            ),
        )
        return now
    values = {f"new_{name}": value for name, value in asdict(now).items()}
    values |= {"new_model": model or row["model"], "new_note": refusal or row["note"]}
    _GROW.run(tx, usage_id=run.id, now=tx.now, **values)
    _tell(tx, agent, now, before)
    return now


def accept(tx: Transaction, run_id: str) -> None:
    """Lets a run whose report was refused go on: people have approved more for it."""
    _ACCEPT.run(tx, usage_id=run_id)


def was_refused(tx: Transaction, run_id: str) -> bool:
    """Whether a polling agent's report of a run was refused, and people have not approved more since."""
    row = _OF_ID.first(tx, usage_id=run_id)
    return bool(row and row["door"] == Door.POLLING and row["note"])


def used(tx: Transaction, scope: BudgetScope, of: str) -> tuple[int, int]:
    """Returns the tokens and the millionths of a dollar that a run or a thread has used (``of``: its id), or an agent
    (its name) or all agents today."""
    row = _USED[scope].first(tx, **_subject(tx, scope, of))
    return (row["tokens"], row["cost"]) if row else (0, 0)


def counted(tx: Transaction, scope: BudgetScope, of: str, budgets: Budgets) -> dict[BudgetUnit, int]:
    """Returns what is `used`, of which the reports of one run count only up to the run's own limit (SEC-10)."""
    amounts = dict(zip(BudgetUnit, used(tx, scope, of), strict=True))
    if scope is BudgetScope.RUN:
        return amounts
    least = (budgets.least_counted(unit) for unit in BudgetUnit)
    params = dict(zip(("least_tokens", "least_cost"), least, strict=True))
    for row in _LARGER[scope].all(tx, **params, **_subject(tx, scope, of)):
        for unit, limit in budgets.counted(row["agent"]).items():
            name = "tokens" if unit is BudgetUnit.TOKENS else "cost"
            amounts[unit] -= max(0, row[name] - max(limit, row[f"approved_{name}"]))
    return amounts


def _subject(tx: Transaction, scope: BudgetScope, of: str) -> dict[str, object]:
    params: dict[str, object] = {} if scope is BudgetScope.DAY else {"of": of}
    return params | ({"since": tx.now // DAY * DAY} if scope.is_shared else {})


def _grown(before: ModelUsage, total: ModelUsage) -> ModelUsage:
    costs = [cost for cost in (before.cost_microdollars, total.cost_microdollars) if cost is not None]
    return replace(
        before,
        input_tokens=max(before.input_tokens, total.input_tokens),
        output_tokens=max(before.output_tokens, total.output_tokens),
        cost_microdollars=max(costs) if costs else None,
    )


def _tell(tx: Transaction, agent: str, now: ModelUsage, before: ModelUsage | None = None) -> None:
    before = before or ModelUsage()
    tx.note(
        ModelsUsed(
            agent=agent,
            input_tokens=now.input_tokens - before.input_tokens,
            output_tokens=now.output_tokens - before.output_tokens,
            cost_microdollars=(now.cost_microdollars or 0) - (before.cost_microdollars or 0),
        )
    )


def latest(
    tx: Transaction, agent: str | None, purpose: UsagePurpose | None, limit: int, before: str | None
) -> list[ModelUsageRecord] | None:
    """Returns runs, most recently ended first, that follow the run ``before``; None if that run is unknown.

    ``agent`` and ``purpose`` filter the runs; None means any.
    """
    params: dict[str, object] = {"n": limit}
    if agent is not None:
        params["of_agent"] = agent
    if purpose is not None:
        params["of_purpose"] = purpose.value
    if before is not None:
        place = _PLACE.first(tx, usage_id=before)
        if place is None:
            return None
        params |= {"before_ended_at": place["ended_at"], "before_id": place["id"]}
    filters = (agent is not None, purpose is not None, before is not None)
    return [_run(row) for row in _NEWEST[filters].all(tx, **params)]


def totals(
    tx: Transaction,
    days: int,
    purpose: UsagePurpose | None,
    by: UsageGrouping = UsageGrouping.DAY,
    agent: str | None = None,
    thread_id: str | None = None,
) -> list[UsageTotal]:
    """Returns the usage of the last ``days`` days in UTC, including today, newest first: by day, agent and model, or
    the newest `MOST_TOTALS` of another grouping.

    ``purpose``, ``agent`` (a name) and ``thread_id`` filter the runs; None means any.
    """
    given = {"of_purpose": purpose and purpose.value, "of_agent": agent, "of_thread": thread_id}
    params: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    statement = _TOTALS[by, purpose is not None, agent is not None, thread_id is not None]
    if by is not UsageGrouping.DAY:
        params["n"] = MOST_TOTALS
    return [_total(row) for row in statement.all(tx, since=(tx.now // DAY - days + 1) * DAY, **params)]


def used_today(tx: Transaction, session_id: str, run_id: str) -> ModelUsage:
    """Returns the usage of all answers of built-in agents that ended today (UTC) in a run's thread, or else a session.

    The cost is that of the answers whose cost is known.
    """
    run = runs.get(tx, run_id) if run_id else None
    since = tx.now // DAY * DAY
    if run and run.thread_id:
        row = _USED_IN_THREAD.first(tx, since=since, of_thread=run.thread_id)
    else:
        row = _USED_IN_SESSION.first(tx, since=since, of_session=session_id)
    assert row is not None  # a sum always returns a row
    return ModelUsage(**{name: count or 0 for name, count in row.items()})


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` runs that ended before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def day_of(moment: int) -> str:
    """Returns the day of a time in UTC, formatted as 2026-11-22."""
    return datetime.fromtimestamp(moment // SECOND, UTC).date().isoformat()


def _date(row: Row) -> str | None:
    return None if row["day"] is None else day_of(row["day"] * DAY)


def _usage(row: Row) -> ModelUsage:
    return ModelUsage(**{name: row[name] for name in (*_COUNTS, "cost_microdollars")})


_run = row_mapper(ModelUsageRecord, usage=_usage)
_total = row_mapper(UsageTotal, day=_date, usage=_usage)
