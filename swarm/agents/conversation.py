"""Computes the id of a conversation with an agent from the place of the conversation, so that no lookup is needed."""

from __future__ import annotations

from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from swarm.domain.answers.agents import Dialect, RemoteAgent

_NAMESPACE: Final = UUID("0d2f3c68-8a5e-5b0c-9d3a-6f1f5f0f7c11")
"""The namespace of all our conversation ids. It never changes, because agents store conversations under these ids."""

CAIPE_NAMESPACE: Final = uuid5(NAMESPACE_URL, "slack.caipe.io")
"""The namespace of the conversation ids created by CAIPE's own Slack bot."""


def conversation_id(team: str, channel: str, thread_ts: str, *, namespace: UUID = _NAMESPACE) -> str:
    """Returns one UUID for all runs in a thread, different for every thread (RFC 9562, version 5)."""
    return str(uuid5(namespace, f"{team}/{channel}/{thread_ts}"))


def caipe_conversation_id(thread_ts: str, *, namespace: UUID = CAIPE_NAMESPACE) -> str:
    """Returns the id that CAIPE's own Slack bot would create, computed from the thread's timestamp only."""
    return str(uuid5(namespace, thread_ts))


def conversation_with(agent: RemoteAgent, *, team: str, channel: str, thread_ts: str) -> str:
    """Returns the id of an agent's conversation in a thread, using the agent's dialect and namespace."""
    if agent.dialect is Dialect.CAIPE:
        return caipe_conversation_id(thread_ts, namespace=agent.namespace or CAIPE_NAMESPACE)
    return conversation_id(team, channel, thread_ts, namespace=agent.namespace or _NAMESPACE)
