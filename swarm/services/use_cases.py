"""All use cases in one hand, for the doors and the tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from swarm.domain.conduct import Conduct
from swarm.domain.files import DEFAULT_CAP_BYTES
from swarm.domain.ports import Directory, SlackFiles
from swarm.domain.routing import Me
from swarm.services.agents import Agents
from swarm.services.claim import Polls
from swarm.services.conversations import Conversations
from swarm.services.credentials import Credentials
from swarm.services.delegate import Delegations
from swarm.services.explain import Explanations
from swarm.services.files import Files
from swarm.services.inbox import Inbox
from swarm.services.messages import Messages
from swarm.services.model_runs import ModelRuns
from swarm.services.overview import Overview
from swarm.services.people import People
from swarm.services.presence import Presence
from swarm.services.reply import Replies
from swarm.services.stream import Streams
from swarm.services.task_work import TaskWork
from swarm.services.tasks import Tasks
from swarm.services.team import Team
from swarm.services.trays import Trays
from swarm.services.triggers import Triggers
from swarm.services.uploads import Uploads
from swarm.services.work import Work
from swarm.store.database import Database


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
