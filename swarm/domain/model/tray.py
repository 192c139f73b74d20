"""The tray: what lies before an agent, in brief."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swarm.domain.model.agent_messages import AgentMessage


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """One unread message in a tray: the beginning of the new message, not of the thread."""

    inbox_message_id: str
    sender: str
    channel: str
    preview: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tray:
    """What lies before an agent."""

    unread: int
    previews: tuple[Preview, ...]
    mentions: int  # unread messages of other agents: direct ones, and those that mention it in a channel
    messages: tuple[AgentMessage, ...]  # the first of them
    tasks: Mapping[str, int]  # its open tasks by status
    threads_owned: int
