"""Replies that overtook the first message of their thread: Slack promises no order, and a redelivery may be late.

They concern nobody when they come, but may when the first message is there. So they are kept for a while, and routed
in the transaction that opens their thread. Both sides take the same lock first, or each could miss what the other is
about to commit.
"""

from __future__ import annotations

from dataclasses import asdict

import orjson
from sqlalchemy import bindparam, delete, select, update

from swarm.domain.transcript import Author, AuthorKind, ChannelType, File, SlackMessage
from swarm.store.conditions import AT_MOST_N
from swarm.store.statements import Statement
from swarm.store.tables import early_messages
from swarm.store.transaction import Transaction

_e = early_messages.c
_place = (
    (_e.team == bindparam("team")) & (_e.channel == bindparam("channel")) & (_e.thread_ts == bindparam("thread_ts"))
)
_KEEP = Statement(
    lambda insert: (
        insert(early_messages)
        .values(
            team=bindparam("team"),
            channel=bindparam("channel"),
            thread_ts=bindparam("thread_ts"),
            ts=bindparam("ts"),
            message=bindparam("message"),
            stored_at=bindparam("now"),
        )
        .on_conflict_do_nothing()
    )
)
_CHANGE = Statement(
    update(early_messages).where(_place, _e.ts == bindparam("of_ts")).values(message=bindparam("new_message"))
)
_FIND = Statement(select(_e.message).where(_place, _e.ts == bindparam("ts")))
_OF_PLACE = Statement(select(_e.message).where(_place).order_by(_e.ts))
_DROP = Statement(delete(early_messages).where(_place))
_DROP_ONE = Statement(delete(early_messages).where(_place, _e.ts == bindparam("of_ts")))
_FORGET = Statement(
    delete(early_messages).where(
        _e.stored_at.in_(
            select(_e.stored_at).where(_e.stored_at < bindparam("before")).order_by(_e.stored_at).limit(AT_MOST_N)
        )
    )
)


def lock(tx: Transaction, team: str, channel: str, thread_ts: str) -> None:
    """Wait for whoever opens this thread, or keeps a reply to it. SQLite has one writer anyway."""
    if tx.dialect == "postgresql":
        place = f"swarm.early:{team}:{channel}:{thread_ts}"
        tx.fetch("SELECT pg_advisory_xact_lock(hashtextextended(%(place)s, 0))", {"place": place})


def keep(tx: Transaction, team: str, message: SlackMessage) -> None:
    """Keep a reply to a thread of which nobody knows."""
    place = {"team": team, "channel": message.channel, "thread_ts": message.root_ts}
    _KEEP.run(tx, **place, ts=message.ts, message=_body(message), now=tx.now)


def change(tx: Transaction, team: str, message: SlackMessage) -> None:
    """A reply reads differently now, if it is kept and what is kept is not newer."""
    place = {"team": team, "channel": message.channel, "thread_ts": message.root_ts}
    kept = _FIND.first(tx, **place, ts=message.ts)
    if kept is None or (orjson.loads(kept["message"])["edited_ts"] or "") > (message.edited_ts or ""):
        return
    _CHANGE.run(tx, **place, of_ts=message.ts, new_message=_body(message))


def take(tx: Transaction, team: str, channel: str, thread_ts: str) -> list[SlackMessage]:
    """What came too early for a thread, in order; it is not kept any longer."""
    rows = _OF_PLACE.all(tx, team=team, channel=channel, thread_ts=thread_ts)
    if rows:
        _DROP.run(tx, team=team, channel=channel, thread_ts=thread_ts)
    return [_message(orjson.loads(row["message"])) for row in rows]


def drop(tx: Transaction, team: str, channel: str, thread_ts: str, ts: str) -> None:
    """A reply was deleted; it is not kept any longer."""
    _DROP_ONE.run(tx, team=team, channel=channel, thread_ts=thread_ts, of_ts=ts)


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Drop so many that came before then; how many there were."""
    return _FORGET.run(tx, before=before, n=limit)


def _body(message: SlackMessage) -> str:
    return orjson.dumps(asdict(message)).decode()


def _message(body: dict[str, object]) -> SlackMessage:
    author = dict(body.pop("author"))  # type: ignore[call-overload]
    files = body.pop("files")
    channel_type = ChannelType(str(body.pop("channel_type")))
    return SlackMessage(
        **body,  # type: ignore[arg-type]
        author=Author(**{**author, "kind": AuthorKind(author["kind"])}),
        files=tuple(File(**file) for file in files),  # type: ignore[attr-defined]
        channel_type=channel_type,
    )
