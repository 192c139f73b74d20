"""The real coding CLIs at what lies beside an answer: a changed message, an edit, a budget, and a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from swarm.clock import new_id
from tests.runner.clis.conftest import LEASE_SECONDS, PATIENCE_SECONDS, Bench
from tests.runner.clis.known import each
from tests.runner.test_budgets import GO_ON, budgets
from tests.runner.test_work import be_a_lead
from tests.support.providers.request import Request
from tests.support.providers.script import Fails, Reply, Say, Silent, Used, Wait

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.req("RUN-01", "RUN-05", "RUN-06", "RUN-08")]


async def a_changed_message(bench: Bench) -> None:
    """A message that is edited while the CLI works on it is one more turn of the same session."""
    office, gate = bench.office, asyncio.Event()
    await be_a_lead(office)
    bench.reply = lambda request: (
        Say("Blue.") if "blue" in request.texts[-1] else [Say("Red "), Wait(gate), Say("it is.")]
    )
    await bench.start("--role", "lead")
    text = f"swarm#{office.name} paint it "
    ts = await office.twin.say(f"{text}red")
    await bench.until_shown(ts, "Red")
    edit = {"user": "alice", "channel": "general", "ts": ts, "text": f"{text}blue"}
    await office.twin.ask("PATCH", "messages", json=edit)
    await asyncio.sleep(LEASE_SECONDS)  # the runner is told with a renewal
    gate.set()
    said = await bench.over(ts, "Blue.")
    assert (said.count("it is."), said.count("Blue.")) == (1, 1)
    assert any("red" in text for text in bench.requests[-1].texts)


async def a_budget(bench: Bench) -> None:
    """Two requests use it up. In the third the turn is cut off, and it goes on in the same session."""
    office = bench.office
    await budgets(office, **({"dollars": 0.15} if bench.cli.binary == "opencode" else {"tokens": 150}))

    def reply(request: Request) -> Reply:
        if GO_ON in request.texts[-1]:
            return Say("Here it is.")
        if len(bench.requests) > 2:
            return Silent()
        return [Used(output=100), replace(bench.cli.swarm("list-agents"), id=f"call_{new_id()}")]

    bench.reply = reply
    await bench.start()
    ts, task_id = await office.delegate("look around")
    await bench.decide(ts, "approve")
    await office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    assert (await bench.over(ts, "Here it is.")).count("Here it is.") == 1
    assert len(bench.requests) == 4
    assert len(bench.requests[-1].results) >= 2


async def a_limit(bench: Bench) -> None:
    """The account has none left: codex tells until when, and its work waits; claude's fails; opencode tries again."""
    office, binary = bench.office, bench.cli.binary
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "pro"}
    body = {"error": {**error, "resets_at": int(time.time()) + 3600}} if binary == "codex" else None
    refusal = Fails(429, body=body, retry_after=1)
    bench.reply = lambda _: Say("Here it is.") if binary == "opencode" and len(bench.requests) > 2 else refusal
    await bench.start()
    ts, task_id = await office.delegate("look around")
    if binary == "codex":
        await bench.until_shown(ts, "has reached its limit. The work waits, and goes on by itself")
        assert (await office.task(task_id))["status"] == "pending"
    elif binary == "claude":
        await office.ended(task_id, "dead", within_seconds=PATIENCE_SECONDS)
        await bench.until_shown(ts, "rate limit", "Retry")
    else:
        await office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
        assert (await bench.over(ts, "Here it is.")).count("Here it is.") == 1


CELLS: dict[str, Callable[[Bench], Awaitable[None]]] = {
    "a changed message": a_changed_message,
    "a budget": a_budget,
    "a limit": a_limit,
}


@each
@pytest.mark.parametrize("cell", CELLS)
async def test_a_turn_of_another_kind(bench: Bench, cell: str) -> None:
    await CELLS[cell](bench)
