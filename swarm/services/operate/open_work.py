"""The open work of people, and the swarm's condition, as people see them: without work for which nobody has asked.

Nothing is locked, and the cost does not grow with finished work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from swarm.clock import SECOND
from swarm.domain.commands import AgentCard, ChannelListening, DecisionWanted, OpenWork, SwarmCondition, WorkState
from swarm.domain.model.agents import IDLE
from swarm.domain.model.requests import HumanRequest, RequestStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import Author
from swarm.domain.policy.access import Me
from swarm.domain.policy.decision_rules import GroupMembers, eligible_people
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.shown import notified_title
from swarm.domain.text.slack_text import without_leading_mention
from swarm.services.operate.agents import read_team
from swarm.services.requests.asking import eligible_now
from swarm.services.speaking.participants import may_use, read_roster
from swarm.store import agents, requests
from swarm.store.admin import open_counts
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import open_work, threads

TITLE_CHARACTERS: Final = 120
MOST_TASKS: Final = 200
MOST_REQUESTS: Final = 200

_TASK_STATES: Final[Mapping[TaskStatus, WorkState]] = {
    TaskStatus.IN_PROGRESS: WorkState.RUNNING,
    TaskStatus.WAITING: WorkState.ASKING,
    TaskStatus.BLOCKED: WorkState.BLOCKED,
}

_ORDER: Final = (WorkState.ASKING, WorkState.RUNNING, WorkState.BLOCKED, WorkState.QUEUED)


def own_messages(tx: Transaction, people: Collection[str], me: Me) -> list[OpenWork]:
    """Returns the threads with unanswered messages of people, one for each thread, agent and person, oldest first.

    The title is the oldest message's, the state is that of the message that has got furthest.
    """
    names = agents.names(tx)
    found: dict[tuple[str, str, str], OpenWork] = {}
    for row in open_work.messages(tx, people, TITLE_CHARACTERS * 2):
        state = WorkState(row["state"])
        key = (row["thread_id"], row["agent_id"], row["requester"])
        known = found.get(key)
        if known and _ORDER.index(known.state) <= _ORDER.index(state):
            continue
        title = known.title if known else without_leading_mention(row["title"])
        found[key] = _work(row, title, state, names, me)
    return list(found.values())


def own_tasks(tx: Transaction, people: Collection[str], me: Me) -> list[OpenWork]:
    """Returns the open tasks that people have asked for, oldest first."""
    return _tasks(tx, open_work.tasks_of(tx, people, MOST_TASKS), me)


def tasks_in_channel(tx: Transaction, channel: str, me: Me) -> list[OpenWork]:
    """Returns the open tasks in the threads of a channel, oldest first."""
    return _tasks(tx, open_work.tasks_in_channel(tx, me.team, channel, MOST_TASKS), me)


def _tasks(tx: Transaction, rows: list[Row], me: Me) -> list[OpenWork]:
    names = agents.names(tx) if rows else {}
    return [
        _work(
            row,
            row["title"],
            _TASK_STATES.get(TaskStatus(row["status"]), WorkState.QUEUED),
            names,
            me,
            task_id=row["id"],
        )
        for row in rows
    ]


def _work(
    row: Row, title: str, state: WorkState, names: Mapping[str, str], me: Me, task_id: str | None = None
) -> OpenWork:
    return OpenWork(
        thread_id=row["thread_id"],
        channel=row["channel"],
        thread_ts=row["thread_ts"],
        link=me.link(row["channel"], row["thread_ts"]),
        title=title,
        state=state,
        agent=names.get(row["agent_id"] or ""),
        since=row["created_at"],
        requester=row["requester"],
        task_id=task_id,
    )


def open_requests(tx: Transaction) -> list[HumanRequest]:
    """Returns the open requests, the newest first, up to a maximum."""
    return requests.latest(tx, RequestStatus.OPEN, MOST_REQUESTS)


def decisions_wanted(
    tx: Transaction, found: Collection[HumanRequest], person: str, members: GroupMembers, me: Me
) -> list[DecisionWanted]:
    """Returns the requests that name this person as one who may decide, and wait for the decision.

    A request that anybody but the requester may decide names nobody: its title may come from a private channel.
    """
    return [
        DecisionWanted(
            title=notified_title(request), agent=request.agent, link=_link(tx, request, me), since=request.created_at
        )
        for request in found
        if person in (eligible_people(request.policy, request.requesters, members) or ())
        and person in (eligible_now(tx, request, members) or ())  # strangers who have asked may not
        and all(answer.person != person for answer in request.answers)
    ]


def _link(tx: Transaction, request: HumanRequest, me: Me) -> str:
    thread = threads.get(tx, request.thread_id) if request.thread_id else None
    return me.link(thread.channel, thread.thread_ts) if thread else ""


def team(tx: Transaction, operating_policy: OperatingPolicy) -> tuple[AgentCard, ...]:
    """Returns all agents, oldest first."""
    loads = agents.loads(tx, shown_only=True)
    return tuple(
        AgentCard(
            name=one.agent.name,
            role=one.agent.role,
            description=one.agent.description,
            online=one.online,
            parked_seconds=max(0, (one.agent.parked_until or 0) - tx.now) // SECOND,
            load=loads.get(one.agent.id, IDLE),
        )
        for one in read_team(tx, operating_policy)
    )


def usable(
    found: Iterable[AgentCard], person: Author, channel: str, operating_policy: OperatingPolicy
) -> tuple[AgentCard, ...]:
    """Returns the agents that a person may use in a conversation."""
    return tuple(agent for agent in found if may_use(agent.name, person, channel, operating_policy))


def condition(
    tx: Transaction, person: Author, channel: str, is_visible: bool, operating_policy: OperatingPolicy
) -> SwarmCondition:
    """Returns whether the swarm is well, and who answers in a conversation."""
    unread, oldest = open_counts.unread(tx, shown_only=True)
    return SwarmCondition(
        agents=usable(team(tx, operating_policy), person, channel, operating_policy),
        inbox_unread=unread,
        oldest_unread_seconds=max(tx.now - oldest, 0) // SECOND if oldest is not None else 0,
        tasks_open=open_counts.tasks_shown(tx),
        here=_listening(tx, channel, is_visible, operating_policy),
    )


def _listening(tx: Transaction, channel: str, is_visible: bool, operating_policy: OperatingPolicy) -> ChannelListening:
    """Returns the agent that routing would choose for a mention."""
    roster, policy = read_roster(tx, operating_policy), operating_policy.policy(channel)
    agent = roster.by_name(policy.agent) or roster.default_lead
    return ChannelListening(
        agent=agent.name if agent else None,
        online=agent is not None and agent.online,
        listen=policy.listen,
        is_direct=channel.startswith("D"),
        is_visible=is_visible,
    )
