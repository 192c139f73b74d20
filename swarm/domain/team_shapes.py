"""The JSON of what agents see of each other: the team with its loads, and messages. Moments are ISO 8601 in UTC."""

from __future__ import annotations

from typing_extensions import TypedDict

from swarm.clock import to_iso
from swarm.domain.model.agents import Agent, AgentMessage, Load
from swarm.domain.shapes import AgentShape, UserShape, agent_shape


class LoadShape(TypedDict):
    """What an agent has before it."""

    open_tasks: int
    threads_owned: int
    running: int


class MemberShape(AgentShape):
    """An agent, and how much it has before it."""

    load: LoadShape


class AddresseeShape(TypedDict):
    """Whom a message is meant for: online, it hears of it at once, else when it comes back."""

    id: str
    name: str
    status: str


AgentMessageShape = TypedDict(
    "AgentMessageShape",
    {
        "id": str,
        "from": UserShape,
        "to": str | None,
        "channel": str | None,
        "text": str,
        "sent_at": str,
        "for_you": bool,
        "unread": bool,
    },
)
"""A message between agents, as one of them reads it. Written as a call, since ``from`` is a word of Python's."""


def member_shape(agent: Agent, load: Load, *, online: bool) -> MemberShape:
    """An agent and its load."""
    return {
        **agent_shape(agent, online=online),
        "load": {"open_tasks": load.open_tasks, "threads_owned": load.threads_owned, "running": load.running},
    }


def addressee_shape(agent: Agent, *, online: bool) -> AddresseeShape:
    """Whom a message is meant for."""
    return {"id": agent.id, "name": agent.name, "status": "online" if online else "offline"}


def agent_message_shape(message: AgentMessage) -> AgentMessageShape:
    """A message, whole."""
    return {
        "id": message.id,
        "from": {"id": message.sender_id, "name": message.sender},
        "to": message.recipient,
        "channel": f"#{message.channel}" if message.channel else None,
        "text": message.text,
        "sent_at": to_iso(message.created_at),
        "for_you": message.for_reader,
        "unread": message.unread,
    }
