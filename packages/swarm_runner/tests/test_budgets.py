"""Budgets as people see them: a card in the thread, and work that goes on or stops."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from packages.swarm_runner.tests.conftest import Office, lead_beside
from packages.swarm_runner.tests.doors import acp_agent, claude_cli
from packages.swarm_runner.tests.scripted import ScriptedDoor, ScriptedSession
from packages.swarm_runner.tests.test_command import environment
from packages.swarm_runner.tests.test_leads import Leading, Uses, about, complete, delegates
from swarm_runner.doors.claude import ClaudeDoor
from swarm_runner.port import CliEvent, TextAdded, UsageReported
from tests.support.processes import Process
from tests.support.stage import OPERATOR_TOKEN
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("RUN-06")

CARD = "is used up"
GO_ON = "People have approved more budget"


async def budgets(office: Office, **of_run: float) -> None:
    """The worker's runs have this budget from now on. Other agents have none."""
    settings = {"budgets": {"agents": {office.name: {"run": of_run}}}}
    (office.stage.processes.folder / "swarm.yaml").write_text(json.dumps(settings))
    await office.stage.visitor(office.http).post("/reload")


async def card(office: Office, ts: str, words: str, decision: str, user: str = "alice") -> None:
    """A person decides on the card with these words, once it is there."""

    async def look() -> list[str]:
        return [message["text"] for message in await office.twin.messages(thread_ts=ts) if words in message["text"]]

    await wait_until(look, what=f"a card with {words}", within_seconds=20)
    await office.twin.press(ts, words, f"request_decide:{decision}", user=user)


async def runs(office: Office) -> list[dict[str, Any]]:
    return list((await office.stage.visitor(office.http).get(f"/runs?agent={office.name}"))["runs"])


class Spender(ScriptedDoor):
    """A CLI that has spent so much in all after each turn. Before the last turn it works until it is cancelled."""

    def __init__(self, *dollars: float, tokens: int | None = None) -> None:
        super().__init__(self._script)
        self.turns = 0
        self._dollars, self._tokens = dollars, tokens

    async def _script(self, session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        self.turns += 1
        yield TextAdded(text=f"Part {self.turns}. ")
        spent = self._dollars[min(self.turns, len(self._dollars)) - 1]
        yield UsageReported(input_tokens=self._tokens, cost_dollars=spent, model="m")
        if self.turns < len(self._dollars):
            await asyncio.Event().wait()


async def test_a_run_goes_on_in_its_session_when_people_approve_more(office: Office) -> None:
    await budgets(office, dollars=1)
    door = Spender(1.25, 1.5)
    await office.start("claude", door)
    ts, task_id = await office.delegate()
    await card(office, ts, "The budget of this run is used up: $1.25 of $1.00", "approve")
    await office.ended(task_id, "completed")
    seen = await office.says(ts, "Part 2.", "$1.50")
    assert sum(CARD in text for text in seen) == 1
    assert len(door.opened) == 1
    (run,) = await runs(office)
    assert (run["cost_microdollars"], run["model"], run["door"], run["outcome"]) == (
        1_500_000,
        "m",
        "polling",
        "reported",
    )
    await office.idle()
    assert door.at_once == 0


@pytest.mark.long
async def test_a_run_stops_when_people_reject_more_and_the_thread_is_told_why(office: Office) -> None:
    await budgets(office, tokens=1000)
    door = Spender(0.5, 0.5, tokens=1234)
    await office.start("claude", door)
    ts, task_id = await office.delegate()
    await card(office, ts, "The budget of this run is used up: 1,234 of 1,000 tokens", "reject")
    await office.ended(task_id, "cancelled")
    seen = await office.says(ts, "was cancelled because the budget of this run is used up: 1,234 of 1,000 tokens")
    assert sum("did not approve more" in text for text in seen) == 1
    assert not any("no answer" in text or "not complete" in text for text in seen)
    await office.idle()
    assert (len(door.opened), door.at_once) == (1, 0)


@pytest.mark.long
async def test_a_rejected_budget_ends_work_on_a_message_that_is_not_streamed(office: Office) -> None:
    await budgets(office, tokens=10)
    agent = office.stage.visitor(office.http, office.token)
    await agent.poll(wait_seconds=0)  # the worker is here
    ts = await office.twin.say(f"swarm#{office.name} hello")
    (trigger,) = await agent.poll(wait_seconds=20, hold="true")
    token, about = trigger["lease"]["token"], trigger["inbox_messages"][0]["id"]
    headers = {"X-Swarm-Lease": token}
    run_id = (await agent.ask("POST", "/runs", json={"inbox_message_id": about}, headers=headers)).json()["id"]
    await agent.post(f"/runs/{run_id}/usage", {"input_tokens": 12})
    asked = await agent.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    await card(office, ts, "The budget of this run is used up: 12 of 10 tokens", "reject")
    decided = await agent.get(f"/requests/{asked['request_id']}?wait_seconds=20")
    assert decided["status"] == "rejected"
    assert (await agent.post("/leases/renew", {"tokens": [token]}))["lost"] == [token]
    refused = await agent.tool("slack-reply", token, inbox_message_id=about, message="And more.")
    assert "This inbox message was stopped because the budget of this run is used up" in str(refused.content)
    await office.says(ts, "I stopped the work because the budget of this run is used up", "did not approve more")

    async def marks() -> set[str]:
        return {reaction["name"] for reaction in (await office.twin.messages(thread_ts=ts))[0]["reactions"]}

    await wait_until(marks, lambda found: "octagonal_sign" in found, what="the message shows that it was stopped")
    calls = (await office.twin.ask("GET", "calls"))["calls"]
    assert not any("And more." in json.dumps(call) for call in calls)


@pytest.mark.long
async def test_a_budget_that_is_used_up_asks_before_the_cli_starts(office: Office) -> None:
    settings = {
        "budgets": {"agents": {office.name: {"agent": {"tokens": 20}}}},
        "decisions": [{"agent": office.name, "tool": "budget-agent", "requester": True}],
    }
    (office.stage.processes.folder / "swarm.yaml").write_text(json.dumps(settings))
    await office.stage.visitor(office.http).post("/reload")
    door = Spender(0.5, tokens=25)
    await office.start("claude", door)
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")  # nothing is asked about work that is done
    ts, task_id = await office.delegate()
    await card(office, ts, f"The budget of {office.name} for today is used up: 25 of 20 tokens", "reject")
    await office.ended(task_id, "cancelled")
    await office.says(ts, "was cancelled because the budget of")
    assert len(door.opened) == 1
    ts, task_id = await office.delegate()
    await card(office, ts, "25 of 20 tokens", "approve")
    await office.ended(task_id, "completed")
    await office.says(ts, "Part 2.", "up to 40 tokens")


@pytest.mark.long
async def test_a_cli_that_does_not_stop_is_ended_and_spends_no_more(office: Office) -> None:
    async def script(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        yield UsageReported(cost_dollars=2.0)
        await asyncio.Event().wait()

    class Stubborn(ScriptedSession):
        async def cancel(self) -> None:
            """Goes on."""

    class StubbornDoor(ScriptedDoor):
        async def open(self, wanted: Any) -> ScriptedSession:
            await super().open(wanted)
            return Stubborn(self, None)

    await budgets(office, dollars=1)
    await office.start("claude", StubbornDoor(script), stop_seconds=0.5)
    ts, task_id = await office.delegate()
    await office.ended(task_id, "dead")
    await office.says(ts, "it was stopped, because the budget of this run is used up: $2.00 of $1.00")
    await office.idle()


@pytest.mark.long
async def test_a_session_that_is_continued_after_a_kill_of_the_runner_counts_no_cost_twice(office: Office) -> None:
    provider = f"acp:{sys.executable} {acp_agent.__file__} 'counts by session' {office.folder / 'acp'}"
    kept = office.folder / "swarm" / "runners" / office.name / "sessions.json"

    async def started() -> Process:
        command = ("swarm.cli.main", "run", office.name, "--provider", provider, "--env", "RUNNER_MARK")
        runner = office.stage.processes.fork("run", *command, env=environment(office))
        await runner.says("is connected to")
        return runner

    async def spent() -> float:
        (session,) = json.loads(kept.read_text()).values()
        return session["cost_dollars"] or 0.0

    runner = await started()
    await office.online()
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    await wait_until(spent, lambda dollars: dollars == 0.25, what="the cost is kept")
    runner.send(signal.SIGKILL)
    await runner.exit_code(15)
    await office.gone()
    runner = await started()
    await office.twin.say(f"swarm#{office.name} and now?", thread=ts)
    await office.says(ts, "Turn 2.", "$0.25")
    await wait_until(spent, lambda dollars: dollars == 0.5, what="the cost is kept")
    assert [(run["cost_microdollars"], run["input_tokens"]) for run in await runs(office)] == [(250_000, 10)] * 2
    runner.send(signal.SIGTERM)
    assert await runner.exit_code(15) == 0
    await office.gone()


@pytest.mark.long
@pytest.mark.req("RUN-03")
async def test_swarm_run_with_an_acp_agent_survives_the_kill_of_the_coordinator_after_the_approval(
    office: Office,
) -> None:
    await budgets(office, dollars=1)
    state = office.folder / "acp"
    provider = f"acp:{sys.executable} {acp_agent.__file__} spends {state}"
    runner = office.stage.processes.fork(
        "run", "swarm.cli.main", "run", office.name, "--provider", provider, "--env", "RUNNER_MARK",
        env=environment(office),
    )  # fmt: skip
    await runner.says("is connected to")
    await office.online()
    ts, task_id = await office.delegate()
    await card(office, ts, "The budget of this run is used up: $1.25 of $1.00", "approve")
    await office.stage.restart_coordinator()
    await office.lead.poll()
    await office.ended(task_id, "completed", within_seconds=60)
    seen = await office.says(ts, "I spend. ", "I went on.", "$1.75", within_seconds=60)
    assert sum(CARD in text for text in seen) == 1
    notes = [json.loads(line) for line in state.read_text().splitlines()]
    assert sum("new" in note or "resumed" in note for note in notes) == 1
    assert [GO_ON in note["prompt"] for note in notes if "prompt" in note] == [False, True]
    operator = office.stage.visitor(office.http)
    timeline = (await operator.get(f"/threads/{(await runs(office))[0]['thread_id']}"))["timeline"]
    assert [step["change"] for step in timeline if step["change"] == "budget.raise"] == ["budget.raise"]
    assert (await operator.get(f"/usage?by=thread&agent={office.name}"))["usage"][0]["cost_microdollars"] == 1_750_000
    shown = await office.stage.processes.command(
        "usage",
        "--by",
        "agent",
        "--agent",
        office.name,
        env=environment(office) | {"SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN},
    )
    assert (shown.code, office.name in shown.out, "$1.75" in shown.out) == (0, True, True)
    runner.send(signal.SIGTERM)
    assert await runner.exit_code(15) == 0
    await office.gone()


async def test_a_budget_acts_within_a_turn_of_claude_before_the_request_after_the_next(office: Office) -> None:
    await budgets(office, tokens=150)
    state = office.folder / "state.jsonl"
    door = ClaudeDoor([sys.executable, "-I", str(claude_cli.__file__), "spends", str(state)])
    await office.start("claude", door)
    ts, task_id = await office.delegate()
    await card(office, ts, "The budget of this run is used up: 220 of 150 tokens", "approve")
    await office.ended(task_id, "completed")
    await office.says(ts, "Here it is.")
    told = [json.loads(line) for line in state.read_text().splitlines()]
    assert [one["request"]["subtype"] for one in told if one.get("type") == "control_request"] == [
        "initialize",
        "interrupt",
    ]


@pytest.mark.long
@pytest.mark.req("RUN-10")
@pytest.mark.parametrize(("decision", "words"), [("approve", "I go on."), ("reject", "Twelve, says the result.")])
async def test_a_budget_that_a_lead_uses_up_on_a_result_is_decided_and_the_result_not_lost(
    office: Office, decision: str, words: str
) -> None:
    lead, worker = await lead_beside(office), await office.online_once()
    await budgets(lead, tokens=10)

    class Spending(Leading):
        async def _turn(self, session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
            async for event in super()._turn(session, prompt):
                yield event
            yield UsageReported(input_tokens=7 * len(self.turns), model="m")
            if about(prompt, "task_id"):
                await asyncio.Event().wait()

    async def act(prompt: str, uses: Uses) -> AsyncIterator[str]:
        if GO_ON in prompt:
            yield "I go on."
        async for text in delegates(office.name, news="")(prompt, uses):
            yield text

    door = Spending(lead, act)
    await lead.start("claude", door, role="lead")
    ts = await office.twin.say(f"swarm#{lead.name} please count")
    await office.says(ts, "Ada counts.")
    await complete(worker, "Twelve, says the result.")
    await card(lead, ts, "14 of 10 tokens", decision)
    seen = await office.says(ts, words, within_seconds=60)
    assert any("I stopped the work because the budget" in text for text in seen) is (decision == "reject")
    await lead.idle()
    assert len(door.turns) == 2 + (decision == "approve")
