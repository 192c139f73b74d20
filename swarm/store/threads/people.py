"""People in Slack: their verified standing, and the number of their recent messages to agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import BindParameter, bindparam, case, or_, select

from swarm.clock import SECOND
from swarm.domain.model.threads import Standing
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.threads import people

WINDOW_SECONDS: Final = 60

_p = people.c
_WHO: Final[dict[str, BindParameter[object]]] = {"team": bindparam("team"), "user_id": bindparam("user_id")}
_of_person = (_p.team == _WHO["team"]) & (_p.user_id == _WHO["user_id"])
_FIND = Statement(select(_p.standing, _p.verified_at).where(_of_person))
_PUT = Statement(
    lambda insert: (
        insert(people)
        .values(**_WHO, standing=bindparam("standing"), verified_at=bindparam("now"), window_count=0)
        .on_conflict_do_update(
            index_elements=["team", "user_id"],
            set_={"standing": bindparam("standing"), "verified_at": bindparam("now")},
        )
    )
)
# The row is locked, so that two processes do not miscount one person's messages.
_WINDOW = Statement(select(_p.window_started_at, _p.window_count).where(_of_person).with_for_update())
_is_over = or_(_p.window_started_at.is_(None), _p.window_started_at <= bindparam("before"))
_COUNT = Statement(
    lambda insert: (
        insert(people)
        .values(**_WHO, window_started_at=bindparam("now"), window_count=1)
        .on_conflict_do_update(
            index_elements=["team", "user_id"],
            set_={
                "window_started_at": case((_is_over, bindparam("now")), else_=_p.window_started_at),
                "window_count": case((_is_over, 1), else_=_p.window_count + 1),
            },
        )
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """A person's standing according to Slack, and the age of this information."""

    standing: Standing
    age_us: int


def find(tx: Transaction, team: str, user_id: str) -> Verified | None:
    """Returns Slack's last answer about a person; None if there is none."""
    row = _FIND.first(tx, team=team, user_id=user_id)
    if row is None or row["standing"] is None:
        return None
    return Verified(standing=Standing(row["standing"]), age_us=max(0, tx.now - row["verified_at"]))


def put(tx: Transaction, team: str, user_id: str, standing: Standing) -> Verified:
    """Stores Slack's answer about a person."""
    _PUT.run(tx, team=team, user_id=user_id, standing=standing, now=tx.now)
    return Verified(standing=standing, age_us=0)


def exhausted(tx: Transaction, team: str, user_id: str, limit: int) -> int | None:
    """Returns the start of the minute in which a person reached the message limit; None if the limit is not reached."""
    row = _WINDOW.first(tx, team=team, user_id=user_id)
    if row is None or row["window_started_at"] is None or row["window_started_at"] <= tx.now - WINDOW_SECONDS * SECOND:
        return None
    return int(row["window_started_at"]) if row["window_count"] >= limit else None


def count(tx: Transaction, team: str, user_id: str) -> None:
    """Counts a person's message to an agent. The first message after a minute begins a new minute."""
    _COUNT.run(tx, team=team, user_id=user_id, now=tx.now, before=tx.now - WINDOW_SECONDS * SECOND)
