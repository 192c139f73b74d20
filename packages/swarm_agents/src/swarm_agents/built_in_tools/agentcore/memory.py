"""The tools memory-store and memory-recall: a memory at AWS that all sessions of all agents share.

A stored text is an *event*: it can be recalled immediately, by its exact words, until AWS deletes it (according to the
memory's settings). If the memory has strategies, AWS creates *records* from events within about a minute, which are
found by their meaning and are kept. A recall searches both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.built_in_tools.agentcore.sessions import UNKNOWN, Clients, bounded, in_thread, sentence
from swarm_agents.toolbox.tool import Tool, ToolAnswer, failed, object_schema

_MOST_STORED: Final = 50_000  # characters; AWS accepts 100,000 per message
_MOST_RECALLED: Final = 20
_SESSION: Final = "swarm"  # a single session, so that all events can be searched
_EVENTS: Final = 200  # the number of events to search; AWS returns the latest events first
_QUERY_CHARACTERS: Final = 10_000  # AWS's limit

_STORE: Final = (
    "Remember something for later conversations: a fact, a decision, a preference. Everybody who talks to the agents "
    "here shares this memory, so store nothing confidential."
)
_RECALL: Final = "Look up what was remembered in earlier conversations, by meaning or by words."

_STORE_PARAMETERS: Final = object_schema(
    {
        "key": {"type": "string", "minLength": 1, "description": "what it is about, in a few words"},
        "value": {"type": "string", "minLength": 1, "description": "what to remember, understandable by itself"},
        "category": {"type": "string", "default": "general", "description": "such as decision, preference, project"},
    },
    required=("key", "value"),
)
_RECALL_PARAMETERS: Final = object_schema(
    {
        "query": {"type": "string", "minLength": 1, "description": "what it is about"},
        "limit": {"type": "integer", "minimum": 1, "maximum": _MOST_RECALLED, "default": 5},
    },
    required=("query",),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Memory:
    text: str
    at: datetime
    rank: tuple[int, float]  # larger is better


def memory_tools(clients: Clients, options: AgentCoreOptions, memory_id: str) -> tuple[Tool, Tool]:
    """Returns the tools memory-store and memory-recall."""

    async def store(arguments: Mapping[str, Any]) -> ToolAnswer:
        key, value = str(arguments["key"]).strip(), str(arguments["value"]).strip()
        text = f"{key}: {value}\n(category: {arguments.get('category') or 'general'})"
        if not key or not value:
            return failed("Nothing was stored: key and value must not be empty.")
        if len(text) > _MOST_STORED:
            return failed(f"Nothing was stored: this has {len(text):,} characters; the maximum is {_MOST_STORED:,}.")
        await in_thread(lambda: _store(clients, options, memory_id, text))
        return ToolAnswer(text=f"Stored under '{key}'.")

    async def recall(arguments: Mapping[str, Any]) -> ToolAnswer:
        query = str(arguments["query"]).strip()[:_QUERY_CHARACTERS]
        if not query:
            return failed("The query must not be empty.")
        limit = min(max(int(arguments.get("limit") or 5), 1), _MOST_RECALLED)
        found = await _recall(clients, options, memory_id, query, limit)
        return ToolAnswer(text="\n".join(map(_line, found)) or "Nothing is stored about that.")

    storing = bounded("memory-store", options.memory_seconds, store)
    recalling = bounded("memory-recall", options.memory_seconds, recall)
    return (
        Tool(name="memory-store", description=_STORE, parameters=_STORE_PARAMETERS, call=storing),
        Tool(
            name="memory-recall",
            description=_RECALL,
            parameters=_RECALL_PARAMETERS,
            call=recalling,
            is_read_only=True,
        ),
    )


def _store(clients: Clients, options: AgentCoreOptions, memory_id: str, text: str) -> None:
    now = datetime.now(UTC)
    clients.memory.create_event(memory_id, options.actor_id, _SESSION, [(text, "USER")], event_timestamp=now)


async def _recall(
    clients: Clients, options: AgentCoreOptions, memory_id: str, query: str, limit: int
) -> Sequence[_Memory]:
    """Returns the best matches among records and events."""
    records, events = await asyncio.gather(
        in_thread(lambda: _records(clients, options, memory_id, query, limit)),
        in_thread(lambda: _events(clients, options, memory_id)),
    )
    found = [*map(_of_record, records), *_matching(events, query)]
    return _distinct(sorted(found, key=lambda memory: (memory.rank, memory.at), reverse=True))[:limit]


def _records(
    clients: Clients, options: AgentCoreOptions, memory_id: str, query: str, limit: int
) -> list[Mapping[str, Any]]:
    """Searches by meaning. Does not use `MemoryClient.retrieve_memories`, which treats every error as an empty
    memory.
    """
    answer = clients.memory.retrieve_memory_records(
        memoryId=memory_id,
        namespacePath=options.namespace_path,
        searchCriteria={"searchQuery": query, "topK": limit},
        maxResults=limit,
    )
    return list(answer["memoryRecordSummaries"])


def _events(clients: Clients, options: AgentCoreOptions, memory_id: str) -> list[Mapping[str, Any]]:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    try:
        return list(clients.memory.list_events(memory_id, options.actor_id, _SESSION, max_results=_EVENTS))
    except ClientError as error:
        if sentence(error) == UNKNOWN:  # nothing has been stored yet; the search for records detects a missing memory
            return []
        raise


def _of_record(record: Mapping[str, Any]) -> _Memory:
    text = str(record.get("content", {}).get("text", ""))
    return _Memory(text=text, at=record["createdAt"], rank=(1, float(record.get("score") or 0)))


def _matching(events: Iterable[Mapping[str, Any]], query: str) -> Iterable[_Memory]:
    """Yields events that contain words of the query. An event with all words ranks above all records; others rank below
    them.
    """
    words = _words(query)
    for event in events:
        text = "\n".join(_texts(event))
        if hits := len(words & _words(text)):
            yield _Memory(text=text, at=event["eventTimestamp"], rank=(2 if hits == len(words) else 0, hits))


def _texts(event: Mapping[str, Any]) -> Iterable[str]:
    for part in event.get("payload", ()):
        if text := part.get("conversational", {}).get("content", {}).get("text"):
            yield str(text)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{2,}", text.casefold()))


def _distinct(memories: Iterable[_Memory]) -> list[_Memory]:
    """Keeps only the first of several memories with the same text."""
    distinct: dict[str, _Memory] = {}
    for memory in memories:
        distinct.setdefault(memory.text, memory)
    return list(distinct.values())


def _line(memory: _Memory) -> str:
    return f"- {memory.at:%Y-%m-%d %H:%M} {memory.text}".replace("\n", "\n  ")
