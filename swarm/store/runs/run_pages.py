"""The messages in Slack that make up the answer of a turn: one, or several where one would be too long."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_core import from_json
from sqlalchemy import bindparam, select, update

from swarm.clock import slack_ts_to_us
from swarm.domain.model.runs import PAGE_TRANSITIONS, PageKind, PagePhase, PageStep
from swarm.store.bridge.statements import Row, Statement, literally, may
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import inbox_messages, threads, turn_messages, turns


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """A message of an answer as it stands in its row."""

    turn_id: str
    page: int
    kind: PageKind
    ts: str | None  # None: it may exist, and it is not known where
    phase: PagePhase
    began_at: int  # microseconds, by the database's clock
    text: str | None  # the whole text, known from when the message is to be closed


_m = turn_messages.c
_page = (_m.turn_id == bindparam("of_turn")) & (_m.page == bindparam("of_page"))
_BEGIN = Statement(
    lambda insert: (
        insert(turn_messages)
        .values(
            turn_id=bindparam("turn_id"),
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
    update(turn_messages).where(_page, _m.phase != PagePhase.CLOSED.value).values(text=bindparam("new_text"))
)
_OF_TURN = Statement(select(turn_messages).where(_m.turn_id == bindparam("turn_id")).order_by(_m.page))

_KNOWN_IN_THREAD = Statement(
    select(_m.ts)
    .join(turns, turns.c.id == _m.turn_id)
    .where(turns.c.thread_id == bindparam("thread_id"), _m.ts.is_not(None))
)
# The first condition is that of the partial index of the messages that are not closed.
_to_seal = _m.phase != literally(PagePhase.CLOSED)
_UNSEALED = Statement(
    select(turns.c.id)
    .join(turn_messages, _m.turn_id == turns.c.id)
    .where(_to_seal, turns.c.ended_at.is_not(None))
    .group_by(turns.c.id)
    .order_by(turns.c.id)
)
_UNSEALED_IN_THREAD = Statement(
    select(_m.turn_id)
    .join(turns, turns.c.id == _m.turn_id)
    .where(
        _to_seal,
        turns.c.ended_at.is_not(None),
        turns.c.thread_id == bindparam("thread_id"),
        turns.c.agent_id == bindparam("agent_id"),
    )
)

_PAGES_BEFORE = Statement(
    select(_m.ts).where(_m.turn_id == bindparam("turn_id"), _m.page < bindparam("page"), _m.ts.is_not(None))
)
_ANSWERED = Statement(
    select(turns.c.entry_ids, threads.c.thread_ts)
    .outerjoin(threads, threads.c.id == turns.c.thread_id)
    .where(turns.c.id == bindparam("turn_id"))
)
_SAID_AT = Statement(select(inbox_messages.c.ts).where(inbox_messages.c.id == bindparam("entry_id")))


def _move(step: PageStep) -> Statement:
    transition = PAGE_TRANSITIONS[step]
    ts: dict[str, object] = {} if step is PageStep.CLOSE else {"ts": bindparam("new_ts")}
    return Statement(
        update(turn_messages).where(_page, may(_m.phase, transition)).values(phase=transition.target.value, **ts)
    )


_MOVES = {step: _move(step) for step in PageStep}


def open_page(tx: Transaction, turn_id: str, page: int, kind: PageKind) -> bool:
    """Note that a message is about to be asked of Slack; False if it was before, so that it may exist already."""
    return bool(_BEGIN.run(tx, turn_id=turn_id, page=page, kind=kind.value, now=tx.now))


def page_opened(tx: Transaction, turn_id: str, page: int, ts: str) -> bool:
    """Slack has the message; False if that was known, or if it is closed."""
    return bool(_MOVES[PageStep.OPEN].run(tx, of_turn=turn_id, of_page=page, new_ts=ts))


def page_reopened(tx: Transaction, turn_id: str, page: int, ts: str) -> bool:
    """Something is to be done yet to a message that counted as closed; False if it did not."""
    return bool(_MOVES[PageStep.REOPEN].run(tx, of_turn=turn_id, of_page=page, new_ts=ts))


def page_text(tx: Transaction, turn_id: str, page: int, text: str) -> bool:
    """Before a message is closed: its whole text, for whoever has to mend it. False if it is closed."""
    return bool(_TEXT.run(tx, of_turn=turn_id, of_page=page, new_text=text))


def page_closed(tx: Transaction, turn_id: str, page: int) -> bool:
    """Nothing will be done to the message any more; False if that was known."""
    return bool(_MOVES[PageStep.CLOSE].run(tx, of_turn=turn_id, of_page=page))


def of_turn(tx: Transaction, turn_id: str) -> list[RunPage]:
    """The messages of a turn, in order."""
    return [_turn_page(row) for row in _OF_TURN.all(tx, turn_id=turn_id)]


def unsealed(tx: Transaction) -> list[str]:
    """The ids of the turns that are over and of whose messages one may still grow, or does not say how it ended."""
    return [row["id"] for row in _UNSEALED.all(tx)]


def is_unsealed_in_thread(tx: Transaction, thread_id: str, agent_id: str) -> bool:
    """Whether an agent has such a turn in a thread."""
    return _UNSEALED_IN_THREAD.first(tx, thread_id=thread_id, agent_id=agent_id) is not None


def known_in_thread(tx: Transaction, thread_id: str) -> frozenset[str]:
    """Where the messages of all answers in a thread are: none of them is one that is searched for."""
    return frozenset(row["ts"] for row in _KNOWN_IN_THREAD.all(tx, thread_id=thread_id))


def begins_after(tx: Transaction, turn_id: str, page: int) -> int:
    """A moment on Slack's clock, in microseconds, that a message of a turn is certainly later than.

    From the turn's messages before it and those that it answers: our own clock may be set, or differ from Slack's.
    """
    turn = _ANSWERED.first(tx, turn_id=turn_id)
    if turn is None:
        return 0
    known = [row["ts"] for row in _PAGES_BEFORE.all(tx, turn_id=turn_id, page=page)]
    said = [_SAID_AT.first(tx, entry_id=entry_id) for entry_id in from_json(turn["entry_ids"])]
    known += [row["ts"] for row in said if row]
    return max(map(slack_ts_to_us, [*known, turn["thread_ts"] or "0"]))


def _turn_page(row: Row) -> RunPage:
    return RunPage(
        turn_id=row["turn_id"],
        page=row["page"],
        kind=PageKind(row["kind"]),
        ts=row["ts"],
        phase=PagePhase(row["phase"]),
        began_at=row["began_at"],
        text=row["text"],
    )
