"""The streamed answers of polling agents: rows written by any process and shown by the elected one.

Only runs of polling agents have such rows, from their start. A writer has locked the run's lease, so the numbers have
no gaps and no row follows the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import bindparam, insert, select

from swarm.domain.answers.events import Closed, Doing, Opened, Piece, PieceKind, PlanStep, TextAdded, kind_of
from swarm.domain.model.runs import RunStatus
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import runs
from swarm.store.tables.runs import run_events

AT_ONCE: Final = 500
"""The maximum number of pieces read at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEvent:
    """One row of `run_events`."""

    seq: int  # 1 is the start of the answer
    piece: Piece
    characters: int  # of all text so far


_PIECES: Final[dict[PieceKind, TypeAdapter[Any]]] = {
    PieceKind.OPENED: TypeAdapter(Opened),
    PieceKind.SAID: TypeAdapter(TextAdded),
    PieceKind.TASK: TypeAdapter(PlanStep),
    PieceKind.DOING: TypeAdapter(Doing),
    PieceKind.CLOSED: TypeAdapter(Closed),
}

_e = run_events.c
_ADD = Statement(insert(run_events))
_LAST = Statement(select(run_events).where(_e.run_id == bindparam("run_id")).order_by(_e.seq.desc()).limit(AT_MOST_N))
_AFTER = Statement(
    select(run_events)
    .where(_e.run_id == bindparam("run_id"), _e.seq > bindparam("after"))
    .order_by(_e.seq)
    .limit(AT_MOST_N)
)
# The first two conditions match the partial index of unfinished runs.
_RUNNING = Statement(
    select(runs.c.id)
    .join(run_events, (_e.run_id == runs.c.id) & (_e.seq == 1))
    .where(runs.c.ended_at.is_(None), runs.c.status == literally(RunStatus.RUNNING))
    .order_by(runs.c.id)
)


def topic_of(run_id: str) -> str:
    """Returns the topic of an answer. There are only 256 topics, because a process keeps a counter for each topic
    forever.
    """
    return f"run-events:{run_id[-2:]}"


def add(tx: Transaction, run_id: str, piece: Piece) -> RunEvent:
    """Appends a piece and wakes the process that shows the answer. The run's lease must be locked."""
    before = last(tx, run_id)
    more = len(piece.text) if isinstance(piece, TextAdded) else 0
    event = RunEvent(
        seq=before.seq + 1 if before else 1, piece=piece, characters=(before.characters if before else 0) + more
    )
    kind = kind_of(piece)
    _ADD.run(
        tx,
        run_id=run_id,
        seq=event.seq,
        kind=kind.value,
        payload=_PIECES[kind].dump_json(piece).decode(),
        characters=event.characters,
        created_at=tx.now,
    )
    tx.wake(topic_of(run_id))
    return event


def last(tx: Transaction, run_id: str) -> RunEvent | None:
    """Returns the newest piece; None if the run's agent does not poll."""
    row = _LAST.first(tx, run_id=run_id, n=1)
    return _event(row) if row else None


def after(tx: Transaction, run_id: str, seq: int, limit: int = AT_ONCE) -> list[RunEvent]:
    """Returns the pieces after number ``seq``, in order."""
    return [_event(row) for row in _AFTER.all(tx, run_id=run_id, after=seq, n=limit)]


def running(tx: Transaction) -> list[str]:
    """Returns the ids of running runs of polling agents, oldest first."""
    return [row["id"] for row in _RUNNING.all(tx)]


def _event(row: Row) -> RunEvent:
    kind = PieceKind(row["kind"])
    return RunEvent(seq=row["seq"], piece=_PIECES[kind].validate_json(row["payload"]), characters=row["characters"])
