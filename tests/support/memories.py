"""Memories of built-in agents that are registered, as those of a coordinator are."""

from __future__ import annotations

from swarm.domain.answers.agents import StreamingAgent
from swarm.domain.model.agents import Reach
from swarm.services.builtin.sessions import BuiltInOwner, DatabaseMemory
from swarm.services.runs.streaming_agents import register
from swarm.store.bridge.database import Database


async def registered(database: Database, name: str, *, formerly: str = "", reach: Reach = Reach.BUILTIN) -> str:
    """An agent's id."""
    agent = await database.write(register, StreamingAgent(name=name, reach=reach, formerly=formerly))
    return agent.id


async def memory_of(database: Database, name: str) -> DatabaseMemory:
    """The memory of a built-in agent, which is registered if it is not."""
    await registered(database, name)
    return DatabaseMemory(database, BuiltInOwner(name), None)
