"""The real coding CLIs as leads, with a second runner as the worker, and a scripted model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from packages.swarm_runner.tests.clis.conftest import Bench
from packages.swarm_runner.tests.clis.known import CLIS, each
from packages.swarm_runner.tests.conftest import fake, lead_beside
from swarm.clock import new_id
from tests.support.providers.request import Request
from tests.support.providers.script import Reply, Say

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.req("RUN-10", "RUN-01")]

PASSED_ON, COUNTED = "I have passed it on.", "All letters are counted."


def newest(request: Request) -> str:
    """The prompt of the newest trigger."""
    return [text for text in request.texts if "- trigger: " in text][-1]


def leads(bench: Bench, worker: str, *, replies: bool) -> Callable[[Request], Reply]:
    """A model that delegates, says so, and tells people of the result: with a tool, or with its text."""
    tools: dict[str, int] = {}

    def reply(request: Request) -> Reply:
        prompt, results = newest(request), len(request.results)
        is_news = "- trigger: task_finished" in prompt
        words = COUNTED if is_news else PASSED_ON
        begun = tools.setdefault(str(is_news), results)
        if results > begun or (is_news and not replies):
            return Say(words)
        ids = dict(re.findall(r"^- (\w+): (\S+)", prompt, re.MULTILINE))
        given = {"lease_token": ids["lease_token"]}
        if is_news:
            call = bench.cli.swarm("slack-reply", task_id=ids["task_id"], message=COUNTED, **given)
        else:
            about = {"inbox_message_id": ids["inbox_message_id"], "agent": worker, "task": "count the letters"}
            call = bench.cli.swarm("inbox-delegate", **about, title="count", **given)
        return replace(call, id=f"call_{new_id()}")

    return reply


@each
@pytest.mark.parametrize("replies", [False, True])
async def test_a_lead_delegates_and_answers_with_the_result_in_one_session(bench: Bench, *, replies: bool) -> None:
    worker = bench.office
    lead = bench.office = await lead_beside(worker)
    lead.environment["PATH"] = worker.environment["PATH"]
    bench.reply = leads(bench, worker.name, replies=replies)
    await bench.start("--role", "lead")
    await worker.start(fake("normal"))
    ts = await lead.twin.say(f"swarm#{lead.name} please count the letters")
    await bench.until_shown(ts, PASSED_ON, "You said", COUNTED)
    text = await bench.over(ts)
    assert [text.count(words) for words in (PASSED_ON, "You said", COUNTED)] == [1, 1, 1]
    last = bench.requests[-1]
    assert "You said" in newest(last)
    assert sum("- trigger: " in said for said in last.texts) == 2, "both turns are in one session"
    assert any("You are a lead" in said for said in (last.system, *last.texts))


@pytest.mark.parametrize("cli", [CLIS[0], CLIS[3]], ids=lambda cli: cli.provider)
async def test_claude_sees_the_tools_of_the_swarm_from_the_start(bench: Bench) -> None:
    lead = bench.office = await lead_beside(bench.office)
    if bench.cli.provider == "claude":
        bench.env["ENABLE_TOOL_SEARCH"] = "true"  # an operator who wants it for other tools
    bench.reply = lambda _request: Say("It is me.")
    await bench.start("--role", "lead")
    ts = await lead.twin.say(f"swarm#{lead.name} who is there?")
    await bench.until_shown(ts, "It is me.")
    await bench.over(ts)
    tools = {bench.cli.swarm(tool).tool for tool in ("inbox-delegate", "list-agents", "slack-reply")}
    assert tools <= set(bench.requests[0].tools)
