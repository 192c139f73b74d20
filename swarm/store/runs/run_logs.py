"""The logs of runs: pieces as they were sent, each at the number of bytes before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Text, bindparam, func, or_, select, update

from swarm.domain.model.runs import MAX_LOG_CHUNK_BYTES
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, given, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables.runs import run_log_pieces, runs
from swarm.store.tables.work import tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPiece:
    """One row of `run_log_pieces`."""

    position: int  # bytes before this piece
    number: int  # 1 is the first
    size: int  # bytes as sent; the stored text may have another length
    text: str

    @property
    def end(self) -> int:
        """The position of the next piece."""
        return self.position + self.size


_p = run_log_pieces.c
_of_run = _p.run_id == bindparam("of_run")
_piece = row_mapper(LogPiece)
_ADD = Statement(lambda insert: insert(run_log_pieces).values(every_column(run_log_pieces)).on_conflict_do_nothing())
_LAST = Statement(select(run_log_pieces).where(_of_run).order_by(_p.position.desc()).limit(1))
_FROM = Statement(
    select(run_log_pieces)
    .where(_of_run, _p.position > bindparam("near"), _p.position + _p.size > bindparam("after"))
    .order_by(_p.position)
    .limit(AT_MOST_N)
)
_given_runs = given(run_id=Text)
_SIZES = Statement(
    select(_p.run_id, func.max(_p.position + _p.size).label("size"))
    .join(_given_runs, _given_runs.c.run_id == _p.run_id)
    .group_by(_p.run_id)
)
_message = bindparam("of_message", type_=Text)
_EMPTY = Statement(
    update(run_log_pieces)
    .where(
        _p.text != "",
        _p.run_id.in_(
            select(runs.c.id).where(
                runs.c.thread_id == bindparam("of_thread"),
                or_(
                    runs.c.inbox_message_ids.contains(_message),
                    runs.c.task_id.in_(select(tasks.c.id).where(tasks.c.inbox_message_id == _message)),
                ),
            )
        ),
    )
    .values(text="")
)
_FORGET = delete_oldest(run_log_pieces, _p.created_at, _p.created_at < bindparam("before"))


def topic_of(run_id: str) -> str:
    """Returns the topic of a log; there are 256, as for `run_events`."""
    return f"run-log:{run_id[-2:]}"


def add(tx: Transaction, run_id: str, piece: LogPiece) -> bool:
    """Appends a piece, and wakes those who follow the log. Returns False if a piece is there already."""
    values = {
        "run_id": run_id,
        "position": piece.position,
        "number": piece.number,
        "size": piece.size,
        "text": piece.text,
    }
    added = bool(_ADD.run(tx, **values, created_at=tx.now))
    if added:
        tx.wake(topic_of(run_id))
    return added


def last(tx: Transaction, run_id: str) -> LogPiece | None:
    """Returns the newest piece."""
    row = _LAST.first(tx, of_run=run_id)
    return _piece(row) if row else None


def after(tx: Transaction, run_id: str, position: int, limit: int) -> list[LogPiece]:
    """Returns the pieces from the one on that contains the byte at ``position``, in order."""
    near = position - MAX_LOG_CHUNK_BYTES  # so that what was read before is not looked at again
    return [_piece(row) for row in _FROM.all(tx, of_run=run_id, near=near, after=position, n=limit)]


def sizes(tx: Transaction, run_ids: list[str]) -> Mapping[str, int]:
    """Returns the number of bytes of each run's log; runs without a log are missing."""
    rows = _SIZES.all(tx, given=[{"run_id": run_id} for run_id in run_ids]) if run_ids else []
    return {row["run_id"]: row["size"] for row in rows}


def empty(tx: Transaction, thread_id: str, inbox_message_id: str) -> int:
    """Empties the logs of the runs that worked on a message, or on a task that it was delegated as. Their bytes still
    count, because their runners send more. Returns the number of pieces.
    """
    return _EMPTY.run(tx, of_thread=thread_id, of_message=inbox_message_id)


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` pieces from before ``before``, oldest first. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
