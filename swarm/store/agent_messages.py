"""Messages between agents, and which addressees have read them.

Messages become visible in the order of their ids, so a reader that continues after its last known id misses none.
Messages are therefore stored one after another, even by processes whose clocks differ.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, delete, func, insert, or_, select, update

from swarm.clock import new_id
from swarm.domain.model.agents import AgentMessage, UserView
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, every_column, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents
from swarm.store.tables.agents import agent_message_addressees, agent_messages
from swarm.store.tables.work import leases, notices

FIRST_ID: Final = str(UUID(int=0))
LAST_ID: Final = str(UUID(int=2**128 - 1))

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('swarm.agent_messages'))"


class Scope(StrEnum):
    """The set of messages to read."""

    CHANNEL = "channel"
    DIRECT = "direct"  # between the reader and another agent
    UNREAD = "unread"  # addressed to the reader and unread, in a channel or direct


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One row of `agent_messages`, sent to a recipient or to a channel."""

    id: str
    sender_id: str
    recipient_id: str | None
    channel: str | None  # without the leading #
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
    """One of a sender's most recent messages, compared with the message to send."""

    id: str
    created_at: int
    same: bool  # has the same text and the same channel or recipient


_stored = row_mapper(Stored)
_earlier = row_mapper(Earlier)

_m = agent_messages.c
_mine = agent_message_addressees.alias("mine")
_sender = agents.alias("sender")
_recipient = agents.alias("recipient")

_LAST = Statement(select(_m.id).order_by(_m.id.desc()).limit(1))
_ADD = Statement(insert(agent_messages).values(every_column(agent_messages, created_at=bindparam("now"))))
_ADDRESS = Statement(insert(agent_message_addressees).values(every_column(agent_message_addressees, read_at=None)))
_ADDRESSEES = Statement(
    select(agent_message_addressees.c.agent_id).where(agent_message_addressees.c.message_id == bindparam("message_id"))
)
_GET = Statement(select(agent_messages).where(_m.id == bindparam("message_id")))
_EARLIER = Statement(
    select(
        _m.id,
        _m.created_at,
        ((_m.text == bindparam("text")) & (func.coalesce(_m.channel, _m.recipient_id) == bindparam("place"))).label(
            "same"
        ),
    )
    .where(_m.sender_id == bindparam("sender_id"))
    .order_by(_m.id.desc())
    .limit(AT_MOST_N)
)
_MARK_READ = Statement(
    update(agent_message_addressees)
    .where(
        agent_message_addressees.c.message_id == bindparam("of_message"),
        agent_message_addressees.c.agent_id == bindparam("of_agent"),
        agent_message_addressees.c.read_at.is_(None),
    )
    .values(read_at=bindparam("now"))
)
_MARK_HEARD = Statement(
    update(agent_message_addressees)
    .where(
        agent_message_addressees.c.agent_id == bindparam("of_agent"),
        agent_message_addressees.c.read_at.is_(None),
        agent_message_addressees.c.message_id.in_(
            select(notices.c.agent_message_id)
            .join(leases, leases.c.trigger_id == notices.c.id)
            .where(leases.c.token == bindparam("of_lease"))
        ),
    )
    .values(read_at=bindparam("now"))
)
_COUNT_UNREAD = Statement(
    select(func.count().label("n"))
    .select_from(agent_message_addressees)
    .where(agent_message_addressees.c.agent_id == bindparam("agent_id"), agent_message_addressees.c.read_at.is_(None))
)
_OF_CHANNEL = Statement(select(_m.id).where(_m.channel == bindparam("channel")).limit(1))
_NEXT_CHANNEL = Statement(select(func.min(_m.channel).label("channel")).where(_m.channel > bindparam("after")))

_old = select(_m.id, _m.created_at).order_by(_m.id).limit(AT_MOST_N).subquery()
_forgettable = select(_old.c.id).where(_old.c.created_at < bindparam("before"))
_FORGETTABLE = Statement(_forgettable.limit(1))
_RELEASE_NOTICES = Statement(
    update(notices).where(notices.c.agent_message_id.in_(_forgettable)).values(agent_message_id=None)
)
_FORGET = Statement(delete(agent_messages).where(_m.id.in_(_forgettable)))


# Uses the partial index, because most messages have been read.
_is_unread = _m.id.in_(
    select(agent_message_addressees.c.message_id).where(
        agent_message_addressees.c.agent_id == bindparam("reader"), agent_message_addressees.c.read_at.is_(None)
    )
)


def _within(scope: Scope) -> ColumnElement[bool]:
    reader: BindParameter[str] = bindparam("reader")
    partner: BindParameter[str] = bindparam("partner")
    match scope:
        case Scope.CHANNEL:
            return _m.channel == bindparam("channel")
        case Scope.DIRECT:
            return or_(
                (_m.recipient_id == reader) & (_m.sender_id == partner),
                (_m.recipient_id == partner) & (_m.sender_id == reader),
            )
        case Scope.UNREAD:
            return _is_unread


def _page(scope: Scope, *, newest: bool, unread_only: bool) -> Select[tuple[object, ...]]:
    page = (
        select(
            *(_m.id, _m.channel, _m.sender_id, _m.text, _m.created_at),
            _sender.c.name.label("sender"),
            _recipient.c.name.label("recipient"),
            _mine.c.message_id.label("addressed"),
            _mine.c.read_at,
        )
        .join(_sender, _sender.c.id == _m.sender_id)
        .outerjoin(_recipient, _recipient.c.id == _m.recipient_id)
        .outerjoin(_mine, (_mine.c.message_id == _m.id) & (_mine.c.agent_id == bindparam("reader")))
        .where(_m.id > bindparam("after"), _m.id < bindparam("before"), _within(scope))
    )
    if unread_only:
        page = page.where(_is_unread)
    return page.order_by(_m.id.desc() if newest else _m.id).limit(AT_MOST_N)


_PAGES: Final = {
    (scope, newest, unread_only): Statement(_page(scope, newest=newest, unread_only=unread_only))
    for scope, newest, unread_only in product(Scope, (False, True), (False, True))
}


def serialize_inserts(tx: Transaction) -> None:
    """Locks out other inserts until the transaction ends. SQLite always has a single writer."""
    if tx.dialect == "postgresql":
        tx.fetch(_LOCK, {})


def earlier(tx: Transaction, sender_id: str, place: str, text: str, limit: int) -> list[Earlier]:
    """Returns the sender's most recent messages, newest first.

    Each is compared with a text for a place: a channel or a recipient.
    """
    rows = _EARLIER.all(tx, sender_id=sender_id, place=place, text=text, n=limit)
    return [_earlier(row) for row in rows]


def add(
    tx: Transaction,
    sender_id: str,
    text: str,
    addressee_ids: Collection[str],
    *,
    channel: str | None = None,
    recipient_id: str | None = None,
) -> str:
    """Stores a message and its addressees. Returns its id. The caller must have called `serialize_inserts`."""
    last = _LAST.first(tx)
    message_id = _later_id(last["id"] if last else FIRST_ID)
    _ADD.run(tx, id=message_id, channel=channel, recipient_id=recipient_id, sender_id=sender_id, text=text, now=tx.now)
    _ADDRESS.many(tx, [{"message_id": message_id, "agent_id": agent_id} for agent_id in addressee_ids])
    return message_id


def addressees(tx: Transaction, message_id: str) -> set[str]:
    """Returns the ids of a message's addressees."""
    return {row["agent_id"] for row in _ADDRESSEES.all(tx, message_id=message_id)}


def get(tx: Transaction, message_id: str) -> Stored | None:
    """Returns a message; None if it was deleted."""
    row = _GET.first(tx, message_id=message_id)
    return _stored(row) if row else None


def page(
    tx: Transaction,
    scope: Scope,
    reader_id: str,
    limit: int,
    *,
    channel: str | None = None,
    partner_id: str | None = None,
    after: str = FIRST_ID,
    before: str = LAST_ID,
    newest: bool = False,
    unread_only: bool = False,
) -> list[AgentMessage]:
    """Returns messages between two ids from the reader's point of view, oldest first, or newest first with
    ``newest``.
    """
    place = {Scope.CHANNEL: {"channel": channel}, Scope.DIRECT: {"partner": partner_id}, Scope.UNREAD: {}}[scope]
    statement = _PAGES[scope, newest, unread_only]
    return [_message(row) for row in statement.all(tx, reader=reader_id, after=after, before=before, n=limit, **place)]


def count_unread(tx: Transaction, agent_id: str) -> int:
    """Returns the number of unread messages addressed to an agent."""
    row = _COUNT_UNREAD.first(tx, agent_id=agent_id)
    return int(row["n"]) if row else 0


def mark_read(tx: Transaction, agent_id: str, message_ids: Sequence[str]) -> None:
    """Marks messages as read by an agent. Messages that are not addressed to the agent are unchanged."""
    _MARK_READ.many(tx, [{"of_message": message_id, "of_agent": agent_id, "now": tx.now} for message_id in message_ids])


def mark_notified_read(tx: Transaction, agent_id: str, lease_token: str) -> None:
    """Marks the message reported by a finished notice as read, if there is one."""
    _MARK_HEARD.run(tx, of_agent=agent_id, of_lease=lease_token, now=tx.now)


def has_channel(tx: Transaction, channel: str) -> bool:
    """Returns whether a channel has messages."""
    return _OF_CHANNEL.first(tx, channel=channel) is not None


def channels(tx: Transaction, limit: int) -> list[str]:
    """Returns up to ``limit`` channel names in alphabetical order, with one index lookup per name."""
    found: list[str] = []
    while len(found) < limit:
        row = _NEXT_CHANNEL.first(tx, after=found[-1] if found else "")
        if row is None or row["channel"] is None:
            break
        found.append(row["channel"])
    return found


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` messages older than ``before``, read or unread. Returns the number deleted.

    Notices about these messages keep the text.
    """
    if _FORGETTABLE.first(tx, before=before, n=limit) is None:
        return 0
    _RELEASE_NOTICES.run(tx, before=before, n=limit)
    return _FORGET.run(tx, before=before, n=limit)


def _later_id(last: str) -> str:
    """Returns a new id greater than ``last``, even if this machine's clock is behind."""
    fresh = new_id()
    return fresh if fresh > last else str(UUID(int=UUID(last).int + 1))


def _is_addressed(row: Row) -> bool:
    return row["addressed"] is not None


_message = row_mapper(
    AgentMessage,
    sender=lambda row: UserView(id=row["sender_id"], name=row["sender"]),
    channel=lambda row: row["channel"] and f"#{row['channel']}",
    for_reader=_is_addressed,
    unread=lambda row: _is_addressed(row) and row["read_at"] is None,
)
