"""Agents, their tokens and their load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    union_all,
    update,
)

from swarm.clock import SECOND, new_id
from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Agent, Instance, Load, Reach, Role, check_new_name
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.threads import Silence
from swarm.store import history
from swarm.store.bridge.statements import InsertFactory, Row, Statement, every_column, given, literally, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, threads
from swarm.store.tables.agents import agent_instances, agent_tokens
from swarm.store.tables.work import inbox_messages, lease_members, leases, tasks

AGENTS: Final = "agents"
"""The topic for changes to the set of agents."""

_present = agents.c.revoked_at.is_(None)
_other = agents.alias("other")

_ADD = Statement(
    lambda insert: (
        insert(agents)
        .values(
            every_column(agents, created_at=bindparam("now"), last_seen_at=None, revoked_at=None, parked_until=None)
        )
        .on_conflict_do_nothing(index_elements=["name"], index_where=_present)
    )
)
_ADD_TOKEN = Statement(
    insert(agent_tokens).values(every_column(agent_tokens, created_at=bindparam("now"), revoked_at=None))
)
_BY_TOKEN = Statement(
    select(agents)
    .join(agent_tokens, agent_tokens.c.agent_id == agents.c.id)
    .where(agent_tokens.c.token_hash == bindparam("token_hash"), agent_tokens.c.revoked_at.is_(None), _present)
)
_given_tokens = given(token_hash=Text)
# Waits for a concurrent rotation, and a later rotation waits for this transaction. The statement that revokes a token
# locks nothing that a claim waits for.
_valid_tokens = (
    select(
        agent_tokens.c.token_hash,
        agent_tokens.c.agent_id,
        agent_instances.c.instance_id,
        agent_instances.c.began_at,
        agent_instances.c.seen_at,
        agent_instances.c.called_at,
    )
    .join(_given_tokens, agent_tokens.c.token_hash == _given_tokens.c.token_hash)
    .outerjoin(agent_instances, agent_instances.c.agent_id == agent_tokens.c.agent_id)
    .where(agent_tokens.c.revoked_at.is_(None))
    .order_by(agent_tokens.c.token_hash)
)
_VALID_TOKENS = Statement(_valid_tokens.with_for_update(of=agent_tokens, read=True))
_VALID_FREE_TOKENS = Statement(_valid_tokens.with_for_update(of=agent_tokens, read=True, skip_locked=True))
_ENDED_TOKENS = Statement(select(agent_tokens.c.token_hash).where(agent_tokens.c.revoked_at > bindparam("since")))
_BY_ID = Statement(select(agents).where(agents.c.id == bindparam("id"), _present))
_BY_NAME = Statement(select(agents).where(agents.c.name == bindparam("name"), _present))
_IS_ENROLLED = Statement(select(agents.c.enrolled).where(agents.c.id == bindparam("id")))
_ALL = Statement(select(agents).where(_present).order_by(agents.c.created_at, agents.c.id))
_SIGNS = Statement(
    select(agents.c.id, agents.c.name, agents.c.role, agents.c.last_seen_at)
    .where(_present)
    .order_by(agents.c.created_at, agents.c.id)
)
_COUNT = Statement(
    select(func.count().label("everyone"), func.count(case((agents.c.enrolled, 1))).label("enrolled")).where(_present)
)
_NAMES = Statement(select(agents.c.id, agents.c.name))
_given_ids = given(id=Text)
# In the order of the ids, so that two sets cannot deadlock.
_LOCK = Statement(
    select(agents)
    .join(_given_ids, agents.c.id == _given_ids.c.id)
    .where(_present)
    .order_by(agents.c.id)
    .with_for_update(of=agents, key_share=True)
)
_SEEN = Statement(update(agents).where(agents.c.id == _given_ids.c.id, _present).values(last_seen_at=bindparam("now")))
_PARK = Statement(
    update(agents)
    .where(agents.c.id == bindparam("agent_id"), _present)
    .values(parked_until=bindparam("until", type_=BigInteger))
)
_SEEN_BEFORE = Statement(
    update(agents)
    .where(agents.c.id == bindparam("agent_id"), agents.c.last_seen_at > bindparam("seen_at", type_=BigInteger))
    .values(last_seen_at=bindparam("seen_at", type_=BigInteger))
)
_DESCRIBE = Statement(
    update(agents)
    .where(agents.c.id == bindparam("agent_id"), _present)
    .values(description=bindparam("new_description"), capabilities=bindparam("new_capabilities"))
)
_REDESCRIBE = Statement(
    update(agents)
    .where(agents.c.id == bindparam("agent_id"), _present)
    .values(
        role=bindparam("new_role"), description=bindparam("new_description"), capabilities=bindparam("new_capabilities")
    )
)
_RENAME = Statement(
    update(agents)
    .where(
        agents.c.name == bindparam("old_name"),
        agents.c.reach == bindparam("of_reach"),
        _present,
        ~exists().where(_other.c.name == bindparam("new_name"), _other.c.revoked_at.is_(None)),
    )
    .values(name=bindparam("new_name"))
)
_REVOKE = Statement(
    update(agents).where(and_(agents.c.id == bindparam("agent_id"), _present)).values(revoked_at=bindparam("now"))
)
_REVOKE_TOKENS = Statement(
    update(agent_tokens)
    .where(agent_tokens.c.agent_id == bindparam("of_agent"), agent_tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("now"))
)


_i = agent_instances.c


def _serve(insert: InsertFactory) -> Executable:
    new = insert(agent_instances).values(
        agent_id=bindparam("agent_id"),
        instance_id=bindparam("instance_id"),
        began_at=bindparam("now"),
        seen_at=bindparam("now"),
        called_at=bindparam("now"),
    )
    is_same = _i.instance_id == new.excluded.instance_id
    return new.on_conflict_do_update(
        index_elements=["agent_id"],
        set_={
            "instance_id": new.excluded.instance_id,
            "began_at": case((is_same, _i.began_at), else_=new.excluded.began_at),
            "seen_at": new.excluded.seen_at,
            "called_at": case((bindparam("calls", type_=Boolean), new.excluded.called_at), else_=_i.called_at),
        },
        where=or_(is_same, _i.seen_at <= bindparam("before", type_=BigInteger)),
    )


_SERVE = Statement(_serve)
_SERVING = Statement(select(agent_instances).where(_i.agent_id == bindparam("agent_id")))
_LEAVE = Statement(
    delete(agent_instances).where(_i.agent_id == bindparam("of_agent"), _i.instance_id == bindparam("instance_id"))
)
_LEAVE_ALL = Statement(delete(agent_instances).where(_i.agent_id == bindparam("of_agent")))


def add(tx: Transaction, agent: Agent, token_hash: str) -> None:
    """Registers an agent with its first token. Raises Conflict if the name is taken."""
    if not _add(tx, agent):
        raise Conflict(
            f"An agent named '{agent.name}' is already registered.", hint="Choose another name, or rotate its token."
        )
    _ADD_TOKEN.run(tx, token_hash=token_hash, agent_id=agent.id, now=tx.now)


def ensure(
    tx: Transaction, name: str, role: Role, description: str, capabilities: tuple[str, ...], reach: Reach
) -> Agent:
    """Creates or updates an agent that the coordinator itself runs, without a token. Returns the agent.

    Raises Conflict if the name belongs to an agent with a different reach, and Invalid for a reserved name, unless the
    agent has it already.
    """
    if by_name(tx, name) is None:
        check_new_name(name)
    agent = Agent(
        id=new_id(),
        name=name,
        role=role,
        description=description,
        capabilities=capabilities,
        created_at=tx.now,
        last_seen_at=None,
        reach=reach,
    )
    if _add(tx, agent):
        history.record(tx, "agent.register", agent.id, agent_id=agent.id, reason=f"{role} {name}, reached by {reach}")
        return agent
    there = by_name(tx, name)
    assert there is not None  # otherwise the agent would have been added
    if there.reach is not reach:
        raise Conflict(
            f"The name '{name}' belongs to an agent that is reached by {there.reach}, not by {reach}.",
            hint="Choose another name for one of them, or remove the existing agent.",
        )
    _REDESCRIBE.run(
        tx, agent_id=there.id, new_role=role, new_description=description, new_capabilities=_json(capabilities)
    )
    return replace(there, role=role, description=description, capabilities=capabilities)


def rename(tx: Transaction, old: str, new: str, reach: Reach) -> bool:
    """Renames an agent, which keeps all that belongs to its id. Returns False if there is no agent of that reach with
    the old name, or if an agent has the new name already. Raises Invalid for a reserved new name.
    """
    if by_name(tx, new) is None:
        check_new_name(new)
    renamed = bool(_RENAME.run(tx, old_name=old, new_name=new, of_reach=reach))
    if renamed and (agent := by_name(tx, new)):
        history.record(tx, "agent.rename", agent.id, agent_id=agent.id, reason=f"{old} is now {new}")
    return renamed


def by_token(tx: Transaction, token_hash: str) -> Agent | None:
    """Returns the agent whose valid token has this hash."""
    row = _BY_TOKEN.first(tx, token_hash=token_hash)
    return replace(_agent(row), token_hash=token_hash) if row else None


def valid_tokens(
    tx: Transaction, token_hashes: Iterable[str], *, wait: bool = True
) -> Mapping[tuple[str, str], Instance | None]:
    """Returns the valid tokens among these hashes, with the ids of their agents, and the instance that serves each
    agent. On PostgreSQL the tokens are locked, so that none of them ends before this transaction.

    A token that is just being rotated is waited for, or left out without ``wait``.
    """
    rows = [{"token_hash": token_hash} for token_hash in token_hashes]
    found = (_VALID_TOKENS if wait else _VALID_FREE_TOKENS).all(tx, given=rows) if rows else []
    return {(row["token_hash"], row["agent_id"]): _instance(row) if row["instance_id"] else None for row in found}


def serve(tx: Transaction, agent_id: str, instance_id: str, seconds: float, *, calls: bool) -> Instance | None:
    """Records that an instance serves an agent now. Returns None, or the other instance that has been seen within
    ``seconds``. Of two that begin at the same time, the second waits for the first and is then the other one.

    ``calls``: with a call that begins now, not with a poll that goes on waiting.
    """
    before = tx.now - int(seconds * SECOND)
    if _SERVE.run(tx, agent_id=agent_id, instance_id=instance_id, now=tx.now, before=before, calls=calls):
        return None
    return serving(tx, agent_id) or serve(tx, agent_id, instance_id, seconds, calls=calls)


def serving(tx: Transaction, agent_id: str) -> Instance | None:
    """Returns the instance that has served an agent last, if programs of the agent say which they are."""
    row = _SERVING.first(tx, agent_id=agent_id)
    return _instance(row) if row else None


def leave(tx: Transaction, agent_id: str, instance_id: str) -> bool:
    """Records that an instance serves an agent no more. Returns False if it did not."""
    return bool(_LEAVE.run(tx, of_agent=agent_id, instance_id=instance_id))


def ended_tokens(tx: Transaction, since: int) -> list[str]:
    """Returns the hashes of tokens that were replaced or revoked after ``since``."""
    return [row["token_hash"] for row in _ENDED_TOKENS.all(tx, since=since)]


def by_id(tx: Transaction, agent_id: str) -> Agent | None:
    row = _BY_ID.first(tx, id=agent_id)
    return _agent(row) if row else None


def by_name(tx: Transaction, name: str) -> Agent | None:
    row = _BY_NAME.first(tx, name=name)
    return _agent(row) if row else None


def is_enrolled(tx: Transaction, agent_id: str) -> bool:
    """Returns whether the agent was registered with an enrolment key, even if it was revoked since."""
    row = _IS_ENROLLED.first(tx, id=agent_id)
    return bool(row and row["enrolled"])


def everyone(tx: Transaction) -> list[Agent]:
    """Returns all agents that are not revoked, oldest first."""
    return [_agent(row) for row in _ALL.all(tx)]


def signs_of_life(tx: Transaction) -> list[Row]:
    """Returns ``id``, ``name``, ``role`` and ``last_seen_at`` of all agents that are not revoked, oldest first.

    Cheaper than `everyone`, for queries that run every second.
    """
    return _SIGNS.all(tx)


def count(tx: Transaction) -> tuple[int, int]:
    """Returns the number of agents, and the number registered with an enrolment key."""
    row = _COUNT.first(tx)
    assert row is not None  # a count always returns a row
    return row["everyone"], row["enrolled"]


def names(tx: Transaction) -> dict[str, str]:
    """Returns the names of all agents by id, including revoked agents."""
    return {row["id"]: row["name"] for row in _NAMES.all(tx)}


def record_seen(tx: Transaction, agent_ids: Iterable[str]) -> list[Agent]:
    """Records that agents were seen. Returns them as they were before; a revoked agent is missing."""
    rows = [{"id": agent_id} for agent_id in set(agent_ids)]
    before = [_agent(row) for row in _LOCK.all(tx, given=rows)]
    _SEEN.run(tx, given=rows, now=tx.now)
    return before


def park(tx: Transaction, agent_id: str, seconds: float) -> None:
    """Records that an agent takes no work for so long."""
    _PARK.run(tx, agent_id=agent_id, until=tx.now + int(seconds * SECOND))


def record_gone(tx: Transaction, agent_id: str, seen_at: int) -> None:
    """Sets the time when an agent was last seen back to ``seen_at``, unless it is earlier."""
    _SEEN_BEFORE.run(tx, agent_id=agent_id, seen_at=seen_at)


def describe(tx: Transaction, agent_id: str, description: str, capabilities: tuple[str, ...]) -> None:
    """Changes an agent's description and capabilities."""
    _DESCRIBE.run(tx, agent_id=agent_id, new_description=description, new_capabilities=_json(capabilities))


def revoke(tx: Transaction, agent_id: str) -> bool:
    """Revokes an agent and its tokens. Returns False if the agent does not exist."""
    _end_tokens(tx, agent_id)
    return bool(_REVOKE.run(tx, agent_id=agent_id, now=tx.now))


def rotate(tx: Transaction, agent_id: str, token_hash: str) -> None:
    """Replaces all tokens of an agent with one new token."""
    _end_tokens(tx, agent_id)
    _ADD_TOKEN.run(tx, token_hash=token_hash, agent_id=agent_id, now=tx.now)


def _end_tokens(tx: Transaction, agent_id: str) -> None:
    """Ends an agent's tokens, and with them the instance that has one."""
    _REVOKE_TOKENS.run(tx, of_agent=agent_id, now=tx.now)
    _LEAVE_ALL.run(tx, of_agent=agent_id)


def _add(tx: Transaction, agent: Agent) -> bool:
    added = _ADD.run(
        tx,
        id=agent.id,
        name=agent.name,
        role=agent.role,
        description=agent.description,
        capabilities=_json(agent.capabilities),
        now=tx.now,
        reach=agent.reach,
        enrolled=agent.enrolled,
    )
    return bool(added)


def _json(values: tuple[str, ...]) -> str:
    return orjson.dumps(list(values)).decode()


_instance = row_mapper(Instance)
_agent = row_mapper(Agent, "token_hash", capabilities=lambda row: tuple(orjson.loads(row["capabilities"])))


_n = func.count().label("n")


def _loads(*, shown_only: bool) -> Statement:
    open_tasks = select(literal_column("'open_tasks'").label("what"), tasks.c.agent_id, _n).where(
        tasks.c.ended_at.is_(None), tasks.c.agent_id.is_not(None)
    )
    owned = select(literal_column("'threads_owned'"), threads.c.owner_id, _n).where(threads.c.owner_id.is_not(None))
    running = select(literal_column("'running'"), leases.c.agent_id, _n).where(
        leases.c.ended_at.is_(None),
        leases.c.kind == literally(LeaseKind.WORK),
    )
    if shown_only:
        open_tasks = open_tasks.where(~_is_in_silent_thread(tasks.c.thread_id))
        owned = owned.where(threads.c.silence.is_distinct_from(literally(Silence.SILENT)))
        running = running.where(
            ~_is_in_silent_thread(leases.c.thread_id), ~_has_message(silent=True) | _has_message(silent=False)
        )
    return Statement(
        union_all(
            open_tasks.group_by(tasks.c.agent_id),
            owned.group_by(threads.c.owner_id),
            running.group_by(leases.c.agent_id),
        )
    )


def _is_in_silent_thread(thread_id: ColumnElement[Any]) -> ColumnElement[bool]:
    silent = threads.alias()
    return exists().where(silent.c.id == thread_id, silent.c.silence == literally(Silence.SILENT))


def _has_message(*, silent: bool) -> ColumnElement[bool]:
    members = lease_members.join(inbox_messages, inbox_messages.c.id == lease_members.c.inbox_message_id)
    return (
        exists()
        .select_from(members)
        .where(lease_members.c.token == leases.c.token, inbox_messages.c.silent.is_(silent))
    )


_LOADS = _loads(shown_only=False)
_SHOWN_LOADS = _loads(shown_only=True)


def loads(tx: Transaction, *, shown_only: bool = False) -> Mapping[str, Load]:
    """Returns the open tasks, owned threads and running work of each agent that has any, by agent id.

    One statement covers all agents. ``shown_only`` leaves out work for which nobody has asked, for what people see.
    """
    counts: dict[str, dict[str, int]] = {}
    for row in (_SHOWN_LOADS if shown_only else _LOADS).all(tx):
        counts.setdefault(row["agent_id"], {})[row["what"]] = row["n"]
    return {agent_id: Load(**found) for agent_id, found in counts.items()}
