"""The point up to which Slack's events are complete, and the gap in them.

A workspace has at most one open gap: ``gap_since`` in the row of `ALL`. Any process that suspects missed events opens
the gap or moves its beginning back. The elected process reads the messages since then and closes the gap, unless it was
reopened in the meantime. Opening a gap marks the tracked threads as stale, so that their messages wait for a read of
the thread. Tracked threads that are incompletely known and not scheduled to be read are read as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, bindparam, case, exists, func, or_, select, update
from sqlalchemy.dialects import postgresql

from swarm.clock import us_to_slack_ts
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.threads import ContextState
from swarm.store.bridge.statements import Statement, every_column, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import threads
from swarm.store.tables.threads import watermarks
from swarm.store.tables.work import inbox_messages
from swarm.store.threads.threads import CONTEXTS

GAPS = "gaps"
"""The topic that wakes the process that reads missed messages."""

ALL = "*"
"""The channel value that represents all conversations of a workspace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """A period in which events may have been missed. ``number`` counts the gaps found so far."""

    since: str
    number: int


_OPEN = (InboxStatus.UNREAD, InboxStatus.CLAIMED, InboxStatus.WAITING, InboxStatus.DELEGATED)

_w = watermarks.c
_t = threads.c
_row = (_w.team == bindparam("of_team")) & (_w.channel == bindparam("of_channel"))


def _raise(insert: postgresql.Insert) -> postgresql.Insert:
    new = insert.excluded
    return insert.on_conflict_do_update(index_elements=["team", "channel"], set_={"ts": new.ts}, where=_w.ts < new.ts)


_RAISE = Statement(lambda insert: _raise(insert(watermarks).values(every_column(watermarks, "gaps", gap_since=None))))
_GET = Statement(select(_w.ts, _w.gap_since, _w.gaps).where(_row))
_LOCK = Statement(select(_w.ts, _w.gap_since).where(_row).with_for_update())
_OPEN_GAP = Statement(update(watermarks).where(_row).values(gap_since=bindparam("since"), gaps=_w.gaps + 1))
_FIRST_GAP = Statement(select(func.min(_w.gap_since).label("since")).where(_w.channel == bindparam("of_channel")))
_CLOSE_GAP = Statement(update(watermarks).where(_row, _w.gaps == bindparam("number")).values(gap_since=None))
# Follow-ups without a mention are relevant in threads with an owner or open work.
_is_tracked = or_(
    _t.owner_id.is_not(None),
    exists().where(
        inbox_messages.c.thread_id == _t.id,
        inbox_messages.c.status.in_([literally(status) for status in _OPEN]),
    ),
)
# A read in progress may have begun before the missed messages.
_is_known = _t.context.in_([literally(state) for state in (ContextState.COMPLETE, ContextState.LOADING)])


def _doubt_tracked(*left_alone: ContextState) -> Statement:
    """Returns the update that schedules reads of tracked threads.

    These are threads that are known or being read, and unscheduled threads in one of the states ``left_alone``.
    """
    is_left_alone = and_(_t.context.in_([literally(state) for state in left_alone]), _t.context_due_at.is_(None))
    return Statement(
        update(threads)
        .where(_t.team == bindparam("of_team"), or_(_is_known, is_left_alone), _is_tracked)
        .values(
            context=case((_is_known, literally(ContextState.STALE)), else_=_t.context),
            context_due_at=bindparam("now"),
            context_failures=0,
        )
    )


# Slack refused unknown threads that have no scheduled read. Each gap allows one new attempt, no matter how often it
# reopens.
_DOUBT_AT_FIRST = _doubt_tracked(ContextState.STALE, ContextState.UNKNOWN)
_DOUBT_ANEW = _doubt_tracked(ContextState.STALE)


def advance(tx: Transaction, team: str, ts: str) -> None:
    """Records that all events up to ``ts`` have arrived, except those in an open gap."""
    _RAISE.run(tx, team=team, channel=ALL, ts=ts)


def read_up_to(tx: Transaction, team: str, channel: str, ts: str) -> None:
    """Records that a conversation was processed up to ``ts``."""
    _RAISE.run(tx, team=team, channel=channel, ts=ts)


def of_channel(tx: Transaction, team: str, channel: str) -> str:
    """Returns the timestamp up to which a conversation was read; empty if it never was."""
    row = _GET.first(tx, of_team=team, of_channel=channel)
    return row["ts"] if row else ""


def open_gap(tx: Transaction, team: str, since: str | None = None) -> None:
    """Opens a gap from ``since``, or from the last event known to have arrived.

    Does nothing at the very first start, because there are no earlier messages for the swarm.
    """
    row = _LOCK.first(tx, of_team=team, of_channel=ALL)
    if row is None:
        advance(tx, team, us_to_slack_ts(tx.now))
        return
    begins = [ts for ts in (since or row["ts"], row["gap_since"]) if ts]
    _OPEN_GAP.run(tx, of_team=team, of_channel=ALL, since=min(begins))
    doubt = _DOUBT_ANEW if row["gap_since"] else _DOUBT_AT_FIRST
    doubt.run(tx, of_team=team, now=tx.now)
    tx.wake(GAPS)
    tx.wake(CONTEXTS)


def gap(tx: Transaction, team: str) -> Gap | None:
    """Returns the open gap, if any."""
    row = _GET.first(tx, of_team=team, of_channel=ALL)
    return Gap(since=row["gap_since"], number=row["gaps"]) if row and row["gap_since"] else None


def first_gap(tx: Transaction) -> str | None:
    """Returns the beginning of the earliest open gap of any workspace."""
    row = _FIRST_GAP.first(tx, of_channel=ALL)
    return row["since"] if row else None


def close_gap(tx: Transaction, team: str, gap: Gap) -> bool:
    """Closes a gap that was read. Returns False if it was reopened in the meantime, because more messages may have been
    missed.
    """
    return bool(_CLOSE_GAP.run(tx, of_team=team, of_channel=ALL, number=gap.number))
