"""Alerts of bots, in groups: the first alert of a group goes to an agent, and its repeats are only counted.

A group ends when its alert has not come for the channel's window, and a day after its first alert at the latest, so
that a problem that lasts is looked at again. It also ends when its first alert is deleted, and when the bot edits one
of its alerts to a resolved state. Times are those of Slack's timestamps: late events change no group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, case, or_, select, update

from swarm.clock import SECOND, slack_ts_to_us
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables.threads import alerts

LONGEST_GROUP: Final = 24 * 3600 * SECOND

_ENDED: Final = ""

_a = alerts.c
_place = (_a.team == bindparam("of_team")) & (_a.channel == bindparam("in_channel"))
_is_first = _a.ts == _a.first_ts
_FIND: Final = Statement(select(_a.first_ts, _a.digest).where(_place, _a.ts == bindparam("at_ts")))
_OPEN: Final = Statement(
    select(_a.first_ts)
    .where(
        _place,
        _is_first,
        _a.digest == bindparam("of_digest"),
        _a.last_at >= bindparam("since"),
        _a.posted_at >= bindparam("begun_since"),
        _a.posted_at <= bindparam("until"),
    )
    .order_by(_a.last_at.desc())
    .limit(1)
)
_ADD: Final = Statement(
    lambda insert: (
        insert(alerts).values(every_column(alerts, repeats=0, shown_repeats=0, shown_at=None)).on_conflict_do_nothing()
    )
)
_this = (_a.ts == bindparam("at_ts")) & _is_first
_COUNT: Final = Statement(
    update(alerts)
    .where(_place, _this)
    .values(
        repeats=_a.repeats + 1,
        last_at=case((_a.last_at.between(1, bindparam("came_at")), bindparam("came_at")), else_=_a.last_at),
    )
)
# Without a fingerprint, no alert repeats it.
_END: Final = Statement(update(alerts).where(_place, _this, _a.digest != _ENDED).values(digest=_ENDED))
_UNSHOWN: Final = Statement(
    select(_a.team, _a.channel, _a.ts)
    .where(_a.repeats > _a.shown_repeats, _a.shown_at <= bindparam("before"))
    .order_by(_a.shown_at)
    .limit(AT_MOST_N)
)
_SHOW: Final = Statement(
    update(alerts)
    .where(
        _place,
        _this,
        _a.repeats > _a.shown_repeats,
        or_(_a.shown_at.is_(None), _a.shown_at <= bindparam("before")),
    )
    .values(shown_repeats=_a.repeats, shown_at=bindparam("now"))
    .returning(_a.team, _a.channel, _a.ts, _a.repeats, _a.last_at)
)
_FORGET: Final = delete_oldest(alerts, _a.posted_at, _a.posted_at < bindparam("before"))


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertGroup:
    """The first alert of a group, and its repeats so far."""

    team: str
    channel: str
    ts: str
    repeats: int
    last_at: int  # microseconds: the time of the last repeat


_group = row_mapper(AlertGroup)


def lock(tx: Transaction, team: str, keys: Iterable[tuple[str, str]]) -> None:
    """Serializes the grouping of alerts, given by channel and fingerprint, until the transaction ends. Taken before the
    locks of threads. SQLite always has a single writer.
    """
    if tx.dialect == "postgresql":
        names = [f"swarm.alert:{team}:{channel}:{digest}" for channel, digest in sorted(set(keys))]
        tx.fetch(
            "SELECT pg_advisory_xact_lock(hashtextextended(key, 0)) FROM unnest(%(keys)s::text[]) AS key",
            {"keys": names},
        )


def repeated(tx: Transaction, team: str, channel: str, ts: str, digest: str, window_seconds: float) -> str | None:
    """Returns the timestamp of the alert that the alert at ``ts`` repeats; None if it is the first of its group."""
    place = {"of_team": team, "in_channel": channel}
    own = _FIND.first(tx, **place, at_ts=ts)
    if own:
        return None if own["first_ts"] == ts else str(own["first_ts"])
    at, window = slack_ts_to_us(ts), int(window_seconds * SECOND)
    longest = max(LONGEST_GROUP, window)
    found = _OPEN.first(tx, **place, of_digest=digest, since=at - window, begun_since=at - longest, until=at + window)
    return str(found["first_ts"]) if found else None


def add(tx: Transaction, team: str, channel: str, ts: str, digest: str, first_ts: str) -> bool:
    """Stores an alert, and counts it in its group if it is a repeat. Returns False if it is stored already."""
    at = slack_ts_to_us(ts)
    row = {"team": team, "channel": channel, "ts": ts, "first_ts": first_ts, "digest": digest}
    if not _ADD.run(tx, **row, posted_at=at, last_at=at):
        return False
    if ts != first_ts:
        _COUNT.run(tx, of_team=team, in_channel=channel, at_ts=first_ts, came_at=at)
    return True


def group_of(tx: Transaction, team: str, channel: str, ts: str) -> tuple[str, str] | None:
    """Returns the timestamp of the first alert in the group of an alert, and the alert's fingerprint; None for other
    messages.
    """
    row = _FIND.first(tx, of_team=team, in_channel=channel, at_ts=ts)
    return (row["first_ts"], row["digest"]) if row else None


def end(tx: Transaction, team: str, channel: str, ts: str) -> bool:
    """Ends the group of a first alert, so that the next equal alert goes to an agent. Returns False if it has ended."""
    return bool(_END.run(tx, of_team=team, in_channel=channel, at_ts=ts))


def unshown(tx: Transaction, every_us: int, limit: int) -> list[tuple[str, str, str]]:
    """Returns the groups (team, channel, timestamp) whose threads show too few repeats for longer than ``every_us``."""
    rows = _UNSHOWN.all(tx, before=tx.now - every_us, n=limit)
    return [(row["team"], row["channel"], row["ts"]) for row in rows]


def show(tx: Transaction, team: str, channel: str, ts: str, every_us: int) -> AlertGroup | None:
    """Returns a group whose thread is to be updated now, and marks it as shown; None if it is up to date or was shown
    within ``every_us``.
    """
    row = _SHOW.first(tx, of_team=team, in_channel=channel, at_ts=ts, before=tx.now - every_us, now=tx.now)
    return _group(row) if row else None


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` alerts posted before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
