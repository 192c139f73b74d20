"""All use cases in one object, for entry points and tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from swarm.domain.model.files import DEFAULT_CAP_BYTES
from swarm.domain.model.runs import MOST_LOG_BYTES
from swarm.domain.policy.access import Me
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import NO_GROUPS, Directory, SlackFiles, UserGroups
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm.services.files.files import ThreadFiles
from swarm.services.files.uploads import Uploads
from swarm.services.ground.credentials import AgentTokenCache
from swarm.services.inbox.inbox import Conversations, Inbox, Trays
from swarm.services.inbox.polls import Polls
from swarm.services.inbox.replies import Replies
from swarm.services.inbox.run_calls import RunCalls
from swarm.services.inbox.run_logs import RunLogs
from swarm.services.inbox.triggers import Triggers
from swarm.services.inbox.work import Work
from swarm.services.operate.agents import AgentRegistry
from swarm.services.operate.explain import Explanations
from swarm.services.operate.messages import Messages
from swarm.services.operate.on_call import Escalations
from swarm.services.operate.overview import Overview
from swarm.services.operate.people import PersonalData
from swarm.services.operate.team import Presence, TeamDirectory
from swarm.services.outbox.resend import Resending
from swarm.services.requests.budgets import RunUsage
from swarm.services.requests.deciding import RequestDecisions
from swarm.services.requests.human_requests import HumanRequests
from swarm.services.runs.stream import AnswerStreams
from swarm.services.speaking.participants import Standings
from swarm.services.tasks.delegate import Delegations
from swarm.services.tasks.task_work import TaskWork
from swarm.services.tasks.tasks import Tasks
from swarm.store.bridge.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """The use cases for entry points and tools."""

    agents: AgentRegistry
    polls: Polls
    work: Work
    run_calls: RunCalls
    replies: Replies
    streams: AnswerStreams
    delegations: Delegations
    tasks: Tasks
    task_work: TaskWork
    inbox: Inbox
    conversations: Conversations
    files: ThreadFiles
    uploads: Uploads
    trays: Trays
    team: TeamDirectory
    messages: Messages
    explanations: Explanations
    overview: Overview
    resending: Resending
    model_usage: ModelUsageLog
    run_logs: RunLogs
    run_usage: RunUsage
    people: PersonalData
    requests: HumanRequests
    decisions: RequestDecisions
    escalations: Escalations

    @classmethod
    def over(
        cls,
        database: Database,
        directory: Directory,
        me: Me,
        operating_policy: OperatingPolicy,
        slack_files: SlackFiles,
        *,
        file_cap_bytes: int = DEFAULT_CAP_BYTES,
        run_log_cap_bytes: int = MOST_LOG_BYTES,
        forget_name: Callable[[str], None] = lambda person: None,
        groups: UserGroups = NO_GROUPS,
        standings: Standings | None = None,
    ) -> Self:
        """Creates all use cases on one database, for the swarm's bot in Slack."""
        triggers = Triggers(directory, me, operating_policy)
        presence = Presence(database, operating_policy)
        credentials = AgentTokenCache(database)
        polls = Polls(database, triggers, presence, operating_policy, credentials)
        requests = HumanRequests(database, operating_policy)
        return cls(
            agents=AgentRegistry(database, operating_policy, credentials),
            polls=polls,
            work=Work(database, polls, presence, operating_policy),
            run_calls=RunCalls(database, triggers),
            replies=Replies(database, operating_policy),
            streams=AnswerStreams(database, operating_policy),
            delegations=Delegations(database, operating_policy, standings),
            tasks=Tasks(database, operating_policy, standings),
            task_work=TaskWork(database, operating_policy),
            inbox=Inbox(database, triggers, operating_policy),
            conversations=Conversations(database, triggers),
            files=ThreadFiles(database, slack_files, cap_bytes=file_cap_bytes),
            uploads=Uploads(database, slack_files, cap_bytes=file_cap_bytes),
            trays=Trays(database, triggers),
            team=TeamDirectory(database, operating_policy),
            messages=Messages(database, operating_policy),
            explanations=Explanations(database, me.team),
            overview=Overview(database),
            resending=Resending(database, operating_policy),
            model_usage=ModelUsageLog(database),
            run_logs=RunLogs(database, run_log_cap_bytes),
            run_usage=RunUsage(database, operating_policy, requests),
            people=PersonalData(database, operating_policy, directory, forget_name),
            requests=requests,
            decisions=RequestDecisions(database, operating_policy, me.team, groups, standings),
            escalations=Escalations(database, operating_policy, directory),
        )
