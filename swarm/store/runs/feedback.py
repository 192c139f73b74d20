"""Feedback on answers: the latest opinion of each person about each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Executable, Text, bindparam, func, or_, select

from swarm.clock import new_id
from swarm.domain.model.feedback import FeedbackCount, FeedbackView, Opinion, Reason
from swarm.store.bridge.statements import AT_MOST_N, InsertFactory, Statement, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables import agents, feedback, threads

_f = feedback.c
_OPINION = ("value", "reason", "comment", "message_ts", "created_at")
"""The columns that a new opinion replaces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RatedAnswer:
    """An answer that people can rate."""

    id: str  # the run, or the last post of an answer without a run
    run_id: str | None
    trace_id: str | None
    conversation_id: str
    agent_id: str
    thread_id: str
    channel: str
    inbox_message_ids: tuple[str, ...]  # the inbox messages that it answers; empty for a task


def _give(insert: InsertFactory) -> Executable:
    new = insert(feedback)
    return new.on_conflict_do_update(
        index_elements=["answer_id", "user_id"],
        set_={name: new.excluded[name] for name in _OPINION},
        where=or_(
            _f.value != new.excluded.value,
            func.coalesce(_f.reason, "") != func.coalesce(new.excluded.reason, ""),
            func.coalesce(_f.comment, "") != func.coalesce(new.excluded.comment, ""),
        ),
    )


_GIVE = Statement(_give)
_view = (
    select(feedback, agents.c.name.label("agent"), threads.c.team, threads.c.thread_ts)
    .join(agents, agents.c.id == _f.agent_id)
    .join(threads, threads.c.id == _f.thread_id)
)
_OF_PERSON = Statement(_view.where(_f.answer_id == bindparam("answer_id"), _f.user_id == bindparam("user_id")))
_OF_ANSWER = Statement(_view.where(_f.answer_id == bindparam("answer_id")).order_by(_f.user_id))
_since = _f.created_at >= bindparam("since", type_=BigInteger)
_of_agent = or_(bindparam("agent", type_=Text).is_(None), agents.c.name == bindparam("agent", type_=Text))
_LATEST = Statement(_view.where(_since, _of_agent).order_by(_f.created_at.desc(), _f.id.desc()).limit(AT_MOST_N))
_COUNTS = Statement(
    select(agents.c.name.label("agent"), _f.value, _f.reason, func.count().label("count"))
    .join(agents, agents.c.id == _f.agent_id)
    .where(_since, _of_agent)
    .group_by(agents.c.name, _f.value, _f.reason)
    .order_by(agents.c.name, _f.value, _f.reason)
)
_FORGET = delete_oldest(feedback, _f.created_at, _f.created_at < bindparam("before"))
feedback_view = row_mapper(FeedbackView)
_count = row_mapper(FeedbackCount)


def give(
    tx: Transaction,
    answer: RatedAnswer,
    user_id: str,
    opinion: Opinion,
    *,
    message_ts: str,
    reason: Reason | None = None,
    comment: str | None = None,
) -> FeedbackView | None:
    """Stores a person's opinion of an answer, replacing an earlier one with its reason. Returns None if the opinion is
    unchanged.
    """
    given = _GIVE.run(
        tx,
        id=new_id(),
        answer_id=answer.id,
        run_id=answer.run_id,
        trace_id=answer.trace_id,
        conversation_id=answer.conversation_id,
        agent_id=answer.agent_id,
        thread_id=answer.thread_id,
        channel=answer.channel,
        message_ts=message_ts,
        user_id=user_id,
        value=opinion.value,
        reason=reason and reason.value,
        comment=comment,
        created_at=tx.now,
    )
    return of_person(tx, answer.id, user_id) if given else None


def of_person(tx: Transaction, answer_id: str, user_id: str) -> FeedbackView | None:
    """Returns a person's opinion of an answer."""
    row = _OF_PERSON.first(tx, answer_id=answer_id, user_id=user_id)
    return feedback_view(row) if row else None


def of_answer(tx: Transaction, answer_id: str) -> list[FeedbackView]:
    """Returns the opinions of an answer by Slack user id."""
    return [feedback_view(row) for row in _OF_ANSWER.all(tx, answer_id=answer_id)]


def latest(tx: Transaction, since: int, agent: str | None, limit: int) -> Sequence[FeedbackView]:
    """Returns the newest opinions given since then, optionally of one agent's answers (by name)."""
    return [feedback_view(row) for row in _LATEST.all(tx, since=since, agent=agent, n=limit)]


def counts(tx: Transaction, since: int, agent: str | None) -> Sequence[FeedbackCount]:
    """Returns the numbers of opinions given since then, by agent, value and reason."""
    return [_count(row) for row in _COUNTS.all(tx, since=since, agent=agent)]


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` opinions given before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
