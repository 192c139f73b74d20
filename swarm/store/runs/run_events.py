"""What polling agents tell of their answers: rows that any process writes, and that the elected one shows.

A turn with such rows is a polling agent's; it has them from its first moment on. Whoever adds one has locked the turn's
lease, so that the numbers have no gaps and nothing follows on the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import bindparam, insert, select

from swarm.domain.answers.pieces import Closed, Doing, Opened, Piece, PieceKind, SaidMore, TaskTold, kind_of
from swarm.domain.model.runs import RunStatus
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import turn_events, turns

AT_ONCE: Final = 500
"""So many pieces are read at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEvent:
    """A piece as it stands in its row."""

    seq: int  # 1 is that the answer was opened
    piece: Piece
    characters: int  # of all text up to here


_PIECES: Final[dict[PieceKind, TypeAdapter[Any]]] = {
    PieceKind.OPENED: TypeAdapter(Opened),
    PieceKind.SAID: TypeAdapter(SaidMore),
    PieceKind.TASK: TypeAdapter(TaskTold),
    PieceKind.DOING: TypeAdapter(Doing),
    PieceKind.CLOSED: TypeAdapter(Closed),
}

_e = turn_events.c
_ADD = Statement(
    insert(turn_events).values(
        turn_id=bindparam("turn_id"),
        seq=bindparam("seq"),
        kind=bindparam("kind"),
        payload=bindparam("payload"),
        characters=bindparam("characters"),
        created_at=bindparam("now"),
    )
)
_LAST = Statement(
    select(turn_events).where(_e.turn_id == bindparam("turn_id")).order_by(_e.seq.desc()).limit(AT_MOST_N)
)
_AFTER = Statement(
    select(turn_events)
    .where(_e.turn_id == bindparam("turn_id"), _e.seq > bindparam("after"))
    .order_by(_e.seq)
    .limit(AT_MOST_N)
)
# The first two conditions are those of the partial index of the turns that are not over.
_RUNNING = Statement(
    select(turns.c.id)
    .join(turn_events, (_e.turn_id == turns.c.id) & (_e.seq == 1))
    .where(turns.c.ended_at.is_(None), turns.c.status == literally(RunStatus.RUNNING))
    .order_by(turns.c.id)
)


def topic_of(turn_id: str) -> str:
    """What wakes whoever shows this answer. There are 256 topics: processes keep a number for each, for ever."""
    return f"turn-events:{turn_id[-2:]}"


def add(tx: Transaction, turn_id: str, piece: Piece) -> RunEvent:
    """Add a piece behind all others, and wake whoever shows them. The turn's lease must be locked."""
    before = last(tx, turn_id)
    more = len(piece.text) if isinstance(piece, SaidMore) else 0
    event = RunEvent(
        seq=before.seq + 1 if before else 1, piece=piece, characters=(before.characters if before else 0) + more
    )
    kind = kind_of(piece)
    _ADD.run(
        tx,
        turn_id=turn_id,
        seq=event.seq,
        kind=kind.value,
        payload=_PIECES[kind].dump_json(piece).decode(),
        characters=event.characters,
        now=tx.now,
    )
    tx.wake(topic_of(turn_id))
    return event


def last(tx: Transaction, turn_id: str) -> RunEvent | None:
    """The newest piece; None for a turn that is not a polling agent's."""
    row = _LAST.first(tx, turn_id=turn_id, n=1)
    return _event(row) if row else None


def after(tx: Transaction, turn_id: str, seq: int, limit: int = AT_ONCE) -> list[RunEvent]:
    """The pieces behind number ``seq``, in order."""
    return [_event(row) for row in _AFTER.all(tx, turn_id=turn_id, after=seq, n=limit)]


def running(tx: Transaction) -> list[str]:
    """The ids of the turns of polling agents that run, oldest first."""
    return [row["id"] for row in _RUNNING.all(tx)]


def _event(row: Row) -> RunEvent:
    kind = PieceKind(row["kind"])
    return RunEvent(seq=row["seq"], piece=_PIECES[kind].validate_json(row["payload"]), characters=row["characters"])
