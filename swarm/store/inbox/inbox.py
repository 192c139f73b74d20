"""Inbox messages. Each is one Slack message addressed to one agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import (
    BigInteger,
    Boolean,
    Integer,
    Text,
    bindparam,
    exists,
    false,
    func,
    literal_column,
    select,
    true,
    update,
)

from swarm.clock import SECOND, new_id
from swarm.domain.model.inbox import (
    BUNDLE_LIMIT,
    BY_PERSON,
    INBOX_TRANSITIONS,
    InboxDelay,
    InboxMessageFacts,
    InboxStatus,
    InboxStep,
    MatchedBy,
    order_key,
)
from swarm.domain.selections import Selection
from swarm.store import history
from swarm.store.bridge.statements import (
    AT_MOST_N,
    PATTERN,
    Statement,
    arrive,
    first_of_each,
    given,
    insert_given,
    literally,
    may,
    row_mapper,
    selected,
)
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import queues
from swarm.store.tables import agents
from swarm.store.tables.effects import history as history_rows
from swarm.store.tables.work import inbox_messages, lease_members, leases


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessage(InboxMessageFacts):
    """One row of `inbox_messages`."""

    team: str
    claims: int
    lease_token: str | None
    resolved_at: int | None
    task_id: str | None  # the task that the message was delegated as or follows up
    instruction: str | None  # the text before the message for its agent, after a person asked for another answer
    message: str | None = None  # the text for the agent, if it is not the text in Slack: an alert in its template
    silent: bool = False  # nobody has asked with it, and no answer in its thread is shown yet
    interruptions: int = 0  # deaths of the coordinator while it was worked on

    @property
    def setbacks(self) -> int:
        """How many of its leases count for `bundle`: one death of the coordinator may be a coincidence."""
        return self.attempts + max(0, self.interruptions - 1)


inbox_message = row_mapper(InboxMessage)

_i = inbox_messages.c
_is_unread = _i.status == literally(InboxStatus.UNREAD)

_given_new = given(
    id=Text,
    thread_id=Text,
    agent_id=Text,
    team=Text,
    channel=Text,
    ts=Text,
    matched_by=Text,
    reason=Text,
    order_key=BigInteger,
    delay_reason=Text,
    due_at=BigInteger,
    task_id=Text,
    message=Text,
    silent=Boolean,
)
_none = literal_column("0", Integer)
_ADD = Statement(
    lambda insert: (
        insert_given(
            insert(inbox_messages),
            _given_new,
            status=literally(InboxStatus.UNREAD),
            attempts=_none,
            claims=_none,
            created_at=bindparam("now", type_=BigInteger),
        )
        .on_conflict_do_nothing()
        .returning(_i.id)
    )
)
_GET = Statement(select(inbox_messages).where(_i.id == bindparam("id")))
_GET_LOCKED = Statement(select(inbox_messages).where(_i.id == bindparam("id")).with_for_update(key_share=True))
_of_message = (
    select(inbox_messages)
    .where(_i.team == bindparam("team"), _i.channel == bindparam("channel"), _i.ts == bindparam("ts"))
    .order_by(_i.id)
)
_OF_MESSAGE = Statement(_of_message)
_OF_MESSAGE_LOCKED = Statement(_of_message.with_for_update(key_share=True))
_BY_STATUS = Statement(
    select(inbox_messages).where(_i.status == bindparam("status")).order_by(_i.created_at.desc()).limit(AT_MOST_N)
)
_agent_name = select(agents.c.name).where(agents.c.id == _i.agent_id).scalar_subquery()
_has_reason = exists().where(history_rows.c.subject == _i.id, history_rows.c.reason.like(PATTERN, escape="!"))
_MATCHING = Statement(
    select(_i.id)
    .where(*selected(inbox_messages, _has_reason, agent=_agent_name, channel=_i.channel))
    .order_by(_i.created_at)
    .limit(AT_MOST_N)
)
_RECENT = Statement(select(inbox_messages).order_by(_i.created_at.desc()).limit(AT_MOST_N))

_given_lanes = given(agent_id=Text, lane_id=Text)
_DUE_OF_LANES = Statement(
    first_of_each(
        _given_lanes,
        inbox_messages,
        (_i.agent_id == _given_lanes.c.agent_id) & (_i.thread_id == _given_lanes.c.lane_id) & queues.is_due,
        _i.ts,
    )
)
_given_claims = given(id=Text, token=Text)
_CLAIM = Statement(
    update(inbox_messages)
    .where(_i.id == _given_claims.c.id, may(_i.status, INBOX_TRANSITIONS[InboxStep.CLAIM]))
    .values(**arrive(INBOX_TRANSITIONS[InboxStep.CLAIM]), claims=_i.claims + 1, lease_token=_given_claims.c.token)
    .returning(_i.id)
)
_given_tokens = given(token=Text)
_members = (
    select(inbox_messages, lease_members.c.token)
    .join(lease_members, lease_members.c.inbox_message_id == _i.id)
    .join(_given_tokens, _given_tokens.c.token == lease_members.c.token)
)
_UNCOUNT_CLAIM = Statement(
    update(inbox_messages).where(_i.id == bindparam("inbox_message_id"), _i.claims > 0).values(claims=_i.claims - 1)
)
_MEMBERS = Statement(_members.order_by(_i.ts))
# In the order of `of_message_locked`, so that the two cannot deadlock.
_MEMBERS_LOCKED = Statement(_members.order_by(_i.id).with_for_update(of=inbox_messages, key_share=True))
_COUNT_UNREAD = Statement(
    select(func.count().label("n")).select_from(inbox_messages).where(_i.agent_id == bindparam("agent_id"), _is_unread)
)
_UNREAD_OF = Statement(
    select(inbox_messages)
    .where(_i.agent_id == bindparam("agent_id"), _is_unread)
    .order_by(_i.order_key)
    .limit(AT_MOST_N)
)
_UNADDRESSED = Statement(
    select(inbox_messages).where(_i.agent_id.is_(None), _is_unread).order_by(_i.ts).limit(AT_MOST_N)
)
_UNADDRESSED_IN_THREAD = Statement(
    select(inbox_messages)
    .where(_i.thread_id == bindparam("thread_id"), _i.agent_id.is_(None), _is_unread)
    .order_by(_i.ts)
    .with_for_update(key_share=True)
)
_UNREAD_OF_THREAD = Statement(
    select(inbox_messages).where(_i.thread_id == bindparam("thread_id"), _is_unread).order_by(_i.ts)
)
_ADDRESS = Statement(
    update(inbox_messages)
    .where(
        _i.id == bindparam("inbox_message_id"),
        _is_unread,
        func.coalesce(_i.agent_id, "") == func.coalesce(bindparam("old_agent_id"), ""),
    )
    .values(
        agent_id=bindparam("new_agent_id"),
        matched_by=bindparam("new_matched_by"),
        reason=bindparam("new_reason"),
        task_id=bindparam("new_task_id"),
        attempts=0,
        interruptions=0,
    )
)
_TIE = Statement(
    update(inbox_messages).where(_i.id == bindparam("inbox_message_id")).values(task_id=bindparam("new_task_id"))
)
_REWORD = Statement(
    update(inbox_messages).where(_i.id == bindparam("inbox_message_id")).values(message=bindparam("new_message"))
)
_OF_TASK = Statement(
    select(inbox_messages).where(_i.task_id == bindparam("task_id"), _i.status == bindparam("status")).order_by(_i.ts)
)
_in_thread = (
    select(inbox_messages)
    .where(_i.thread_id == bindparam("thread_id"))
    .order_by(_i.agent_id, _i.ts)
    .with_for_update(key_share=True)
)
_WAITING_IN_THREAD = Statement(_in_thread.where(_i.status == InboxStatus.WAITING.value))
_UNBEGUN_IN_THREAD = Statement(_in_thread.where(_is_unread | (_i.status == InboxStatus.WAITING.value)))
_HELD_AT = Statement(
    select(lease_members.c.inbox_message_id)
    .join(leases, leases.c.token == lease_members.c.token)
    .where(
        leases.c.thread_id == bindparam("thread_id"),
        leases.c.agent_id == bindparam("agent_id"),
        leases.c.created_at <= bindparam("at"),
        leases.c.ended_at.is_(None) | (leases.c.ended_at >= bindparam("at")),
    )
    .order_by(lease_members.c.inbox_message_id)
)
_SHOW = Statement(
    update(inbox_messages).where(_i.thread_id == bindparam("thread_id"), _i.silent.is_(true())).values(silent=false())
)
_given_ids = given(id=Text)
_ASK = Statement(update(inbox_messages).where(_i.id == _given_ids.c.id).values(silent=false()))
_given_threads = given(thread_id=Text)
_AWAITING_LEAD = Statement(
    select(_given_threads.c.thread_id).where(
        select(_i.id)
        .where(_i.agent_id.is_(None), _i.thread_id == _given_threads.c.thread_id, _is_unread)
        .limit(literal_column("1"))
        .scalar_subquery()
        .is_not(None)
    )
)
_unread_of_lane = (
    select(inbox_messages)
    .where(_i.agent_id == bindparam("agent_id"), _i.thread_id == bindparam("thread_id"), _is_unread)
    .order_by(_i.ts)
)
_UNREAD_OF_LANE = Statement(_unread_of_lane)
_UNREAD_IN_THREAD = Statement(_unread_of_lane.with_for_update(key_share=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class NewInboxMessage:
    """An unread message to add. With ``wait_for_context_seconds`` it waits for the history of its thread."""

    id: str = field(default_factory=new_id)
    thread_id: str
    agent_id: str | None
    team: str
    channel: str
    ts: str
    matched_by: MatchedBy
    reason: str
    wait_for_context_seconds: float | None = None
    task_id: str | None = None
    message: str | None = None
    silent: bool = False


def add(tx: Transaction, wanted: Sequence[NewInboxMessage]) -> list[NewInboxMessage]:
    """Adds unread messages, which become due in this order, after those added earlier in the transaction. Returns those
    that are new to their agents.
    """
    keys = {new.id: order_key(tx.now) + number for new, number in zip(wanted, tx.numbers, strict=False)}
    rows = [_new_row(tx, new, keys[new.id]) for new in wanted]
    ids = {row["id"] for row in _ADD.all(tx, given=rows, now=tx.now)} if rows else set()
    added = [new for new in wanted if new.id in ids]
    changes = (history.HistoryChange("inbox.store", new.id, new.thread_id, new.agent_id, new.reason) for new in added)
    history.record_all(tx, list(changes))
    queues.add(
        tx,
        [
            queues.QueueHead(agent_id=new.agent_id, lane_id=new.thread_id, order_key=keys[new.id])
            for new in added
            if new.agent_id and new.wait_for_context_seconds is None
        ],
    )
    return added


def _new_row(tx: Transaction, new: NewInboxMessage, key: int) -> dict[str, object]:
    wait = new.wait_for_context_seconds
    return {
        "id": new.id,
        "thread_id": new.thread_id,
        "agent_id": new.agent_id,
        "team": new.team,
        "channel": new.channel,
        "ts": new.ts,
        "matched_by": new.matched_by,
        "reason": new.reason,
        "order_key": key,
        "delay_reason": None if wait is None else InboxDelay.CONTEXT,
        "due_at": None if wait is None else tx.now + int(wait * SECOND),
        "task_id": new.task_id,
        "message": new.message,
        "silent": new.silent,
    }


def slack_ts(tx: Transaction, inbox_message_id: str | None) -> str | None:
    """Returns the Slack timestamp of an inbox message; None if there is no such message."""
    inbox_message = get(tx, inbox_message_id) if inbox_message_id else None
    return inbox_message.ts if inbox_message else None


def get(tx: Transaction, inbox_message_id: str) -> InboxMessage | None:
    row = _GET.first(tx, id=inbox_message_id)
    return inbox_message(row) if row else None


def locked(tx: Transaction, inbox_message_id: str) -> InboxMessage | None:
    """Returns a message, locked until the transaction ends."""
    row = _GET_LOCKED.first(tx, id=inbox_message_id)
    return inbox_message(row) if row else None


def of_message(tx: Transaction, team: str, channel: str, ts: str) -> list[InboxMessage]:
    """Returns all inbox messages created from one Slack message."""
    return [inbox_message(row) for row in _OF_MESSAGE.all(tx, team=team, channel=channel, ts=ts)]


def of_message_locked(tx: Transaction, team: str, channel: str, ts: str) -> list[InboxMessage]:
    """Like `of_message`, with the rows locked until the transaction ends."""
    return [inbox_message(row) for row in _OF_MESSAGE_LOCKED.all(tx, team=team, channel=channel, ts=ts)]


def latest(tx: Transaction, status: InboxStatus | None, limit: int) -> list[InboxMessage]:
    """Returns the newest messages, optionally with one status."""
    rows = _BY_STATUS.all(tx, status=status, n=limit) if status else _RECENT.all(tx, n=limit)
    return [inbox_message(row) for row in rows]


def matching(tx: Transaction, selection: Selection, limit: int) -> list[str]:
    """Returns the ids of the messages of a selection, oldest first. The reason is one in their history."""
    found = _MATCHING.all(tx, **selection.params, n=limit)
    return [row["id"] for row in found]


def due_of_lanes(tx: Transaction, lanes: Iterable[queues.Lane]) -> dict[queues.Lane, list[InboxMessage]]:
    """Returns and locks the due messages of lanes by timestamp, at most one bundle of each.

    Messages locked by another transaction (an edit, a deletion, a reassignment) are skipped.
    """
    rows = [{"agent_id": agent_id, "lane_id": lane_id} for agent_id, lane_id in lanes]
    found: dict[queues.Lane, list[InboxMessage]] = {}
    for row in _DUE_OF_LANES.all(tx, given=rows, n=BUNDLE_LIMIT) if rows else ():
        found.setdefault((row["agent_id"], row["thread_id"]), []).append(inbox_message(row))
    return found


def claim(tx: Transaction, wanted: Sequence[tuple[InboxMessage, str]]) -> list[InboxMessage]:
    """Puts unread messages under leases, given by their tokens. Returns those that were still unread, in order."""
    rows = [{"id": message.id, "token": token} for message, token in wanted]
    claimed = {row["id"] for row in _CLAIM.all(tx, given=rows)} if rows else set()
    got = [
        replace(message, status=InboxStatus.CLAIMED, claims=message.claims + 1, lease_token=token)
        for message, token in wanted
        if message.id in claimed
    ]
    changes = [history.HistoryChange("inbox.claim", message.id, message.thread_id, message.agent_id) for message in got]
    history.record_all(tx, changes)
    return got


def refresh_queue_head(tx: Transaction, message: InboxMessage) -> None:
    """Recomputes the queue head of a message's thread after the message was claimed out of order."""
    if message.agent_id:
        queues.refresh(tx, message.agent_id, message.thread_id)


def uncount_claim(tx: Transaction, inbox_message_id: str) -> None:
    """Undoes the count of a claim that no agent has seen, so that the next claim can count as the first."""
    _UNCOUNT_CLAIM.run(tx, inbox_message_id=inbox_message_id)


def members(tx: Transaction, token: str) -> list[InboxMessage]:
    """Returns the messages under a lease by timestamp, with any status."""
    return members_of(tx, [token]).get(token, [])


def members_of(tx: Transaction, tokens: Iterable[str], *, lock: bool = False) -> dict[str, list[InboxMessage]]:
    """Returns the messages under leases by token and timestamp, with any status.

    With ``lock``, they are locked until the transaction ends.
    """
    found: dict[str, list[InboxMessage]] = {}
    rows = [{"token": token} for token in tokens]
    for row in (_MEMBERS_LOCKED if lock else _MEMBERS).all(tx, given=rows) if rows else ():
        found.setdefault(row["token"], []).append(inbox_message(row))
    for members in found.values():
        members.sort(key=lambda message: message.ts)
    return found


def unread(tx: Transaction, agent_id: str, limit: int) -> list[InboxMessage]:
    """Returns the unread messages of an agent in queue order."""
    return [inbox_message(row) for row in _UNREAD_OF.all(tx, agent_id=agent_id, n=limit)]


def count_unread(tx: Transaction, agent_id: str) -> int:
    row = _COUNT_UNREAD.first(tx, agent_id=agent_id)
    return int(row["n"]) if row else 0


def move(
    tx: Transaction,
    step: InboxStep,
    message: InboxMessage,
    *,
    reason: str | None = None,
    actor: str | None = None,
    instruction: str | None = None,
) -> bool:
    """Takes a step of the state machine. Returns False if the message's status or its lease does not allow it.

    ``instruction`` is for the steps of `BY_PERSON`: the text before the message for its agent.
    """
    return bool(move_all(tx, step, [(message, reason)], actor=actor, instruction=instruction))


def move_all(
    tx: Transaction,
    step: InboxStep,
    steps: Sequence[tuple[InboxMessage, str | None]],
    *,
    actor: str | None = None,
    instruction: str | None = None,
) -> list[InboxMessage]:
    """Takes a step with each of the messages, given as pairs with the reason. Returns the messages whose status and
    lease allow it.
    """
    values = {"new_resolved_at": None if INBOX_TRANSITIONS[step].target in _STILL_OPEN else tx.now}
    told = {"new_instruction": instruction} if step in BY_PERSON else {}
    rows = [{"id": message.id, "held_token": message.lease_token} for message, _ in steps]
    ids = {row["id"] for row in _MOVES[step].all(tx, given=rows, **values, **told)} if rows else set()
    moved = [(message, reason) for message, reason in steps if message.id in ids]
    changes = (
        history.HistoryChange(f"inbox.{step}", message.id, message.thread_id, actor or message.agent_id, reason)
        for message, reason in moved
    )
    history.record_all(tx, list(changes))
    if step in _CHANGES_WHAT_IS_DUE:
        queues.refresh_all(tx, [(message.agent_id, message.thread_id) for message, _ in moved if message.agent_id])
    return [message for message, _ in moved]


def withdraw_unread(tx: Transaction, inbox_message_id: str, reason: str) -> None:
    """Withdraws a message that has just become unread again."""
    found = get(tx, inbox_message_id)
    if found:
        move(tx, InboxStep.WITHDRAW, found, reason=reason)


def unaddressed(tx: Transaction, limit: int) -> list[InboxMessage]:
    """Returns messages that wait until a lead is registered, oldest first."""
    return [inbox_message(row) for row in _UNADDRESSED.all(tx, n=limit)]


def unaddressed_in_thread(tx: Transaction, thread_id: str) -> list[InboxMessage]:
    """Returns and locks messages of one thread that wait for a lead, by timestamp."""
    return [inbox_message(row) for row in _UNADDRESSED_IN_THREAD.all(tx, thread_id=thread_id)]


def waiting_for(tx: Transaction, agent_id: str | None, thread_id: str) -> list[InboxMessage]:
    """Returns the unread messages of a thread for an agent, or for any lead if the agent is None; without locks."""
    return [found for found in unread_of_all(tx, thread_id) if found.agent_id == agent_id]


def unread_of_all(tx: Transaction, thread_id: str) -> list[InboxMessage]:
    """Returns the unread messages of a thread for any agent, without locks."""
    return [inbox_message(row) for row in _UNREAD_OF_THREAD.all(tx, thread_id=thread_id)]


def awaiting_lead(tx: Transaction, thread_ids: Iterable[str]) -> set[str]:
    """Returns those of the threads whose messages wait until a lead is registered."""
    rows = [{"thread_id": thread_id} for thread_id in thread_ids]
    return {row["thread_id"] for row in _AWAITING_LEAD.all(tx, given=rows)} if rows else set()


def unread_in_thread(tx: Transaction, agent_id: str, thread_id: str) -> list[InboxMessage]:
    """Returns an agent's unread messages in a thread by timestamp.

    All messages are locked at once, because messages are locked before queue heads.
    """
    return [inbox_message(row) for row in _UNREAD_IN_THREAD.all(tx, agent_id=agent_id, thread_id=thread_id)]


def unread_of_lane(tx: Transaction, agent_id: str, lane_id: str) -> list[InboxMessage]:
    """Like `unread_in_thread`, but without locks, because a claim must not wait. Includes delayed messages."""
    return [inbox_message(row) for row in _UNREAD_OF_LANE.all(tx, agent_id=agent_id, thread_id=lane_id)]


def waiting_in_thread(tx: Transaction, thread_id: str) -> list[InboxMessage]:
    """Returns and locks the messages of a thread that wait for people's answers.

    They are ordered by agent (the order of locks on queue heads) and timestamp.
    """
    return [inbox_message(row) for row in _WAITING_IN_THREAD.all(tx, thread_id=thread_id)]


def unbegun_in_thread(tx: Transaction, thread_id: str) -> list[InboxMessage]:
    """Like `waiting_in_thread`, with the messages of all agents that are unread."""
    return [inbox_message(row) for row in _UNBEGUN_IN_THREAD.all(tx, thread_id=thread_id)]


def of_task(tx: Transaction, task_id: str, status: InboxStatus) -> list[InboxMessage]:
    """Returns the messages of a task with one status: those delegated as the task, or follow-ups that wait for it."""
    return [inbox_message(row) for row in _OF_TASK.all(tx, task_id=task_id, status=status)]


def held_at(tx: Transaction, thread_id: str, agent_id: str | None, at: int) -> list[str]:
    """Returns the ids of the messages of a thread that an agent held at a time."""
    return [row["inbox_message_id"] for row in _HELD_AT.all(tx, thread_id=thread_id, agent_id=agent_id, at=at)]


def set_task(tx: Transaction, inbox_message_id: str, task_id: str | None) -> None:
    """Stores the task of a message; None removes it."""
    _TIE.run(tx, inbox_message_id=inbox_message_id, new_task_id=task_id)


def reword(tx: Transaction, messages: Iterable[InboxMessage], text: str | None) -> list[InboxMessage]:
    """Stores another text for the agents of those messages that have one. Returns all messages as they are now."""
    changed = []
    for message in messages:
        if message.message is not None:
            _REWORD.run(tx, inbox_message_id=message.id, new_message=text)
            message = replace(message, message=text)
        changed.append(message)
    return changed


def break_silence(tx: Transaction, thread_id: str) -> None:
    """Ends the silence about all messages of a thread, because an answer is shown in it."""
    _SHOW.run(tx, thread_id=thread_id)


def ask(tx: Transaction, messages: Sequence[InboxMessage]) -> None:
    """Ends the silence about messages, because their author has asked with them after all."""
    rows: list[dict[str, object]] = [{"id": message.id} for message in messages if message.silent]
    if rows:
        _ASK.run(tx, given=rows)


def readdress(
    tx: Transaction, message: InboxMessage, agent_id: str, reason: str, *, task_id: str | None = None
) -> None:
    """Reassigns an unread message to another agent. If that agent already has the Slack message, withdraws this one,
    and restores the agent's own one if that was withdrawn.

    ``task_id`` becomes the task that the message follows up; None removes the previous task. A message that was claimed
    or reassigned in the meantime is unchanged.
    """
    others = of_message(tx, message.team, message.channel, message.ts)
    own = next((other for other in others if other.agent_id == agent_id and other.id != message.id), None)
    if own:
        replaced = move(tx, InboxStep.WITHDRAW, message, reason=f"{reason}; the new agent has the message already")
        if replaced and move(tx, InboxStep.RESTORE, own, reason=reason):
            set_task(tx, own.id, task_id)
        return
    given = _ADDRESS.run(
        tx,
        inbox_message_id=message.id,
        old_agent_id=message.agent_id,
        new_agent_id=agent_id,
        new_matched_by=MatchedBy.READDRESSED,
        new_reason=reason,
        new_task_id=task_id,
    )
    if not given:
        return
    history.record(tx, "inbox.readdress", message.id, thread_id=message.thread_id, agent_id=agent_id, reason=reason)
    queues.refresh_all(tx, [(holder, message.thread_id) for holder in (message.agent_id, agent_id) if holder])


_STILL_OPEN = {InboxStatus.UNREAD, InboxStatus.CLAIMED, InboxStatus.WAITING}
_CHANGES_WHAT_IS_DUE = {
    step
    for step, transition in INBOX_TRANSITIONS.items()
    if InboxStatus.UNREAD in {*transition.sources, transition.target}
}
_given_steps = given(id=Text, held_token=Text)
_COUNTS_ATTEMPT = {InboxStep.LOSE, InboxStep.BURY}
_FORGETS_ATTEMPTS = {InboxStep.REDRIVE, *BY_PERSON}


def _move(step: InboxStep) -> Statement:
    """Returns the update for one step, guarded by the state machine and, for steps of a run, by the lease."""
    transition = INBOX_TRANSITIONS[step]
    guard = _i.lease_token == _given_steps.c.held_token
    if transition.sources != {InboxStatus.CLAIMED}:  # not a step of the run that holds the lease
        guard = func.coalesce(_i.lease_token, "") == func.coalesce(_given_steps.c.held_token, "")
    values: dict[str, object] = dict(arrive(transition))
    values["resolved_at"] = bindparam("new_resolved_at")
    if step in _COUNTS_ATTEMPT:
        values["attempts"] = _i.attempts + 1
    if step in _FORGETS_ATTEMPTS:
        values |= {"attempts": 0, "interruptions": 0}
    if step in BY_PERSON:
        values["instruction"] = bindparam("new_instruction", type_=Text)
    if transition.target not in _STILL_OPEN:
        values |= {"delay_reason": None, "due_at": None}
    statement = update(inbox_messages).where(_i.id == _given_steps.c.id, may(_i.status, transition), guard)
    return Statement(statement.values(**values).returning(_i.id))


_MOVES: dict[InboxStep, Statement] = {step: _move(step) for step in InboxStep if step is not InboxStep.CLAIM}
