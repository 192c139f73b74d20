"""Usage that agents report of their runs, the budgets that it uses up, and the people who approve more."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

import pytest

from swarm.cli.operator_commands import CoordinatorClient, CoordinatorRefused
from swarm.domain.model.requests import DecisionPolicy
from swarm.domain.policy.budgets import AgentBudgets, Budget, Budgets
from swarm.domain.policy.decision_rules import DecisionRule
from tests.support.doors import OPERATOR_TOKEN, Doors, Visitor, error_of
from tests.support.live import playing
from tests.support.waiting import wait_until
from tests.support.world import BOT

pytestmark = pytest.mark.req("RUN-06", "RUN-03")


def limit(doors: Doors, **budgets: Any) -> None:
    """Sets the operator's budgets."""
    book = doors.world.operating_policy.book
    book.current = replace(book.current, budgets=Budgets(**budgets))


async def streamed(doors: Doors, agent: Visitor, text: str = "hello") -> tuple[dict[str, Any], str]:
    """A run of an agent that streams its answer to a person; its trigger, and its id."""
    await doors.world.says(f"{BOT} {text}")
    trigger = await agent.only(hold="true")
    about = trigger["inbox_messages"][0]["id"]
    opened = await agent.uses("slack-stream", trigger["lease"]["token"], action="open", inbox_message_id=about)
    return trigger, opened["turn_id"]


async def unstreamed(doors: Doors, agent: Visitor, text: str = "hello") -> tuple[dict[str, Any], str]:
    """A run of an agent on a person's message that streams nothing; its trigger, and its id."""
    await doors.world.says(f"{BOT} {text}")
    trigger = await agent.only(hold="true")
    return trigger, await reported(agent, trigger)


async def reported(agent: Visitor, trigger: dict[str, Any]) -> str:
    """The id of the run under a lease of work on a message, by ``POST /runs``."""
    headers = {"X-Swarm-Lease": trigger["lease"]["token"]}
    body = {"inbox_message_id": trigger["inbox_messages"][0]["id"]}
    return str((await agent.ask("POST", "/runs", json=body, headers=headers)).json()["id"])


async def threadless(doors: Doors, wim: Visitor) -> str:
    await doors.operator.post("/tasks", {"description": "Count the lines.", "agent": wim.name})
    trigger = await wim.only(hold="true")
    headers = {"X-Swarm-Lease": trigger["lease"]["token"]}
    answer = await wim.ask("POST", "/runs", json={"task_id": trigger["task"]["id"]}, headers=headers)
    return str(answer.json()["id"])


async def report(agent: Visitor, run_id: str, **total: Any) -> list[dict[str, Any]]:
    return list((await agent.post(f"/runs/{run_id}/usage", total))["exceeded"])


async def decide(doors: Doors, request_id: str, decision: str) -> None:
    await doors.operator.post(f"/requests/{request_id}/decide", {"decision": decision})


async def test_totals_only_grow_and_each_part_is_optional(doors: Doors, lea: Visitor) -> None:
    trigger, run_id = await streamed(doors, lea)
    assert await report(lea, run_id) == []
    assert (await doors.operator.get("/runs"))["runs"] == []  # nothing used, nothing noted
    for total in (
        {"input_tokens": 100, "model": "opus"},
        {"output_tokens": 20, "cost_dollars": 0.25},
        {"input_tokens": 90, "output_tokens": 10, "cost_dollars": 0.1},
    ):
        await report(lea, run_id, **total)
    (run,) = (await doors.operator.get("/runs"))["runs"]
    shown = {name: run[name] for name in ("input_tokens", "output_tokens", "cost_microdollars", "model", "agent")}
    assert shown == {
        "input_tokens": 100, "output_tokens": 20, "cost_microdollars": 250_000, "model": "opus", "agent": "lea",
    }  # fmt: skip
    assert (run["turn_id"], run["door"], run["outcome"]) == (run_id, "polling", "reported")
    await lea.uses("slack-stream", trigger["lease"]["token"], action="close", turn_id=run_id, text="Hello.")
    await report(lea, run_id, input_tokens=120)  # what was spent counts, although the run is over
    for by in ("day", "agent", "thread", "run"):
        (total,) = (await doors.operator.get(f"/usage?by={by}"))["usage"]
        assert (total["input_tokens"], total["cost_microdollars"], total["runs"]) == (120, 250_000, 1)
        assert (total["thread_id"], total["run_id"]) == (
            trigger["thread"]["id"] if by in ("thread", "run") else None,
            run_id if by == "run" else None,
        )
    assert (await doors.operator.get(f"/usage?thread_id={trigger['thread']['id']}"))["usage"]
    assert (await doors.operator.get("/usage?thread_id=other"))["usage"] == []
    assert (await doors.operator.get("/usage?agent=wim"))["usage"] == []


@pytest.mark.parametrize(
    "total",
    [
        {"input_tokens": -1},
        {"input_tokens": 1.5},
        {"output_tokens": 10**13},
        {"cost_dollars": -0.1},
        {"cost_dollars": 1e9},
        {"cost_dollars": "1"},
        {"model": "x" * 300},
        {"tokens": 1},
    ],
)
async def test_what_is_no_usage_is_refused(doors: Doors, lea: Visitor, total: dict[str, Any]) -> None:
    _, run_id = await streamed(doors, lea)
    assert (await lea.ask("POST", f"/runs/{run_id}/usage", json=total)).status_code == 422
    not_a_number = b'{"cost_dollars": NaN}'
    answer = await lea.ask("POST", f"/runs/{run_id}/usage", content=not_a_number)
    assert answer.status_code in (400, 422)


async def test_only_the_agent_of_a_run_reports_its_usage_and_asks_about_its_budgets(doors: Doors, lea: Visitor) -> None:
    _, run_id = await streamed(doors, lea)
    wim = await doors.worker()
    for path, body in (("usage", {}), ("budget", {"scope": "run", "unit": "tokens"})):
        assert (await wim.ask("POST", f"/runs/{run_id}/{path}", json=body)).status_code == 404
        assert (await doors.operator.ask("POST", f"/runs/{run_id}/{path}", json=body)).status_code == 403
        assert (await lea.ask("POST", f"/runs/nothing/{path}", json=body)).status_code == 404


async def test_budgets_of_every_scope_are_told_from_the_narrowest_on(doors: Doors, lea: Visitor) -> None:
    limit(
        doors,
        run=Budget(tokens=50),
        thread=Budget(tokens=100),
        agent=Budget(dollars=Decimal("0.5")),
        day=Budget(tokens=1000),
        agents={"lea": AgentBudgets(run=Budget(tokens=60))},
    )
    _, run_id = await streamed(doors, lea)
    assert await report(lea, run_id, input_tokens=59) == []
    assert await report(lea, run_id, input_tokens=60) == [
        {
            "scope": "run", "unit": "tokens", "limit": 60, "used": 60,
            "text": "The budget of this run is used up: 60 of 60 tokens.",
        }
    ]  # fmt: skip
    found = await report(lea, run_id, input_tokens=900, output_tokens=100, cost_dollars=0.75)
    assert [(one["scope"], one["limit"], one["used"]) for one in found] == [
        ("run", 60, 1000),
        ("agent", 0.5, 0.75),
    ]  # for the thread and the day this run counts only up to its own limit
    limit(
        doors, thread=Budget(tokens=100), agent=Budget(dollars=Decimal("0.5")), day=Budget(tokens=1000)
    )  # and without a limit, as a whole
    found = await report(lea, run_id)
    assert [(one["scope"], one["limit"], one["used"]) for one in found] == [
        ("thread", 100, 1000),
        ("agent", 0.5, 0.75),
        ("day", 1000, 1000),
    ]
    assert [one["text"] for one in found[1:]] == [
        "The budget of lea for today is used up: $0.75 of $0.50.",
        "The budget of all agents for today is used up: 1,000 of 1,000 tokens.",
    ]
    wim = await doors.worker()
    other = await threadless(doors, wim)
    assert [one["scope"] for one in await report(wim, other)] == ["day"]
    doors.world.clock.advance(24 * 3600)  # a new day
    assert await report(wim, other) == []


async def test_an_approval_raises_the_budget_that_its_card_names_and_no_other(doors: Doors, lea: Visitor) -> None:
    limit(doors, run=Budget(tokens=35), thread=Budget(tokens=20, dollars=Decimal("1")))
    _, run_id = await streamed(doors, lea)
    assert len(await report(lea, run_id, input_tokens=35, cost_dollars=1.0)) == 3
    question = {"scope": "thread", "unit": "tokens"}
    asked = await lea.post(f"/runs/{run_id}/budget", question)
    assert await lea.post(f"/runs/{run_id}/budget", question) == asked
    request = await lea.get(f"/requests/{asked['request_id']}")
    assert request["title"] == "The budget of this thread is used up: 35 of 20 tokens"
    assert request["prompt"] == "Approve to go on, up to 40 tokens. Reject to stop the work."
    assert request["decisions"] == ["approve", "reject"]
    await decide(doors, asked["request_id"], "approve")
    left = await report(lea, run_id)
    assert [(one["scope"], one["unit"]) for one in left] == [("run", "tokens"), ("thread", "dollars")]
    assert await lea.post(f"/runs/{run_id}/budget", question) == {"request_id": None, "status": None}
    limit(doors, thread=Budget(tokens=20, dollars=Decimal("1")))  # without its own limit, all of the run counts
    (again,) = [
        one for one in await report(lea, run_id, input_tokens=40) if one["unit"] == "tokens" and one["limit"] == 40
    ]
    assert (again["scope"], again["used"]) == ("thread", 40)
    second = await lea.post(f"/runs/{run_id}/budget", question)
    assert second["request_id"] != asked["request_id"]
    await decide(doors, second["request_id"], "reject")
    assert [one["limit"] for one in await report(lea, run_id) if one["scope"] == "thread"] == [40, 1]


async def test_no_other_approval_raises_a_budget(doors: Doors, lea: Visitor) -> None:
    limit(doors, run=Budget(tokens=10))
    trigger, run_id = await streamed(doors, lea)
    found = await report(lea, run_id, input_tokens=35)
    asked = await lea.uses(
        "request-human-input",
        trigger["lease"]["token"],
        inbox_message_id=trigger["inbox_messages"][0]["id"],
        title=found[0]["text"],
        decisions=["approve", "reject"],
        wait=True,
        request_id=f"budget:{run_id}:run:tokens:40",
    )
    await decide(doors, asked["id"], "approve")
    assert await report(lea, run_id) == found
    answer = await lea.ask("POST", f"/runs/{run_id}/usage", json={"budget_request_id": asked["id"]})
    assert answer.status_code == 422
    assert await doors.world.rows("SELECT * FROM budget_raises") == []


async def test_two_runs_that_ask_for_the_same_amount_get_it_once(doors: Doors, lea: Visitor) -> None:
    limit(doors, day=Budget(tokens=10))
    wim = await doors.worker()
    _, first = await streamed(doors, lea)
    second = await threadless(doors, wim)
    await asyncio.gather(report(lea, first, input_tokens=8), report(wim, second, input_tokens=8))
    question = {"scope": "day", "unit": "tokens"}
    asked = [await agent.post(f"/runs/{run}/budget", question) for agent, run in ((lea, first), (wim, second))]
    for one in asked:
        await decide(doors, one["request_id"], "approve")
    assert [(row["subject"], row["new_limit"]) for row in await doors.world.rows("SELECT * FROM budget_raises")] == [
        ("2023-11-14", 20)
    ]
    assert await report(lea, first) == []


async def test_work_without_a_thread_asks_the_operator_and_a_run_that_has_lost_its_work_nobody(doors: Doors) -> None:
    limit(doors, run=Budget(tokens=10))
    wim = await doors.worker()
    run_id = await threadless(doors, wim)
    await report(wim, run_id, input_tokens=10)
    asked = await wim.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    (request,) = (await doors.operator.get("/requests?status=open"))["requests"]
    assert (request["id"], request["cards"], request["thread"]) == (asked["request_id"], [], None)
    await decide(doors, asked["request_id"], "approve")
    assert await report(wim, run_id) == []
    await report(wim, run_id, input_tokens=20)
    (lease,) = await doors.world.rows("SELECT token FROM leases WHERE ended_at IS NULL")
    await wim.post("/leases/release", {"tokens": [lease["token"]]})
    refused = await wim.ask("POST", f"/runs/{run_id}/budget", json={"scope": "run", "unit": "tokens"})
    assert refused.json()["error"]["code"] == "conflict"


async def test_the_operators_rules_say_who_may_raise_a_budget(doors: Doors, lea: Visitor) -> None:
    limit(doors, run=Budget(tokens=10), day=Budget(tokens=10))
    policy = DecisionPolicy(users=("U0BOSS",))
    book = doors.world.operating_policy.book
    book.current = replace(book.current, decisions=(DecisionRule(**asdict(policy), tool="budget-day"),))
    _, run_id = await streamed(doors, lea)
    await report(lea, run_id, input_tokens=10)
    seen = {}
    for scope in ("run", "day"):
        asked = await lea.post(f"/runs/{run_id}/budget", {"scope": scope, "unit": "tokens"})
        seen[scope] = (await lea.get(f"/requests/{asked['request_id']}"))["policy"]
    assert (seen["run"]["requester"], seen["run"]["users"]) == (True, [])
    assert (seen["day"]["requester"], seen["day"]["users"]) == (False, ["U0BOSS"])


async def test_a_person_raises_the_budgets_of_the_own_work_and_the_operator_those_of_everybody(
    doors: Doors, lea: Visitor
) -> None:
    spent = Budget(tokens=10)
    limit(doors, run=spent, thread=spent, agent=spent, day=spent)
    _, run_id = await streamed(doors, lea)
    refused = {}
    for one in await report(lea, run_id, input_tokens=10):
        asked = await lea.post(f"/runs/{run_id}/budget", {"scope": one["scope"], "unit": "tokens"})
        request = await lea.get(f"/requests/{asked['request_id']}")
        wish = {"decision": "approve", "as": request["requester"]["id"]}
        answer = await doors.operator.ask("POST", f"/requests/{request['id']}/decide", json=wish)
        refused[one["scope"]] = answer.status_code == 403
    assert refused == {"run": False, "thread": False, "agent": True, "day": True}
    assert [one["scope"] for one in await report(lea, run_id)] == ["agent", "day"]


async def test_a_rejected_budget_stops_the_answer_and_the_thread_is_told_which(doors: Doors, lea: Visitor) -> None:
    limit(doors, run=Budget(tokens=10))
    trigger, run_id = await streamed(doors, lea)
    await report(lea, run_id, input_tokens=12)
    asked = await lea.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    await decide(doors, asked["request_id"], "reject")
    more = {"action": "append", "turn_id": run_id, "text": "more"}
    refused = await lea.tool("slack-stream", trigger["lease"]["token"], **more)
    assert "This stream was stopped" in str(refused.content)
    texts = [row["text"] for row in await doors.world.rows("SELECT text FROM deliveries ORDER BY id")]
    why = "because the budget of this run is used up: 12 of 10 tokens, and the operator did not approve more."
    assert [text for text in texts if "stopped" in text] == [f"I stopped the work {why}"]


@pytest.mark.req("LOOP-13")
async def test_a_rejected_budget_makes_one_post(doors: Doors, lea: Visitor) -> None:
    limit(doors, run=Budget(tokens=10))
    _, run_id = await streamed(doors, lea)
    await report(lea, run_id, input_tokens=12)
    asked = await lea.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    await decide(doors, asked["request_id"], "reject")

    async def look() -> bool:
        (run,) = await doors.world.rows("SELECT ended_at FROM runs")
        return run["ended_at"] is not None

    async with playing(doors.world):
        await wait_until(look, bool, what="the run has ended")
    said = [row["text"] for row in await doors.world.rows("SELECT text FROM deliveries WHERE kind = 'post'")]
    assert len([text for text in said if "topped" in text]) == 1


@pytest.mark.parametrize("begins", ["stream", "silently", "with an answer"])
async def test_a_rejected_budget_ends_the_lease_of_work_on_a_message(doors: Doors, lea: Visitor, begins: str) -> None:
    limit(doors, run=Budget(tokens=10))
    if begins == "stream":
        trigger, run_id = await streamed(doors, lea)
    else:
        trigger, run_id = await unstreamed(doors, lea)
    token, about = trigger["lease"]["token"], trigger["inbox_messages"][0]["id"]
    if begins == "with an answer":
        await lea.uses("slack-reply", token, inbox_message_id=about, message="First.")
    await report(lea, run_id, input_tokens=12)
    asked = await lea.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    await decide(doors, asked["request_id"], "reject")
    renewed = await lea.post("/leases/renew", {"tokens": [token]})
    assert (renewed["renewed"], renewed["lost"]) == ([], [token])
    assert [notice["notice"]["kind"] for notice in renewed["notices"]] == ["human_input"]
    refused = await lea.tool("slack-reply", token, inbox_message_id=about, message="And more.")
    told = "The work on this" if begins == "with an answer" else "was stopped because the budget of this run is used up"
    assert error_of(refused)["code"] == "conflict"
    assert told in error_of(refused)["message"]
    opened = await lea.tool("slack-stream", token, action="open", inbox_message_id=about)
    assert error_of(opened)["code"] == "conflict"
    (message,) = await doors.world.rows("SELECT status FROM inbox_messages")
    assert message["status"] == ("responded" if begins == "with an answer" else "dismissed")
    said = [row["text"] for row in await doors.world.rows("SELECT text FROM deliveries WHERE kind = 'post'")]
    why = "because the budget of this run is used up: 12 of 10 tokens, and the operator did not approve more."
    assert sum(text == f"I stopped the work {why}" for text in said) == 1
    assert not any("And more." in text for text in said)
    await doors.world.send()
    marks = {emoji for _, emoji in doors.world.slack.reactions}
    assert ("octagonal_sign" in marks) == (begins != "with an answer")
    assert await lea.poll(wait_seconds=0) == []


async def test_a_budget_that_is_rejected_too_late_leaves_the_next_run_of_a_message_alone(
    doors: Doors, lea: Visitor
) -> None:
    limit(doors, run=Budget(tokens=10))
    trigger, run_id = await unstreamed(doors, lea)
    await report(lea, run_id, input_tokens=12)
    asked = await lea.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    await lea.post("/leases/release", {"tokens": [trigger["lease"]["token"]]})
    again = await lea.only(hold="true")
    await decide(doors, asked["request_id"], "reject")
    about = again["inbox_messages"][0]["id"]
    assert await lea.uses("slack-reply", again["lease"]["token"], inbox_message_id=about, message="Hello.")
    assert "stopped" not in str(await doors.world.rows("SELECT text FROM deliveries"))


async def test_a_budget_that_nobody_raises_in_time_cancels_the_task_once(doors: Doors) -> None:
    limit(doors, run=Budget(tokens=10))
    wim = await doors.worker()
    run_id = await threadless(doors, wim)
    await report(wim, run_id, input_tokens=12)
    asked = await wim.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    await doors.world.database.write(lambda tx: tx.execute("UPDATE requests SET expires_at = created_at", {}))
    for _ in range(2):
        await doors.world.sweep()
    assert (await wim.get(f"/requests/{asked['request_id']}"))["status"] == "expired"
    (task,) = (await doors.operator.get("/tasks"))["tasks"]
    assert task["status"] == "cancelled"
    timeline = await doors.world.rows("SELECT change, reason FROM history WHERE change = 'task.cancel'")
    assert [row["reason"] for row in timeline] == [
        "because the budget of this run is used up: 12 of 10 tokens, and nobody approved more"
    ]


async def test_a_budget_that_is_rejected_too_late_leaves_the_next_run_of_the_task_alone(doors: Doors) -> None:
    limit(doors, run=Budget(tokens=10))
    wim = await doors.worker()
    run_id = await threadless(doors, wim)
    await report(wim, run_id, input_tokens=12)
    asked = await wim.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    (lease,) = await doors.world.rows("SELECT token FROM leases WHERE ended_at IS NULL")
    await wim.post("/leases/release", {"tokens": [lease["token"]]})
    again = await wim.only(hold="true")
    await decide(doors, asked["request_id"], "reject")
    (task,) = (await doors.operator.get("/tasks"))["tasks"]
    assert (task["id"], task["status"]) == (again["task"]["id"], "in_progress")


async def test_the_operators_command_says_what_is_wrong_with_a_value(doors: Doors) -> None:
    with (
        CoordinatorClient(f"http://127.0.0.1:{doors.address[1]}", OPERATOR_TOKEN) as client,
        pytest.raises(CoordinatorRefused, match="Not valid: days") as refused,
    ):
        await asyncio.to_thread(client.call, "GET", "/usage", params={"days": 1000})
    assert refused.value.hint == "days: Input should be less than or equal to 90."


async def test_a_wrong_token_is_named_with_its_place(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_OPERATOR_TOKEN", "w" * 40 + "rong")
    with (
        CoordinatorClient(f"http://127.0.0.1:{doors.address[1]}", "wrong") as client,
        pytest.raises(
            CoordinatorRefused, match=r"^SWARM_OPERATOR_TOKEN \(the environment\) is not a token of the coord"
        ),
    ):
        await asyncio.to_thread(client.call, "GET", "/usage")


@pytest.mark.req("SEC-10")
@pytest.mark.parametrize("own", [None, 100])
async def test_a_run_that_reports_too_much_takes_no_more_from_others_than_its_own_limit(
    doors: Doors, lea: Visitor, own: int | None
) -> None:
    counted = own or 20_000_000
    limit(
        doors,
        run=Budget(tokens=own),
        thread=Budget(tokens=counted + 1),
        agent=Budget(tokens=counted + 1, dollars=Decimal("201")),
        day=Budget(tokens=counted + 10, dollars=Decimal("201")),
    )
    _, run_id = await streamed(doors, lea)
    wim = await doors.worker()
    other = await threadless(doors, wim)
    for _ in range(2):  # over all reports of the run
        found = await report(lea, run_id, input_tokens=10**12, output_tokens=10**12, cost_dollars=10**6)
        assert [one["scope"] for one in found] == (["run"] if own else [])
    assert await report(wim, other, input_tokens=9) == []
    assert [(one["scope"], one["used"]) for one in await report(wim, other, input_tokens=10)] == [("day", counted + 10)]
    if own:  # what people approve for the run counts
        asked = await lea.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
        assert (
            "be asked again, for more than 200 tokens" in (await lea.get(f"/requests/{asked['request_id']}"))["prompt"]
        )
        await decide(doors, asked["request_id"], "approve")
        found = await report(lea, run_id)
        assert [(one["scope"], one["limit"], one["used"]) for one in found] == [
            ("run", 200, 2 * 10**12), ("thread", 101, 200), ("agent", 101, 200), ("day", 110, 210),
        ]  # fmt: skip


@pytest.mark.req("SEC-10")
@pytest.mark.parametrize(
    "body",
    [b'{"input_tokens": 1000000000000000}', b'{"cost_dollars": NaN}', b'{"output_tokens": -5}', b'{"tokens": "x"}'],
)
@pytest.mark.parametrize("own", [None, 100])
async def test_an_invalid_report_uses_up_the_budget_of_its_run_and_no_other(
    doors: Doors, lea: Visitor, own: int | None, body: bytes
) -> None:
    limit(doors, run=Budget(tokens=own), thread=Budget(tokens=100), day=Budget(tokens=100))
    _, run_id = await streamed(doors, lea)
    assert await report(lea, run_id, input_tokens=7) == []
    answer = await lea.ask("POST", f"/runs/{run_id}/usage", content=body)
    assert answer.status_code in (400, 422)
    step = own or 20_000_000
    found = await report(lea, run_id)
    assert {(one["scope"], one["unit"], one["used"]) for one in found} == {
        ("run", "tokens", step), *([] if own else [("run", "dollars", 200.0)]),
    }  # fmt: skip
    assert [run["note"] for run in (await doors.operator.get("/runs"))["runs"]] == [
        "The agent's report of its usage was not valid, so the budget of this run counts as used up."
    ]
    asked = await lea.post(f"/runs/{run_id}/budget", {"scope": "run", "unit": "tokens"})
    await decide(doors, asked["request_id"], "approve")
    assert await report(lea, run_id) == []
    await lea.ask("POST", f"/runs/{run_id}/usage", content=body)  # and again
    assert [one["limit"] for one in await report(lea, run_id) if one["unit"] == "tokens"] == [2 * step]
    wim = await doors.worker()
    assert (await wim.ask("POST", f"/runs/{run_id}/usage", content=body)).status_code in (400, 404)
