"""Attempts at the same work: runs of one agent that answer the same messages or work on the same task.

A message is answered again after a crash, a restart, or a retry by a person. Messages that were answered together may
then be answered one by one, so two runs are attempts at the same work if they share any message. Only one run of a
message is unfinished at a time (`uq_runs_trigger`), so its runs are ordered by their start, by the database's clock.

An answer of which a person wants another one is no attempt: it stands, and the agent sees it when it answers again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Select, bindparam, select

from swarm.domain.model.runs import RunStatus
from swarm.store import deliveries
from swarm.store.bridge.statements import Row, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_pages
from swarm.store.tables import runs


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempts:
    """A run and the other attempts at its trigger, each as a row."""

    run: Row
    before: tuple[Row, ...] = ()
    after: tuple[Row, ...] = ()

    @property
    def others(self) -> tuple[Row, ...]:
        """All attempts except the run itself."""
        return (*self.before, *self.after)


_t = runs.c


def _runs(condition: ColumnElement[bool]) -> Select[Any]:
    return select(
        _t.id,
        _t.agent_id,
        _t.thread_id,
        _t.task_id,
        _t.agui_run_id,
        _t.inbox_message_ids,
        _t.started_at,
        ((_t.status == literally(RunStatus.ANSWERED)) & _t.retried_at.is_not(None)).label("stands"),
    ).where(condition)


_GET = Statement(_runs(_t.id == bindparam("run_id")))
_OF_THREAD = Statement(_runs((_t.thread_id == bindparam("of_thread")) & (_t.agent_id == bindparam("of_agent"))))
_OF_TASK = Statement(_runs((_t.task_id == bindparam("of_task")) & (_t.agent_id == bindparam("of_agent"))))


def beside(tx: Transaction, run_id: str) -> Attempts | None:
    """Returns a run and the other attempts at its trigger; None for an unknown run."""
    run = _GET.first(tx, run_id=run_id) if run_id else None
    if run is None:
        return None
    near = (other for other in _near(tx, run) if other["id"] != run_id and not other["stands"])
    others = [other for other in near if _is_about_the_same(other, run)]
    return Attempts(
        run=run,
        before=tuple(other for other in others if _moment(other) < _moment(run)),
        after=tuple(other for other in others if _moment(other) > _moment(run)),
    )


def shown(tx: Transaction, run_id: str) -> frozenset[str]:
    """Returns the Slack timestamps of the other attempts' messages, both streamed answers and posts."""
    found = beside(tx, run_id)
    if found is None or not found.others:
        return frozenset()
    pages = {page.ts for other in found.others for page in run_pages.of_run(tx, other["id"])}
    posts = {post["sent_ts"] for post in _posts(tx, found.run) if post["agent_id"] == found.run["agent_id"]}
    return frozenset(ts for ts in pages | posts if ts)


def _near(tx: Transaction, run: Row) -> list[Row]:
    if run["task_id"]:
        return _OF_TASK.all(tx, of_task=run["task_id"], of_agent=run["agent_id"])
    return _OF_THREAD.all(tx, of_thread=run["thread_id"], of_agent=run["agent_id"])


def _is_about_the_same(one: Row, other: Row) -> bool:
    if one["task_id"] or other["task_id"]:
        return bool(one["task_id"] == other["task_id"])
    return not _inbox_messages(one).isdisjoint(_inbox_messages(other))


def _inbox_messages(run: Row) -> frozenset[str]:
    return frozenset(from_json(run["inbox_message_ids"]))


def _moment(run: Row) -> tuple[int, str]:
    return run["started_at"], run["id"]


def _posts(tx: Transaction, run: Row) -> Iterable[Row]:
    """Returns all deliveries that answer the trigger of a run, from any attempt."""
    if run["task_id"]:
        return deliveries.of_task(tx, run["task_id"])
    return [
        post for inbox_message_id in _inbox_messages(run) for post in deliveries.of_inbox_message(tx, inbox_message_id)
    ]
