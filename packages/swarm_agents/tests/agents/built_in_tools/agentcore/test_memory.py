"""memory-store and memory-recall: what is stored can be recalled at once, and what AWS made of it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from swarm_agents.toolbox.tool import Tool, ToolAnswer
from tests.support.agentcore import Fails, FakeAgentCore

pytestmark = [pytest.mark.req("TOOL-04"), pytest.mark.asyncio(loop_scope="session")]


def record(text: str, score: float) -> dict[str, Any]:
    """A record as AWS makes them of events."""
    return {
        "memoryRecordId": "mem-" + "0" * 40,
        "content": {"text": text},
        "memoryStrategyId": "facts",
        "namespaces": ["/facts/swarm"],
        "createdAt": 1_790_000_000,
        "score": score,
    }


@pytest.fixture
def store(tools: Mapping[str, Tool]) -> Tool:
    return tools["memory-store"]


@pytest.fixture
def recall(tools: Mapping[str, Tool]) -> Tool:
    return tools["memory-recall"]


async def test_what_is_stored_is_recalled_at_once_by_its_words(store: Tool, recall: Tool) -> None:
    assert await store.call({"key": "Deploys", "value": "never on Fridays"}) == ToolAnswer(
        text="Stored under 'Deploys'."
    )
    await store.call({"key": "Lunch", "value": "at noon", "category": "habit"})
    answer = await recall.call({"query": "When are deploys allowed?"})
    assert not answer.failed
    assert "Deploys: never on Fridays\n  (category: general)" in answer.text
    assert "Lunch" not in answer.text


async def test_a_stored_event_is_one_that_aws_makes_records_of(store: Tool, aws: FakeAgentCore) -> None:
    await store.call({"key": "Größe", "value": "ünïcödé", "category": "decision"})
    (event,) = aws.asked("CreateEvent")
    assert (event["actorId"], event["sessionId"]) == ("swarm", "swarm")
    said = {"content": {"text": "Größe: ünïcödé\n(category: decision)"}, "role": "USER"}
    assert event["payload"] == [{"conversational": said}]
    assert "extractionMode" not in event


async def test_events_with_all_words_come_first_then_records_then_other_events(
    store: Tool, recall: Tool, aws: FakeAgentCore
) -> None:
    await store.call({"key": "office", "value": "Berlin"})
    await store.call({"key": "office dog", "value": "Rex"})
    aws.records = [record("The team has a cat", 0.4), record("The dog likes Berlin", 0.9)]
    lines = [line[19:] for line in (await recall.call({"query": "office dog"})).text.splitlines() if line[0] == "-"]
    assert lines == ["office dog: Rex", "The dog likes Berlin", "The team has a cat", "office: Berlin"]


async def test_no_more_than_the_limit_and_no_text_twice(store: Tool, recall: Tool, aws: FakeAgentCore) -> None:
    for _ in range(3):
        await store.call({"key": "dog", "value": "Rex"})
    aws.records = [record(f"dog {number}", 0.5) for number in range(9)]
    answer = await recall.call({"query": "dog", "limit": 4})
    assert sum(line.startswith("- ") for line in answer.text.splitlines()) == 4
    assert answer.text.count("dog: Rex") == 1
    (asked,) = aws.asked("RetrieveMemoryRecords")
    assert asked["searchCriteria"] == {"searchQuery": "dog", "topK": 4}
    assert asked["namespacePath"] == "/"


async def test_nothing_found_is_an_answer(recall: Tool) -> None:
    assert await recall.call({"query": "dog"}) == ToolAnswer(text="Nothing is stored about that.")


async def test_a_memory_that_nothing_was_stored_in_is_empty(recall: Tool, aws: FakeAgentCore) -> None:
    aws.fails["ListEvents"] = Fails(status=404, code="ResourceNotFoundException")
    aws.records = [record("The dog likes Berlin", 0.9)]
    assert "Berlin" in (await recall.call({"query": "dog"})).text


@pytest.mark.parametrize("operation", ["RetrieveMemoryRecords", "ListEvents"])
async def test_a_recall_that_fails_is_not_taken_for_an_empty_memory(
    recall: Tool, aws: FakeAgentCore, operation: str
) -> None:
    aws.fails[operation] = Fails(status=403, code="AccessDeniedException")
    answer = await recall.call({"query": "dog"})
    assert answer.failed
    assert "credentials and permissions" in answer.text


async def test_a_memory_that_there_is_not_is_named_as_the_operators_business(recall: Tool, aws: FakeAgentCore) -> None:
    for operation in ("RetrieveMemoryRecords", "ListEvents"):
        aws.fails[operation] = Fails(status=404, code="ResourceNotFoundException")
    answer = await recall.call({"query": "dog"})
    assert answer.failed
    assert "operator's configuration" in answer.text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"key": " ", "value": "x"}, "must not be empty"),
        ({"key": "x", "value": "y" * 60_000}, "the maximum is"),
    ],
)
async def test_what_cannot_be_stored_is_refused(
    store: Tool, aws: FakeAgentCore, arguments: Mapping[str, str], says: str
) -> None:
    answer = await store.call(arguments)
    assert answer.failed
    assert says in answer.text
    assert "CreateEvent" not in [operation for operation, _ in aws.requests]


async def test_a_store_that_fails_says_so(store: Tool, aws: FakeAgentCore) -> None:
    aws.fails["CreateEvent"] = Fails(status=429, code="ThrottledException")
    answer = await store.call({"key": "a", "value": "b"})
    assert answer.failed
    assert "try again" in answer.text
