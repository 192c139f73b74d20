"""People in Slack: their verified standing, and the number of their recent messages to agents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import BindParameter, Text, bindparam, case, or_, select

from swarm.clock import SECOND
from swarm.domain.model.threads import Standing
from swarm.store.bridge.statements import Statement, given
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
_given_people = given(team=Text, user_id=Text)
# The rows are locked, in the order of the ids, so that two processes do not miscount a person's messages.
_WINDOWS = Statement(
    select(_p.user_id, _p.window_started_at, _p.window_count)
    .join(_given_people, (_p.team == _given_people.c.team) & (_p.user_id == _given_people.c.user_id))
    .order_by(_p.user_id)
    .with_for_update(of=people)
)
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


def exhausted(tx: Transaction, team: str, user_ids: Iterable[str], limit: int) -> dict[str, int]:
    """Returns the people who have reached the message limit, with the start of the minute in which they did."""
    since = tx.now - WINDOW_SECONDS * SECOND
    wanted = [{"team": team, "user_id": user_id} for user_id in user_ids]
    rows = _WINDOWS.all(tx, given=wanted) if wanted else ()
    return {
        row["user_id"]: int(row["window_started_at"])
        for row in rows
        if row["window_count"] >= limit and (row["window_started_at"] or 0) > since
    }


def count(tx: Transaction, team: str, user_ids: Iterable[str]) -> None:
    """Counts a message to an agent for each of these people. The first message after a minute begins a new minute."""
    since = tx.now - WINDOW_SECONDS * SECOND
    _COUNT.many(
        tx, [{"team": team, "user_id": user_id, "now": tx.now, "before": since} for user_id in sorted(user_ids)]
    )
