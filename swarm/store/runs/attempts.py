"""Attempts at the same work: the turns of one agent that answer the same messages, or work on the same task.

A message is answered again after a crash, after a restart, and when somebody wants it retried. Messages that were
answered together may be answered one by one then, so two turns are attempts at the same if they share any of them.
Of a message only one turn is in hand at a time (`uq_turns_trigger`), so its turns have an order: that in which they
began, by the database's clock.
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
    """A turn, and the other attempts at what it answers, each as the row of its turn."""

    turn: Row
    before: tuple[Row, ...] = ()
    after: tuple[Row, ...] = ()

    @property
    def others(self) -> tuple[Row, ...]:
        """All but the turn itself."""
        return (*self.before, *self.after)


_t = turns.c


def _turns(condition: ColumnElement[bool]) -> Select[Any]:
    return select(_t.id, _t.agent_id, _t.thread_id, _t.task_id, _t.run_id, _t.entry_ids, _t.started_at).where(condition)


_GET = Statement(_turns(_t.id == bindparam("turn_id")))
_OF_THREAD = Statement(_turns((_t.thread_id == bindparam("of_thread")) & (_t.agent_id == bindparam("of_agent"))))
_OF_TASK = Statement(_turns((_t.task_id == bindparam("of_task")) & (_t.agent_id == bindparam("of_agent"))))


def beside(tx: Transaction, turn_id: str) -> Attempts | None:
    """The other attempts at what a turn answers; None for a turn that is not known."""
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
    """Where in Slack the other attempts at what a turn answers were shown: timestamps of live and of other messages."""
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
    """What was queued for the thread in answer to what a turn is about, by whichever attempt."""
    if turn["task_id"]:
        return deliveries.of_task(tx, turn["task_id"])
    return [post for entry_id in _entries(turn) for post in deliveries.of_entry(tx, entry_id)]
