"""All use cases in one hand, for the doors and the tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from swarm.domain.conduct import Conduct
from swarm.domain.ports import Directory
from swarm.domain.routing import Me
from swarm.services.agents import Agents
from swarm.services.claim import Polls
from swarm.services.explain import Explanations
from swarm.services.inbox import Inbox
from swarm.services.overview import Overview
from swarm.services.presence import Presence
from swarm.services.reply import Replies
from swarm.services.triggers import Triggers
from swarm.services.work import Work
from swarm.store.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """The use cases that doors and tools call."""

    agents: Agents
    polls: Polls
    work: Work
    replies: Replies
    inbox: Inbox
    explanations: Explanations
    overview: Overview

    @classmethod
    def over(cls, database: Database, directory: Directory, me: Me, conduct: Conduct) -> Self:
        """Everything over one database, for the bot that we are in Slack."""
        triggers = Triggers(database, directory, me)
        presence = Presence(database, conduct)
        polls = Polls(database, triggers, presence, conduct.reactions)
        return cls(
            agents=Agents(database, conduct),
            polls=polls,
            work=Work(database, polls, presence, conduct.reactions),
            replies=Replies(database, conduct.reactions),
            inbox=Inbox(database, triggers),
            explanations=Explanations(database, me.team),
            overview=Overview(database),
        )
