"""Finished runs of built-in agents and their model usage."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import compress, product
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, bindparam, cast, func, literal_column, select, tuple_

from swarm.clock import SECOND
from swarm.domain.model.language_models import ModelUsage, ModelUsageRecord, UsagePurpose, UsageTotal
from swarm.store import forgotten
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, literally, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables import runs
from swarm.store.tables.sessions import model_usage

DAY: Final = 24 * 3600 * SECOND
"""Microseconds in a day."""

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


def _totals(*conditions: ColumnElement[bool]) -> Statement:
    return Statement(
        select(
            _day.label("day"),
            _r.agent,
            _r.model,
            func.count().label("runs"),
            (func.count() - func.count(_r.cost_microdollars)).label("runs_of_unknown_cost"),
            *(_sum(_r[name]).label(name) for name in (*_COUNTS, "cost_microdollars")),
        )
        .where(_r.ended_at >= bindparam("since"), *conditions)
        .group_by(_day, _r.agent, _r.model)
        .order_by(_day.desc(), _r.agent, _r.model)
    )


_TOTALS = _totals()
_TOTALS_OF_PURPOSE = _totals(_of_purpose)


def _used(*conditions: ColumnElement[bool]) -> Statement:
    return Statement(
        select(*(_sum(_r[name]).label(name) for name in (*_COUNTS, "cost_microdollars"))).where(
            _r.ended_at >= bindparam("since"), _r.purpose == literally(UsagePurpose.ANSWER), *conditions
        )
    )


_of_thread = select(runs.c.id).where(runs.c.thread_id == bindparam("of_thread"))
_USED_IN_THREAD = _used(_r.run_id.in_(_of_thread))
_USED_IN_SESSION = _used(_r.session_id == bindparam("of_session"))
_THREAD = Statement(select(runs.c.thread_id).where(runs.c.id == bindparam("of_run")))
_FORGET = delete_oldest(model_usage, _r.ended_at, _r.ended_at < bindparam("before"))


def note(tx: Transaction, run: ModelUsageRecord) -> bool:
    """Stores a finished run. Returns False if the run is already stored; it is then left unchanged."""
    if run.requester and forgotten.was_forgotten_since(tx, run.requester, run.started_at):
        run = replace(run, requester="", session_id=f"slack:{forgotten.NOBODY}")
    values = asdict(run)
    return bool(_NOTE.run(tx, **values.pop("usage"), **values))


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


def totals(tx: Transaction, days: int, purpose: UsagePurpose | None) -> list[UsageTotal]:
    """Returns the usage of the last ``days`` days in UTC, including today, newest first, by agent and model.

    ``purpose`` filters the runs; None means any.
    """
    since = (tx.now // DAY - days + 1) * DAY
    if purpose is None:
        return [_total(row) for row in _TOTALS.all(tx, since=since)]
    return [_total(row) for row in _TOTALS_OF_PURPOSE.all(tx, since=since, of_purpose=purpose.value)]


def used_today(tx: Transaction, session_id: str, run_id: str) -> ModelUsage:
    """Returns the usage of all answers that ended today (UTC) in the thread of a run, or else in a session.

    The cost is that of the answers whose cost is known.
    """
    run = _THREAD.first(tx, of_run=run_id) if run_id else None
    since = tx.now // DAY * DAY
    if run and run["thread_id"]:
        row = _USED_IN_THREAD.first(tx, since=since, of_thread=run["thread_id"])
    else:
        row = _USED_IN_SESSION.first(tx, since=since, of_session=session_id)
    assert row is not None  # a sum always returns a row
    return ModelUsage(**{name: count or 0 for name, count in row.items()})


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` runs that ended before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def _date(row: Row) -> str:
    return datetime.fromtimestamp(row["day"] * DAY // SECOND, UTC).date().isoformat()


def _usage(row: Row) -> ModelUsage:
    return ModelUsage(**{name: row[name] for name in (*_COUNTS, "cost_microdollars")})


_run = row_mapper(ModelUsageRecord, usage=_usage)
_total = row_mapper(UsageTotal, day=_date, usage=_usage)
