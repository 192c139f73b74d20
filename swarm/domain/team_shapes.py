"""The JSON of the team: agents with their load, and the messages between them. Times are ISO 8601 in UTC."""

from __future__ import annotations

from typing_extensions import TypedDict

from swarm.clock import to_iso
from swarm.domain.model.agents import Agent, AgentMessage, Load
from swarm.domain.shapes import AgentShape, UserShape, agent_shape


class LoadShape(TypedDict):
    """The current load of an agent."""

    open_tasks: int
    threads_owned: int
    running: int


class MemberShape(AgentShape):
    """An agent with its load."""

    load: LoadShape


class AddresseeShape(TypedDict):
    """The recipient of a message: an online agent gets it at once, an offline one on its return."""

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
"""A message between agents as one of them reads it. Functional syntax, since ``from`` is a keyword of Python."""


def member_shape(agent: Agent, load: Load, *, online: bool) -> MemberShape:
    """Returns an agent with its load."""
    return {
        **agent_shape(agent, online=online),
        "load": {"open_tasks": load.open_tasks, "threads_owned": load.threads_owned, "running": load.running},
    }


def addressee_shape(agent: Agent, *, online: bool) -> AddresseeShape:
    """Returns the recipient of a message."""
    return {"id": agent.id, "name": agent.name, "status": "online" if online else "offline"}


def agent_message_shape(message: AgentMessage) -> AgentMessageShape:
    """Returns a whole message."""
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
