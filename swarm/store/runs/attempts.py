"""Attempts at the same work: runs of one agent that answer the same messages, or work on the same task.

A message is answered again after a crash, a restart, or a retry by a person. Messages that were answered together may
then be answered one by one, so two runs are attempts at the same work if they share any message. Only one run of a
message is unfinished at a time (`uq_turns_trigger`), so its runs are ordered by their start, by the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Select, bindparam, select

from swarm.store import deliveries
from swarm.store.bridge.statements import Row, Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_pages
from swarm.store.tables import turns


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempts:
    """A run and the other attempts at its trigger, each as a row."""

    turn: Row
    before: tuple[Row, ...] = ()
    after: tuple[Row, ...] = ()

    @property
    def others(self) -> tuple[Row, ...]:
        """All attempts but the run itself."""
        return (*self.before, *self.after)


_t = turns.c


def _turns(condition: ColumnElement[bool]) -> Select[Any]:
    return select(_t.id, _t.agent_id, _t.thread_id, _t.task_id, _t.run_id, _t.entry_ids, _t.started_at).where(condition)


_GET = Statement(_turns(_t.id == bindparam("turn_id")))
_OF_THREAD = Statement(_turns((_t.thread_id == bindparam("of_thread")) & (_t.agent_id == bindparam("of_agent"))))
_OF_TASK = Statement(_turns((_t.task_id == bindparam("of_task")) & (_t.agent_id == bindparam("of_agent"))))


def beside(tx: Transaction, turn_id: str) -> Attempts | None:
    """Returns the other attempts at the trigger of a run; None for an unknown run."""
    turn = _GET.first(tx, turn_id=turn_id) if turn_id else None
    if turn is None:
        return None
    others = [other for other in _near(tx, turn) if other["id"] != turn_id and _is_about_the_same(other, turn)]
    return Attempts(
        turn=turn,
        before=tuple(other for other in others if _moment(other) < _moment(turn)),
        after=tuple(other for other in others if _moment(other) > _moment(turn)),
    )


def shown(tx: Transaction, turn_id: str) -> frozenset[str]:
    """Returns the Slack timestamps of the messages of the other attempts, live ones and posts."""
    found = beside(tx, turn_id)
    if found is None or not found.others:
        return frozenset()
    pages = {page.ts for other in found.others for page in run_pages.of_turn(tx, other["id"])}
    posts = {post["sent_ts"] for post in _posts(tx, found.turn) if post["agent_id"] == found.turn["agent_id"]}
    return frozenset(ts for ts in pages | posts if ts)


def _near(tx: Transaction, turn: Row) -> list[Row]:
    if turn["task_id"]:
        return _OF_TASK.all(tx, of_task=turn["task_id"], of_agent=turn["agent_id"])
    return _OF_THREAD.all(tx, of_thread=turn["thread_id"], of_agent=turn["agent_id"])


def _is_about_the_same(one: Row, other: Row) -> bool:
    if one["task_id"] or other["task_id"]:
        return bool(one["task_id"] == other["task_id"])
    return not _entries(one).isdisjoint(_entries(other))


def _entries(turn: Row) -> frozenset[str]:
    return frozenset(from_json(turn["entry_ids"]))


def _moment(turn: Row) -> tuple[int, str]:
    return turn["started_at"], turn["id"]


def _posts(tx: Transaction, turn: Row) -> Iterable[Row]:
    """All deliveries in answer to the trigger of a run, from any attempt."""
    if turn["task_id"]:
        return deliveries.of_task(tx, turn["task_id"])
    return [post for entry_id in _entries(turn) for post in deliveries.of_entry(tx, entry_id)]
