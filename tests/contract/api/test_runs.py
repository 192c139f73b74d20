"""What an operator sees of the runs of built-in agents over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swarm.clock import SECOND
from swarm.domain.model.language_models import Door, ModelUsage, ModelUsageRecord, UsageOutcome, UsagePurpose
from tests.support.doors import Doors, Visitor

pytestmark = pytest.mark.req("AGENT-07")

USED = ModelUsage(requests=2, input_tokens=10, output_tokens=20, cache_read_tokens=5, tool_calls=1, cost_microdollars=9)
SHOWN = {
    "requests": 2,
    "input_tokens": 10,
    "output_tokens": 20,
    "cache_read_tokens": 5,
    "cache_write_tokens": 0,
    "tool_calls": 1,
    "cost_microdollars": 9,
}


RUN = ModelUsageRecord(
    id="r1",
    agent="assistant",
    door=Door.SLACK,
    session_id="slack:C1:U1",
    run_id="",
    requester="U1",
    model="openai:gpt-5",
    outcome=UsageOutcome.ANSWERED,
    note="",
    usage=USED,
    started_at=0,
    ended_at=0,
)


async def note(doors: Doors, name: str, **values: Any) -> None:
    """Note a run of one second that ends now."""
    moment = doors.world.clock.now_us()
    run = replace(RUN, id=name, started_at=moment - SECOND, ended_at=moment, **values)
    await doors.world.services.model_usage.note(run)
    doors.world.clock.advance(1)


async def test_runs_are_shown_newest_first_of_all_agents_or_of_one(doors: Doors) -> None:
    await note(doors, "r1")
    await note(doors, "r2", agent="router", model="", outcome=UsageOutcome.FAILED, note="The model is away.")
    second, first = (await doors.operator.get("/runs"))["runs"]
    assert first == first | SHOWN | {"id": "r1", "turn_id": None, "model": "openai:gpt-5", "note": None}
    assert second == second | {"id": "r2", "model": None, "outcome": "failed", "note": "The model is away."}
    assert (await doors.operator.get("/runs?agent=assistant"))["runs"] == [first]
    assert (await doors.operator.get("/runs?limit=1"))["runs"] == [second]
    assert (await doors.operator.get("/runs?before=r2"))["runs"] == [first]
    assert (await doors.operator.get("/runs?before=r1"))["runs"] == []


async def test_usage_is_shown_by_day_agent_and_model(doors: Doors) -> None:
    await note(doors, "r1")
    await note(doors, "r2", usage=ModelUsage(cost_microdollars=None))
    await note(doors, "r3", model="ollama:llama", usage=ModelUsage(cost_microdollars=None))
    unpriced, priced = (await doors.operator.get("/usage?days=1"))["usage"]
    about = {"day": "2023-11-14", "agent": "assistant", "thread_id": None, "run_id": None}
    assert priced == SHOWN | about | {"model": "openai:gpt-5", "runs": 2, "runs_of_unknown_cost": 1}
    assert (unpriced["model"], unpriced["cost_microdollars"], unpriced["runs_of_unknown_cost"]) == (
        "ollama:llama",
        None,
        1,
    )


async def test_summaries_are_shown_beside_answers_and_counted_with_them_or_alone(doors: Doors) -> None:
    await note(doors, "r1")
    await note(doors, "r2", purpose=UsagePurpose.SUMMARY, requester="")
    runs = (await doors.operator.get("/runs"))["runs"]
    assert [(run["id"], run["purpose"]) for run in runs] == [("r2", "summary"), ("r1", "answer")]
    assert (await doors.operator.get("/runs?purpose=summary"))["runs"] == runs[:1]
    counted = {
        query: [(row["runs"], row["input_tokens"]) for row in (await doors.operator.get(f"/usage?{query}"))["usage"]]
        for query in ("days=1", "purpose=answer", "purpose=summary")
    }
    assert counted == {"days=1": [(2, 20)], "purpose=answer": [(1, 10)], "purpose=summary": [(1, 10)]}


@pytest.mark.req("OPS-04")
@pytest.mark.parametrize("path", ["/runs", "/usage"])
async def test_only_the_operator_sees_them(doors: Doors, lea: Visitor, path: str) -> None:
    assert (await lea.ask("GET", path)).status_code == 403
    assert (await doors.visitor("nobody").ask("GET", path)).status_code == 401


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/runs?limit=0", "limit"),
        ("/runs?limit=501", "limit"),
        ("/runs?before=nothing", "before"),
        ("/runs?agent=", "agent"),
        ("/runs?agent=%00", "url"),
        ("/runs?colour=red", "colour"),
        ("/runs?purpose=fun", "purpose"),
        ("/usage?purpose=fun", "purpose"),
        ("/usage?days=0", "days"),
        ("/usage?days=91", "days"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_name(doors: Doors, path: str, field: str) -> None:
    answer = await doors.operator.ask("GET", path)
    assert answer.status_code == 422
    assert set(answer.json()["error"]["fields"]) == {field}


async def test_both_are_described(doors: Doors) -> None:
    paths = (await doors.http.get(f"{doors.base}/openapi.json")).json()["paths"]
    for path, queries in (
        ("/runs", {"agent", "limit", "before", "purpose"}),
        ("/usage", {"days", "purpose", "by", "agent", "thread_id"}),
    ):
        operation = paths[path]["get"]
        assert {parameter["name"] for parameter in operation["parameters"]} == queries
        assert set(operation["responses"]) >= {"200", "401", "403", "422", "503"}
        assert operation["tags"] == ["operator"]
