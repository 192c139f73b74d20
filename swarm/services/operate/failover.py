"""Reassigns unread messages of an offline agent to an online lead; without a lead, posts in the thread.

Each thread has its own transaction, so that two concurrent rounds cannot deadlock. The lead gets no message whose
author may not use it: such a message waits for its agent, and is withdrawn if it has none. Slack is asked about authors
only if the lead has lists of people; while it does not answer, their messages wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.inbox import InboxStep, MatchedBy
from swarm.domain.model.threads import Author, Thread
from swarm.domain.policy.access import AgentAccess, agent_denial, may_use
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Candidate, Roster
from swarm.services.ground.guarded import attempt
from swarm.services.speaking.participants import Standings, offline_since, read_roster
from swarm.services.speaking.system_messages import tell_failover, tell_queued, tell_refused_later
from swarm.services.work.task_ends import tell_result
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices, queues
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.notices import Notice
from swarm.store.threads import threads, transcript

BATCH: Final = 200
"""The number of threads per round; the next round handles the others."""


@dataclass(frozen=True, slots=True)
class UnreadOfOffline:
    """A thread with unread messages for an agent, or for any lead if the agent is None."""

    thread_id: str
    agent_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FailoverWork:
    """The work of one round."""

    waiting: list[UnreadOfOffline]  # threads with unread messages of offline agents that can be reassigned
    stranded: list[Notice]  # notices for offline creators of tasks that a lead could take
    unheard_results: list[Notice]  # results that neither an online agent nor the thread has received
    limited_lead: str | None = None  # the default lead's name, if the operator limits its use

    def __bool__(self) -> bool:
        return bool(self.waiting or self.stranded or self.unheard_results)


Authors = Mapping[str, Author]
"""The authors of waiting messages, by inbox message, with what decides whether they may use the lead."""


async def failover_offline_agents(
    database: Database, operating_policy: OperatingPolicy, standings: Standings | None = None
) -> None:
    """Reassigns unread messages and notices of offline or removed agents to an online lead.

    Without an online lead, posts in the thread that its messages are waiting. Without ``standings``, messages stay
    whose authors Slack has to be asked about.
    """
    found = await database.read(find_work, operating_policy)
    for waits in found.waiting:
        lead = found.limited_lead
        authors = await _authors(database, operating_policy, standings, waits, lead) if lead else {}
        if authors is None:
            continue
        work = database.write(reassign_unread, waits, operating_policy, authors)
        await attempt(work, "look_after_offline", thread=waits.thread_id, agent=waits.agent_id)
        await asyncio.sleep(0)
    for notice in found.stranded:
        work = database.write(reassign_notice, notice, operating_policy)
        await attempt(work, "pass_on", notice=notice.id, agent=notice.agent_id)
    for notice in found.unheard_results:
        await attempt(database.write(tell_result, notice.task_id or ""), "tell_result", task=notice.task_id)


def find_work(tx: Transaction, operating_policy: OperatingPolicy) -> FailoverWork:
    """Finds the work without locks; each step checks again before acting."""
    roster = read_roster(tx, operating_policy)
    gone_since = offline_since(tx, operating_policy)
    lead = roster.default_lead
    return FailoverWork(
        waiting=_waiting(tx, roster, gone_since),
        stranded=_stranded(tx, roster, gone_since),
        unheard_results=_unheard_results(tx, roster, gone_since),
        limited_lead=lead.name if lead and lead.name in operating_policy.agent_access else None,
    )


async def _authors(
    database: Database,
    operating_policy: OperatingPolicy,
    standings: Standings | None,
    waits: UnreadOfOffline,
    lead: str,
) -> Authors | None:
    """Returns the authors of a thread's waiting messages, as far as Slack identifies them; None if nobody may use the
    lead and the thread has been told that its messages wait.
    """
    channel, is_told, authors = await database.read(_read_authors, waits)
    if standings:
        authors = {message_id: await standings.ready(author, channel, [lead]) for message_id, author in authors.items()}
    limit = operating_policy.agent_access.get(lead)
    is_any_allowed = any(may_use(limit, author, channel) for author in authors.values())
    return authors if is_any_allowed or not is_told or waits.agent_id is None else None


def _read_authors(tx: Transaction, waits: UnreadOfOffline) -> tuple[str, bool, dict[str, Author]]:
    """Returns the channel of a thread, whether it has been told of the wait, and the authors by inbox message."""
    thread = threads.get(tx, waits.thread_id)
    assert thread is not None  # threads referenced by inbox messages are never deleted
    found = inbox.waiting_for(tx, waits.agent_id, waits.thread_id)
    authors = {one.id: transcript.author_of(tx, one.team, one.channel, one.ts) for one in found}
    is_told = thread.queued_notice_at is not None
    return thread.channel, is_told, {message_id: author for message_id, author in authors.items() if author}


def _unheard_results(tx: Transaction, roster: Roster, gone_since: int) -> list[Notice]:
    if roster.default_lead and roster.default_lead.online:
        return []  # the lead gets the notice and posts the result
    found = notices.unreported_results(tx, gone_since, BATCH)
    here = {agent.id for agent in roster.agents if agent.online}
    return [notice for notice in found if notice.agent_id not in here]


def _stranded(tx: Transaction, roster: Roster, gone_since: int) -> list[Notice]:
    lead = roster.default_lead
    return notices.undeliverable(tx, gone_since, BATCH, lead_is_online=lead.online) if lead else []


def _waiting(tx: Transaction, roster: Roster, gone_since: int) -> list[UnreadOfOffline]:
    lead = roster.default_lead
    found = queues.unserved_lanes(
        tx,
        gone_since,
        lead_exists=lead is not None,
        lead_is_online=lead is not None and lead.online,
        limit=BATCH,
    )
    unaddressed = {inbox_message.thread_id for inbox_message in inbox.unaddressed(tx, BATCH)} if lead else set()
    return [UnreadOfOffline(thread_id, None) for thread_id in sorted(unaddressed)] + [
        UnreadOfOffline(thread_id, agent_id) for thread_id, agent_id in sorted(found)
    ]


def reassign_notice(tx: Transaction, notice: Notice, operating_policy: OperatingPolicy) -> None:
    """Reassigns a task notice of an offline creator to the default lead if nothing has changed since the search."""
    roster = read_roster(tx, operating_policy)
    agent, lead = roster.by_id(notice.agent_id), roster.default_lead
    if lead is None or lead.id == notice.agent_id or (agent and (agent.online or not lead.online)):
        return
    notices.readdress(tx, notice, lead.id, f"{agent.name} is offline" if agent else "its agent was removed")


def reassign_unread(
    tx: Transaction, found: UnreadOfOffline, operating_policy: OperatingPolicy, authors: Authors
) -> None:
    """Reassigns the messages of one thread if nothing has changed since the search."""
    thread = threads.locked(tx, found.thread_id)
    roster = read_roster(tx, operating_policy)
    lead = roster.default_lead
    limit = operating_policy.agent_access.get(lead.name) if lead else None
    if found.agent_id is None:
        _address(tx, thread, lead, limit, authors)
        return
    agent = roster.by_id(found.agent_id)
    if agent is None or not agent.online:
        _move_on(tx, thread, roster, found.agent_id, limit, authors)


def _address(
    tx: Transaction, thread: Thread, lead: Candidate | None, limit: AgentAccess | None, authors: Authors
) -> None:
    """Assigns messages without an agent to the default lead after a lead is registered."""
    if lead is None:
        return
    unaddressed = inbox.unaddressed_in_thread(tx, thread.id)
    for inbox_message in _permitted(tx, thread, unaddressed, limit, authors, refuses=True):
        _give(tx, thread, inbox_message, lead.id, "a lead is registered now")


def _move_on(
    tx: Transaction, thread: Thread, roster: Roster, agent_id: str, limit: AgentAccess | None, authors: Authors
) -> None:
    """Reassigns an offline agent's unread messages in a thread to the default lead, if the lead is online."""
    lead = roster.default_lead
    gone = roster.by_id(agent_id)
    if lead is None or lead.id == agent_id or not (lead.online or gone is None):
        tell_queued(tx, thread, roster, [gone] if gone else [])
        return
    reason = f"{gone.name} is offline" if gone else "its agent was removed"
    unread = inbox.unread_in_thread(tx, agent_id, thread.id)
    permitted = _permitted(tx, thread, unread, limit, authors, refuses=gone is None)
    for inbox_message in permitted:
        _give(tx, thread, inbox_message, lead.id, f"{reason}, so the default lead gets it")
    if gone and len(permitted) < len(unread):
        tell_queued(tx, thread, roster, [gone])
    elif not lead.online:
        tell_queued(tx, thread, roster, [lead])
    elif gone and any(inbox_message.matched_by is MatchedBy.ADDRESS for inbox_message in permitted):
        tell_failover(tx, thread, [gone], lead)


def _permitted(
    tx: Transaction,
    thread: Thread,
    waiting: Sequence[InboxMessage],
    limit: AgentAccess | None,
    authors: Authors,
    *,
    refuses: bool,
) -> list[InboxMessage]:
    """Returns the messages whose authors may use the lead. With ``refuses``, withdraws those whose authors may not."""
    permitted: list[InboxMessage] = []
    for inbox_message in waiting:
        author = authors.get(inbox_message.id) if limit else None
        denied = agent_denial(author, limit, thread.channel) if limit and author else None
        if limit is None or (author and denied is None):
            permitted.append(inbox_message)
        elif refuses and author and denied and not denied.missing:
            inbox.move(tx, InboxStep.WITHDRAW, inbox_message, reason=denied.reason)
            tell_refused_later(tx, thread, author, denied)
    return permitted


def _give(tx: Transaction, thread: Thread, inbox_message: InboxMessage, agent_id: str, reason: str) -> None:
    """Reassigns an unread message to an agent, and also the thread if it has no other owner."""
    inbox.readdress(tx, inbox_message, agent_id, reason)
    if thread.owner_id in (None, inbox_message.agent_id):
        threads.hand_over(tx, threads.locked(tx, thread.id), agent_id, reason)
