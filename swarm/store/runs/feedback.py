"""Feedback on answers: the latest opinion of each person about each run."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Executable, bindparam, select

from swarm.clock import new_id
from swarm.domain.model.runs import Opinion
from swarm.store.bridge.statements import InsertFactory, Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.runs import feedback

_f = feedback.c


def _give(insert: InsertFactory) -> Executable:
    new = insert(feedback)
    said = new.excluded
    return new.on_conflict_do_update(
        index_elements=["run_id", "user_id"],
        set_={"value": said.value, "created_at": said.created_at},
        where=_f.value != said.value,
    )


_GIVE = Statement(_give)
_OF_RUN = Statement(select(_f.user_id, _f.value).where(_f.run_id == bindparam("run_id")).order_by(_f.user_id))


def give(tx: Transaction, run_id: str, user_id: str, opinion: Opinion) -> bool:
    """Stores a person's opinion of an answer, replacing an earlier one. Returns False if the opinion is unchanged."""
    return bool(_GIVE.run(tx, id=new_id(), run_id=run_id, user_id=user_id, value=opinion.value, created_at=tx.now))


def of_run(tx: Transaction, run_id: str) -> Mapping[str, Opinion]:
    """Returns the opinions on a run's answer by Slack user id."""
    return {row["user_id"]: Opinion(row["value"]) for row in _OF_RUN.all(tx, run_id=run_id)}
