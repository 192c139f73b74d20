"""All use cases in one hand, for the doors and the tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from swarm.domain.conduct import Conduct
from swarm.domain.model.files import DEFAULT_CAP_BYTES
from swarm.domain.ports import Directory, SlackFiles
from swarm.domain.routing import Me
from swarm.services.builtin.model_runs import ModelRuns
from swarm.services.files.files import Files
from swarm.services.files.uploads import Uploads
from swarm.services.inbox.claim import Polls
from swarm.services.inbox.conversations import Conversations
from swarm.services.inbox.inbox import Inbox
from swarm.services.inbox.trays import Trays
from swarm.services.inbox.triggers import Triggers
from swarm.services.inbox.work import Work
from swarm.services.operate.agents import Agents
from swarm.services.operate.explain import Explanations
from swarm.services.operate.messages import Messages
from swarm.services.operate.overview import Overview
from swarm.services.operate.people import People
from swarm.services.operate.presence import Presence
from swarm.services.operate.team import Team
from swarm.services.rules.credentials import Credentials
from swarm.services.rules.reply import Replies
from swarm.services.runs.stream import Streams
from swarm.services.tasks.delegate import Delegations
from swarm.services.tasks.task_work import TaskWork
from swarm.services.tasks.tasks import Tasks
from swarm.store.bridge.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """The use cases that doors and tools call."""

    agents: Agents
    polls: Polls
    work: Work
    replies: Replies
    streams: Streams
    delegations: Delegations
    tasks: Tasks
    task_work: TaskWork
    inbox: Inbox
    conversations: Conversations
    files: Files
    uploads: Uploads
    trays: Trays
    team: Team
    messages: Messages
    explanations: Explanations
    overview: Overview
    model_runs: ModelRuns
    people: People

    @classmethod
    def over(
        cls,
        database: Database,
        directory: Directory,
        me: Me,
        conduct: Conduct,
        slack_files: SlackFiles,
        *,
        file_cap_bytes: int = DEFAULT_CAP_BYTES,
        forget_name: Callable[[str], None] = lambda person: None,
    ) -> Self:
        """Everything over one database, for the bot that we are in Slack."""
        triggers = Triggers(directory, me, conduct)
        presence = Presence(database, conduct)
        credentials = Credentials(database)
        polls = Polls(database, triggers, presence, conduct, credentials)
        return cls(
            agents=Agents(database, conduct, credentials),
            polls=polls,
            work=Work(database, polls, presence, conduct),
            replies=Replies(database, conduct.reactions),
            streams=Streams(database, conduct),
            delegations=Delegations(database, conduct),
            tasks=Tasks(database, conduct),
            task_work=TaskWork(database, conduct),
            inbox=Inbox(database, triggers, conduct.reactions),
            conversations=Conversations(database, triggers),
            files=Files(database, slack_files, cap_bytes=file_cap_bytes),
            uploads=Uploads(database, slack_files, cap_bytes=file_cap_bytes),
            trays=Trays(database, triggers),
            team=Team(database, conduct),
            messages=Messages(database, conduct),
            explanations=Explanations(database, me.team),
            overview=Overview(database),
            model_runs=ModelRuns(database),
            people=People(database, conduct, directory, forget_name),
        )
