"""The real coding CLIs at what lies beside an answer: an edited message, Stop at a card, a budget, and a limit."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from packages.swarm_runner.tests.clis.conftest import PATIENCE_SECONDS, Bench, after
from packages.swarm_runner.tests.clis.known import CLIS, Cli, each
from packages.swarm_runner.tests.conftest import Office
from packages.swarm_runner.tests.test_budgets import CARD, GO_ON, budgets
from packages.swarm_runner.tests.test_work import be_a_lead
from swarm.clock import new_id
from swarm.domain.requests.button_actions import DECIDE_ACTION, RETRY_RUN_ACTION
from tests.crash.kill_verdict import Rows
from tests.support.providers.request import Request
from tests.support.providers.script import Fails, Reply, Say, Silent, Used, Wait
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

HERE: Final = "Here it is."
LIMIT_SECONDS: Final = 15
MINUTES: Final = 180.0  # codex tells the end of a limit to the minute
TOKENS: Final = 230  # so many are less than two requests, and an approval as many again
CLAUDE, CODEX, OPENCODE, CLAUDE_ACP, _CODEX_ACP = CLIS


def of(*clis: Cli) -> pytest.MarkDecorator:
    """For these CLIs."""
    return pytest.mark.parametrize("cli", clis, ids=lambda cli: cli.provider)


async def cards(office: Office, ts: str) -> int:
    """How many cards about a budget were posted into a thread, by the log of the twin."""
    posts = [json.dumps(post) for post in await office.twin.posts(ts)]
    return sum(CARD in post and f"{DECIDE_ACTION}approve" in post for post in posts)


@each
@pytest.mark.req("RUN-01")
async def test_a_message_that_is_edited_meanwhile_is_one_more_turn_of_the_session(bench: Bench) -> None:
    office, told = bench.office, asyncio.Event()
    await be_a_lead(office)
    begun = [Say("Red "), Wait(told), Say("it is.")]
    bench.reply = lambda request: Say("Blue.") if "blue" in request.texts[-1] else begun
    await bench.start("--role", "lead")
    ts = await office.twin.say(f"swarm#{office.name} paint it red")
    await bench.until_shown(ts, "Red")
    edit = {"user": "alice", "channel": "general", "ts": ts, "text": f"swarm#{office.name} paint it blue"}
    await office.twin.ask("PATCH", "messages", json=edit)

    async def notices() -> int:
        of_lead = f"SELECT n.status FROM notices n JOIN agents a ON a.id = n.agent_id WHERE a.name = '{office.name}'"
        return [row["status"] for row in Rows(office.stage.home / "swarm.db").select(of_lead)].count("done")

    await wait_until(notices, within_seconds=PATIENCE_SECONDS, what="the run is told")
    told.set()
    said = await bench.over(ts, "Blue.")
    assert (said.count("it is."), said.count("Blue.")) == (1, 1)
    assert len(bench.requests) == 2
    assert any("paint it red" in text for text in bench.requests[-1].texts)


@each
@pytest.mark.req("RUN-01", "RUN-09")
async def test_stop_at_an_open_card_ends_the_request_and_the_cli(bench: Bench) -> None:
    office = bench.office
    await bench.start()
    bench.reply = after(bench.cli.shell("echo made >> made.txt"), then="I made the file.")
    ts, task_id = await office.delegate("make a file")
    await bench.card(ts, f"{DECIDE_ACTION}approve")
    await office.twin.say("!stop", thread=ts)
    await office.ended(task_id, "cancelled", within_seconds=PATIENCE_SECONDS)
    assert "I made the file." not in await bench.over(ts)

    async def open_cards() -> bool:
        return DECIDE_ACTION in json.dumps(await bench.shown(ts))

    await wait_until(open_cards, lambda found: not found, what="nobody can decide any more")
    assert len(bench.requests) == 1
    assert not list((office.folder / "swarm").rglob("made.txt"))


@of(CLAUDE, CODEX)
@pytest.mark.req("RUN-06")
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_budget_cuts_off_the_turn_in_which_it_is_used_up(bench: Bench, decision: str) -> None:
    """Two requests use it up, and claude is cut off in the third. Of codex each is known with the next one."""
    office, last = bench.office, 3 + (bench.cli is CODEX)
    await budgets(office, tokens=TOKENS)

    def reply(request: Request) -> Reply:
        number = len(bench.requests)
        if GO_ON in request.texts[-1]:
            return Say(HERE)
        call = replace(bench.cli.swarm("list-agents"), id=f"call_{new_id()}")
        return Silent() if number == last else [Used(input=100 + number * 10, output=10), call]

    bench.reply = reply
    await bench.start()
    ts, task_id = await office.delegate("look around")
    await bench.decide(ts, decision)
    approved = decision == "approve"
    await office.ended(task_id, "completed" if approved else "cancelled", within_seconds=PATIENCE_SECONDS)
    text = await bench.over(ts, HERE if approved else "did not approve more")
    assert (text.count(HERE), await cards(office, ts)) == (approved, 1)
    assert len(bench.requests) == last + approved
    assert len(bench.requests[-1].results) == last - 1


@of(OPENCODE, CLAUDE_ACP)
@pytest.mark.req("RUN-06")
async def test_a_budget_asks_before_the_next_turn_of_a_cli_that_tells_its_usage_at_the_end(bench: Bench) -> None:
    office = bench.office
    amount = {"dollars": 0.05} if bench.cli is OPENCODE else {"tokens": 50}
    rule = {"agent": office.name, "tool": "budget-agent", "requester": True}
    settings = {"budgets": {"agents": {office.name: {"agent": amount}}}, "decisions": [rule]}
    (office.stage.processes.folder / "swarm.yaml").write_text(json.dumps(settings))
    await office.stage.visitor(office.http).post("/reload")
    bench.reply = lambda _: [Used(input=50, output=10), Say(HERE)]
    await bench.start()
    ts, task_id = await office.delegate("look around")
    await office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    for decision, status in (("reject", "cancelled"), ("approve", "completed")):
        assert (len(bench.requests), (await bench.over(ts, HERE)).count(HERE)) == (1, 1)
        _, task_id = await office.delegate("look again", thread=ts)
        await bench.decide(ts, decision)
        await office.ended(task_id, status, within_seconds=PATIENCE_SECONDS)
    await wait_until(
        lambda: bench.shown(ts), lambda seen: json.dumps(seen).count(HERE) >= 2, what="the answer is shown"
    )
    assert (await bench.over(ts)).count(HERE) == len(bench.requests) == 2
    assert any("look around" in text for text in bench.requests[-1].texts)
    assert await cards(office, ts) == 2


def claude_limit(ends_at: int) -> Fails:
    """What a subscription's limit is for claude: headers tell until when."""
    told = {
        "status": "rejected",
        "reset": f"{ends_at}",
        "representative-claim": "five_hour",
        "overage-status": "rejected",
    }
    return Fails(429, headers={f"anthropic-ratelimit-unified-{name}": value for name, value in told.items()})


def codex_limit(ends_at: int) -> Fails:
    """The same for codex, in the body."""
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "pro"}
    return Fails(429, body={"error": {**error, "resets_at": ends_at}})


LIMITS: Final[Mapping[str, Callable[[int], Fails]]] = {"claude": claude_limit, "codex": codex_limit}


@of(CLAUDE, CODEX, CLAUDE_ACP)
@pytest.mark.req("RUN-08")
async def test_work_at_a_limit_waits_and_goes_on_by_itself_once(bench: Bench) -> None:
    office, ends_at = bench.office, list[int]()
    if bench.env.pop("ANTHROPIC_API_KEY", None):  # as people with a subscription have it
        bench.env["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-nobody"

    def reply(_request: Request) -> Reply:
        ends_at.append(int(time.time()) + LIMIT_SECONDS)
        return Say(HERE) if time.time() > ends_at[0] else LIMITS[bench.cli.binary](ends_at[0])

    bench.reply = reply
    await bench.start()
    ts, task_id = await office.delegate("look around")
    await bench.until_shown(
        ts, f"The account of {office.name} has reached its limit. The work waits, and goes on by itself"
    )
    assert len(bench.requests) == 1
    await office.ended(task_id, "completed", within_seconds=MINUTES)
    text = await bench.over(ts, HERE)
    assert (text.count(HERE), text.count("has reached its limit"), len(bench.requests)) == (1, 1, 2)


@each
@pytest.mark.req("RUN-08")
async def test_too_many_requests_are_no_answer(bench: Bench) -> None:
    """opencode tries again itself; of the others people read why there is no answer, and can press Retry."""
    office, is_patient = bench.office, bench.cli is OPENCODE
    bench.reply = lambda _: Say(HERE) if is_patient and len(bench.requests) > 2 else Fails(429, retry_after=1)
    await bench.start()
    ts, task_id = await office.delegate("look around")
    if not is_patient:
        await office.ended(task_id, "dead", within_seconds=PATIENCE_SECONDS)
        bench.reply = lambda _: Say(HERE)
        button = await bench.card(ts, RETRY_RUN_ACTION)
        assert HERE not in await bench.over(ts)
        pressed = {"user": "alice", "channel": "general", "ts": button["ts"], "action_id": RETRY_RUN_ACTION}
        assert (await office.twin.ask("POST", "actions", json=pressed))["ok"]
    await office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    assert (await bench.over(ts, HERE)).count(HERE) == 1
