"""Interrupts: a run's questions to people, and their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, bindparam, insert, select, update

from swarm.clock import new_id
from swarm.domain.answers.events import Asked
from swarm.domain.model.runs import INTERRUPT_TRANSITIONS, InterruptStatus, InterruptStep
from swarm.store.bridge.statements import Statement, arrive, every_column, may, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.runs import interrupts


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupt:
    """One row of `interrupts`."""

    id: str
    run_id: str
    asked: Asked  # with the agent's own id
    status: InterruptStatus
    created_at: int
    ended_at: int | None


_ASKED: Final = TypeAdapter(Asked)

_i = interrupts.c
_ADD = Statement(
    insert(interrupts).values(
        every_column(interrupts, status=InterruptStatus.OPEN.value, created_at=bindparam("now"), ended_at=None)
    )
)
_GET = Statement(select(interrupts).where(_i.id == bindparam("id")))
_OF_RUN = Statement(select(interrupts).where(_i.run_id == bindparam("run_id")).order_by(_i.id))


def _moves(column: ColumnElement[str]) -> dict[InterruptStep, Statement]:
    """Returns the updates for all steps, for rows selected by the column."""
    return {
        step: Statement(
            update(interrupts)
            .where(column == bindparam("of"), may(_i.status, transition))
            .values(**arrive(transition), ended_at=bindparam("now"))
        )
        for step, transition in INTERRUPT_TRANSITIONS.items()
    }


_MOVES = _moves(_i.id)
_MOVES_OF_RUN = _moves(_i.run_id)


def add(tx: Transaction, run_id: str, asked: Sequence[Asked]) -> list[Interrupt]:
    """Stores the questions of a run, in order."""
    ids = [new_id() for _ in asked]
    _ADD.many(
        tx,
        [
            {
                "id": interrupt_id,
                "run_id": run_id,
                "agent_interrupt_id": question.id,
                "prompt": question.prompt,
                "payload": _ASKED.dump_json(question).decode(),
                "now": tx.now,
            }
            for interrupt_id, question in zip(ids, asked, strict=True)
        ],
    )
    return [interrupt for interrupt in of_run(tx, run_id) if interrupt.id in ids]


def get(tx: Transaction, interrupt_id: str) -> Interrupt | None:
    row = _GET.first(tx, id=interrupt_id)
    return _interrupt(row) if row else None


def of_run(tx: Transaction, run_id: str) -> list[Interrupt]:
    """Returns all questions of a run, in order."""
    return [_interrupt(row) for row in _OF_RUN.all(tx, run_id=run_id)]


def end(tx: Transaction, interrupt_id: str, step: InterruptStep) -> bool:
    """Takes a step of the state machine. Returns False if the interrupt is not open."""
    return bool(_MOVES[step].run(tx, of=interrupt_id, now=tx.now))


def end_all(tx: Transaction, run_id: str, step: InterruptStep) -> int:
    """Takes the step for all open interrupts of a run. Returns the number of interrupts."""
    return _MOVES_OF_RUN[step].run(tx, of=run_id, now=tx.now)


_interrupt = row_mapper(Interrupt, asked=lambda row: _ASKED.validate_json(row["payload"]))
