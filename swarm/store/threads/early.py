"""Messages that cannot be routed yet.

Some are replies that arrived before the first message of their thread, because Slack guarantees no order and may
redeliver late. Such a reply concerns no agent on arrival, but may do so once the first message has arrived. Replies are
kept for some time and routed in the transaction that opens their thread. Both sides take the same lock first; otherwise
each could miss an uncommitted change of the other.

Other messages wait because Slack has not verified their author in time, and only a member's message becomes work. They
are kept until the author is verified.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

import orjson
from sqlalchemy import Text, bindparam, delete, select, update

from swarm.clock import SECOND
from swarm.domain.model.threads import NO_FACTS, Author, AuthorKind, ChannelType, File, SlackMessage, Standing
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, given
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.threads import early_messages
from swarm.store.threads.threads import Place

UNVERIFIED: Final = "unverified"
"""The topic of messages that wait for the verification of their author."""

_e = early_messages.c
_place = (
    (_e.team == bindparam("team")) & (_e.channel == bindparam("channel")) & (_e.thread_ts == bindparam("thread_ts"))
)
_KEEP = Statement(
    lambda insert: (
        insert(early_messages)
        .values(every_column(early_messages, "verify_at", stored_at=bindparam("now")))
        .on_conflict_do_nothing()
    )
)
_PARK = Statement(
    lambda insert: (
        insert(early_messages)
        .values(every_column(early_messages, stored_at=bindparam("now"), verify_at=bindparam("now")))
        .on_conflict_do_update(
            index_elements=["team", "channel", "thread_ts", "ts"],
            set_={"message": bindparam("message"), "verify_at": bindparam("now")},
            where=_e.verify_at.is_(None),
        )
    )
)
_PARKED = Statement(
    select(_e.message, _e.stored_at).where(_e.verify_at <= bindparam("now")).order_by(_e.verify_at).limit(AT_MOST_N)
)
_POSTPONE = Statement(
    update(early_messages)
    .where(_place, _e.ts == bindparam("of_ts"), _e.verify_at.is_not(None))
    .values(verify_at=bindparam("next_verify_at"))
)
_HOLD = Statement(
    update(early_messages)
    .where(_place, _e.ts == bindparam("of_ts"), _e.verify_at.is_not(None))
    .values(verify_at=_e.verify_at)
)
_UNPARK = Statement(delete(early_messages).where(_place, _e.ts == bindparam("ts"), _e.verify_at.is_not(None)))
_CHANGE = Statement(
    update(early_messages).where(_place, _e.ts == bindparam("of_ts")).values(message=bindparam("new_message"))
)
_FIND = Statement(select(_e.message).where(_place, _e.ts == bindparam("ts")))
_waits_for_thread = _e.verify_at.is_(None)
_given_places = given(team=Text, channel=Text, thread_ts=Text)
_OF_PLACES = Statement(
    select(early_messages)
    .join(
        _given_places,
        (_e.team == _given_places.c.team)
        & (_e.channel == _given_places.c.channel)
        & (_e.thread_ts == _given_places.c.thread_ts),
    )
    .where(_waits_for_thread)
    .order_by(_e.ts)
)
_DROP = Statement(delete(early_messages).where(_place, _waits_for_thread))
_DROP_ONE = Statement(delete(early_messages).where(_place, _e.ts == bindparam("of_ts")))
_FORGET = Statement(
    delete(early_messages).where(
        _waits_for_thread,
        _e.stored_at.in_(
            select(_e.stored_at)
            .where(_e.stored_at < bindparam("before"), _waits_for_thread)
            .order_by(_e.stored_at)
            .limit(AT_MOST_N)
        ),
    )
)


def lock(tx: Transaction, team: str, places: Iterable[Place]) -> None:
    """Serializes the opening of these threads and the storing of replies to them, in the order of the places.

    SQLite always has a single writer.
    """
    if tx.dialect == "postgresql":
        keys = [f"swarm.early:{team}:{channel}:{thread_ts}" for channel, thread_ts in sorted(places)]
        tx.fetch(
            "SELECT pg_advisory_xact_lock(hashtextextended(key, 0)) FROM unnest(%(keys)s::text[]) AS key",
            {"keys": keys},
        )


def keep(tx: Transaction, team: str, messages: Iterable[SlackMessage]) -> None:
    """Keeps replies to unknown threads."""
    rows = [
        {
            "team": team,
            "channel": message.channel,
            "thread_ts": message.root_ts,
            "ts": message.ts,
            "message": _body(message),
            "now": tx.now,
        }
        for message in messages
    ]
    _KEEP.many(tx, rows)


def change(tx: Transaction, team: str, message: SlackMessage) -> None:
    """Stores the edited text of a kept reply, unless the kept text is newer."""
    place = {"team": team, "channel": message.channel, "thread_ts": message.root_ts}
    kept = _FIND.first(tx, **place, ts=message.ts)
    if kept is None or (orjson.loads(kept["message"])["edited_ts"] or "") > (message.edited_ts or ""):
        return
    _CHANGE.run(tx, **place, of_ts=message.ts, new_message=_body(message))


def take(tx: Transaction, team: str, places: Iterable[Place]) -> list[SlackMessage]:
    """Returns and deletes the kept replies of threads, in order."""
    wanted = [{"team": team, "channel": channel, "thread_ts": thread_ts} for channel, thread_ts in places]
    rows = _OF_PLACES.all(tx, given=wanted) if wanted else []
    for channel, thread_ts in sorted({(row["channel"], row["thread_ts"]) for row in rows}):
        _DROP.run(tx, team=team, channel=channel, thread_ts=thread_ts)
    return [_message(orjson.loads(row["message"])) for row in rows]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parked:
    """A message that waits for the verification of its author, with its age in microseconds."""

    message: SlackMessage
    age_us: int


def park(tx: Transaction, team: str, message: SlackMessage) -> None:
    """Keeps a message until its author is verified."""
    place = {"team": team, "channel": message.channel, "thread_ts": message.root_ts}
    _PARK.run(tx, **place, ts=message.ts, message=_body(message), now=tx.now)
    tx.wake(UNVERIFIED)


def parked(tx: Transaction, limit: int) -> list[Parked]:
    """Returns messages whose author is due for verification, longest waiting first."""
    rows = _PARKED.all(tx, now=tx.now, n=limit)
    return [Parked(message=_message(orjson.loads(row["message"])), age_us=tx.now - row["stored_at"]) for row in rows]


def postpone(tx: Transaction, team: str, message: SlackMessage, seconds: float) -> None:
    """Delays the next verification of an author."""
    place = {"team": team, "channel": message.channel, "thread_ts": message.root_ts}
    _POSTPONE.run(tx, **place, of_ts=message.ts, next_verify_at=tx.now + int(seconds * SECOND))


def hold(tx: Transaction, team: str, message: SlackMessage) -> bool:
    """Locks the kept message of an author until the transaction ends. Returns False if there is none."""
    place = {"team": team, "channel": message.channel, "thread_ts": message.root_ts}
    return bool(_HOLD.run(tx, **place, of_ts=message.ts))


def unpark(tx: Transaction, team: str, message: SlackMessage) -> bool:
    """Deletes the kept message of a verified author. Returns False if there is none."""
    place = {"team": team, "channel": message.channel, "thread_ts": message.root_ts}
    return bool(_UNPARK.run(tx, **place, ts=message.ts))


def drop(tx: Transaction, team: str, channel: str, thread_ts: str, ts: str) -> None:
    """Deletes a kept message that was deleted in Slack."""
    _DROP_ONE.run(tx, team=team, channel=channel, thread_ts=thread_ts, of_ts=ts)


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` replies that were stored before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def _body(message: SlackMessage) -> str:
    body = asdict(replace(message, author=replace(message.author, facts=NO_FACTS)))
    del body["author"]["facts"]  # looked up anew
    return orjson.dumps(body).decode()


def _message(body: dict[str, object]) -> SlackMessage:
    author = dict(body.pop("author"))  # type: ignore[call-overload]
    author["teams"] = tuple(author.get("teams", ()))
    author["standing"] = Standing(standing) if (standing := author.get("standing")) else None
    files = body.pop("files")
    channel_type = ChannelType(str(body.pop("channel_type")))
    return SlackMessage(
        **body,  # type: ignore[arg-type]
        author=Author(**{**author, "kind": AuthorKind(author["kind"])}),
        files=tuple(File(**file) for file in files),  # type: ignore[attr-defined]
        channel_type=channel_type,
    )
