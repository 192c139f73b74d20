"""The Slack messages that contain a run's answer: one, or several if the answer is long."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_core import from_json
from sqlalchemy import bindparam, select, update

from swarm.clock import slack_ts_to_us
from swarm.domain.model.runs import PAGE_TRANSITIONS, PageKind, PagePhase, PageStep
from swarm.store.bridge.statements import Statement, literally, may, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import runs, threads
from swarm.store.tables.runs import run_messages
from swarm.store.tables.work import inbox_messages


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """One row of `run_messages`."""

    run_id: str
    page: int
    kind: PageKind
    ts: str | None  # None if unknown; the message may exist
    phase: PagePhase
    began_at: int  # microseconds by the database's clock
    text: str | None  # the complete text, known once the message is being closed


_run_page = row_mapper(RunPage)

_m = run_messages.c
_page = (_m.run_id == bindparam("of_run")) & (_m.page == bindparam("of_page"))
_BEGIN = Statement(
    lambda insert: (
        insert(run_messages)
        .values(
            run_id=bindparam("run_id"),
            page=bindparam("page"),
            kind=bindparam("kind"),
            ts=None,
            phase=PagePhase.OPENING.value,
            began_at=bindparam("now"),
            text=None,
        )
        .on_conflict_do_nothing()
    )
)
_TEXT = Statement(
    update(run_messages).where(_page, _m.phase != PagePhase.CLOSED.value).values(text=bindparam("new_text"))
)
_OF_RUN = Statement(select(run_messages).where(_m.run_id == bindparam("run_id")).order_by(_m.page))

_KNOWN_IN_THREAD = Statement(
    select(_m.ts)
    .join(runs, runs.c.id == _m.run_id)
    .where(runs.c.thread_id == bindparam("thread_id"), _m.ts.is_not(None))
)
# The first condition matches the partial index of messages that are not closed.
_to_seal = _m.phase != literally(PagePhase.CLOSED)
_UNSEALED = Statement(
    select(runs.c.id)
    .join(run_messages, _m.run_id == runs.c.id)
    .where(_to_seal, runs.c.ended_at.is_not(None))
    .group_by(runs.c.id)
    .order_by(runs.c.id)
)
_UNSEALED_IN_THREAD = Statement(
    select(_m.run_id)
    .join(runs, runs.c.id == _m.run_id)
    .where(
        _to_seal,
        runs.c.ended_at.is_not(None),
        runs.c.thread_id == bindparam("thread_id"),
        runs.c.agent_id == bindparam("agent_id"),
    )
)

_PAGES_BEFORE = Statement(
    select(_m.ts).where(_m.run_id == bindparam("run_id"), _m.page < bindparam("page"), _m.ts.is_not(None))
)
_ANSWERED = Statement(
    select(runs.c.inbox_message_ids, threads.c.thread_ts)
    .outerjoin(threads, threads.c.id == runs.c.thread_id)
    .where(runs.c.id == bindparam("run_id"))
)
_SAID_AT = Statement(select(inbox_messages.c.ts).where(inbox_messages.c.id == bindparam("inbox_message_id")))


def _move(step: PageStep) -> Statement:
    transition = PAGE_TRANSITIONS[step]
    ts: dict[str, object] = {} if step is PageStep.CLOSE else {"ts": bindparam("new_ts")}
    return Statement(
        update(run_messages).where(_page, may(_m.phase, transition)).values(phase=transition.target.value, **ts)
    )


_MOVES = {step: _move(step) for step in PageStep}


def open_page(tx: Transaction, run_id: str, page: int, kind: PageKind) -> bool:
    """Records that Slack is about to be asked for a message. Returns False if already recorded: the message may
    exist.
    """
    return bool(_BEGIN.run(tx, run_id=run_id, page=page, kind=kind.value, now=tx.now))


def page_opened(tx: Transaction, run_id: str, page: int, ts: str) -> bool:
    """Records that Slack has the message. Returns False if this is known, or if the message is closed."""
    return bool(_MOVES[PageStep.OPEN].run(tx, of_run=run_id, of_page=page, new_ts=ts))


def page_reopened(tx: Transaction, run_id: str, page: int, ts: str) -> bool:
    """Marks a closed message as unfinished. Returns False if it is not closed."""
    return bool(_MOVES[PageStep.REOPEN].run(tx, of_run=run_id, of_page=page, new_ts=ts))


def page_text(tx: Transaction, run_id: str, page: int, text: str) -> bool:
    """Stores the complete text of a message before it is closed, for a later repair. Returns False if it is closed."""
    return bool(_TEXT.run(tx, of_run=run_id, of_page=page, new_text=text))


def page_closed(tx: Transaction, run_id: str, page: int) -> bool:
    """Marks a message as final. Returns False if it is final already."""
    return bool(_MOVES[PageStep.CLOSE].run(tx, of_run=run_id, of_page=page))


def of_run(tx: Transaction, run_id: str) -> list[RunPage]:
    """Returns the messages of a run, in order."""
    return [_run_page(row) for row in _OF_RUN.all(tx, run_id=run_id)]


def unsealed(tx: Transaction) -> list[str]:
    """Returns the ids of ended runs with a message that may still grow or lacks its ending."""
    return [row["id"] for row in _UNSEALED.all(tx)]


def is_unsealed_in_thread(tx: Transaction, thread_id: str, agent_id: str) -> bool:
    """Returns whether an agent has such a run in a thread."""
    return _UNSEALED_IN_THREAD.first(tx, thread_id=thread_id, agent_id=agent_id) is not None


def known_in_thread(tx: Transaction, thread_id: str) -> frozenset[str]:
    """Returns the timestamps of all known answer messages in a thread, which are excluded from a search."""
    return frozenset(row["ts"] for row in _KNOWN_IN_THREAD.all(tx, thread_id=thread_id))


def begins_after(tx: Transaction, run_id: str, page: int) -> int:
    """Returns a time on Slack's clock, in microseconds, before any possible start of a page.

    The time is derived from earlier pages of the run and the messages that it answers, because our own clock may be
    changed or differ from Slack's.
    """
    run = _ANSWERED.first(tx, run_id=run_id)
    if run is None:
        return 0
    known = [row["ts"] for row in _PAGES_BEFORE.all(tx, run_id=run_id, page=page)]
    said = [
        _SAID_AT.first(tx, inbox_message_id=inbox_message_id)
        for inbox_message_id in from_json(run["inbox_message_ids"])
    ]
    known += [row["ts"] for row in said if row]
    return max(map(slack_ts_to_us, [*known, run["thread_ts"] or "0"]))
