"""Reassigns unread messages of an offline agent to an online lead; without a lead, posts in the thread.

Each thread has its own transaction, so that two concurrent rounds cannot deadlock.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.inbox import MatchedBy
from swarm.domain.model.threads import Thread
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.roster import Roster
from swarm.services.rules.guarded import attempt
from swarm.services.rules.participants import read_roster
from swarm.services.rules.system_messages import tell_failover, tell_queued
from swarm.services.rules.task_ends import tell_result
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices, queues
from swarm.store.inbox.notices import Notice
from swarm.store.threads import threads

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

    def __bool__(self) -> bool:
        return bool(self.waiting or self.stranded or self.unheard_results)


async def failover_offline_agents(database: Database, operating_policy: OperatingPolicy) -> None:
    """Reassigns unread messages and notices of offline or removed agents to an online lead.

    Without an online lead, posts in the thread that its messages are waiting.
    """
    found = await database.read(find_work, operating_policy)
    for waits in found.waiting:
        work = database.write(reassign_unread, waits, operating_policy)
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
    offline_since = tx.now - int(operating_policy.offline_after_seconds * SECOND)
    return FailoverWork(
        waiting=_waiting(tx, roster, offline_since),
        stranded=_stranded(tx, roster, offline_since),
        unheard_results=_unheard_results(tx, roster, offline_since),
    )


def _unheard_results(tx: Transaction, roster: Roster, offline_since: int) -> list[Notice]:
    if roster.default_lead and roster.default_lead.online:
        return []  # the lead gets the notice and posts the result
    found = notices.unreported_results(tx, offline_since, BATCH)
    here = {agent.id for agent in roster.agents if agent.online}
    return [notice for notice in found if notice.agent_id not in here]


def _stranded(tx: Transaction, roster: Roster, offline_since: int) -> list[Notice]:
    lead = roster.default_lead
    return notices.undeliverable(tx, offline_since, BATCH, lead_is_online=lead.online) if lead else []


def _waiting(tx: Transaction, roster: Roster, offline_since: int) -> list[UnreadOfOffline]:
    lead = roster.default_lead
    found = queues.unserved_lanes(
        tx,
        offline_since,
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


def reassign_unread(tx: Transaction, found: UnreadOfOffline, operating_policy: OperatingPolicy) -> None:
    """Reassigns the messages of one thread if nothing has changed since the search."""
    thread = threads.locked(tx, found.thread_id)
    roster = read_roster(tx, operating_policy)
    if found.agent_id is None:
        _address(tx, thread, roster)
        return
    agent = roster.by_id(found.agent_id)
    if agent is None or not agent.online:
        _move_on(tx, thread, roster, found.agent_id)


def _address(tx: Transaction, thread: Thread, roster: Roster) -> None:
    """Assigns messages without an agent to the default lead after a lead is registered."""
    lead = roster.default_lead
    if lead:
        for inbox_message in inbox.unaddressed_in_thread(tx, thread.id):
            _give(tx, thread, inbox_message, lead.id, "a lead is registered now")


def _move_on(tx: Transaction, thread: Thread, roster: Roster, agent_id: str) -> None:
    """Reassigns an offline agent's unread messages in a thread to the default lead, if the lead is online."""
    lead = roster.default_lead
    gone = roster.by_id(agent_id)
    if lead is None or lead.id == agent_id or not (lead.online or gone is None):
        tell_queued(tx, thread, roster, [gone] if gone else [])
        return
    reason = f"{gone.name} is offline" if gone else "its agent was removed"
    unread = inbox.unread_in_thread(tx, agent_id, thread.id)
    for inbox_message in unread:
        _give(tx, thread, inbox_message, lead.id, f"{reason}, so the default lead gets it")
    if not lead.online:
        tell_queued(tx, thread, roster, [lead])
    elif gone and any(inbox_message.matched_by is MatchedBy.ADDRESS for inbox_message in unread):
        tell_failover(tx, thread, [gone], lead)


def _give(tx: Transaction, thread: Thread, inbox_message: inbox.InboxMessage, agent_id: str, reason: str) -> None:
    """Reassigns an unread message to an agent, and also the thread if it has no other owner."""
    inbox.readdress(tx, inbox_message, agent_id, reason)
    if thread.owner_id in (None, inbox_message.agent_id):
        threads.hand_over(tx, threads.locked(tx, thread.id), agent_id, reason)
