"""How often tools may be called, and how much of what they say is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from packages.swarm_agents.tests.agents.builtin.making import Held, Made
from swarm_agents.toolbox.people import CALLER, PausableTimeout, ToolCaller
from swarm_agents.toolbox.tool import CallCaps, Tool, ToolAnswer, ToolLimits, answered, capped, limited

pytestmark = pytest.mark.req("TOOL-03")


@pytest.mark.parametrize(("most", "words"), [(2, "2 times"), (1, "once"), (0, "as often as")])
def test_a_call_too_many_is_answered_normally_in_words_that_name_the_tool(most: int, words: str) -> None:
    caps, tool = CallCaps(), Made("search", most_calls=most).tool
    assert [caps.refusal(tool, 1) for _ in range(most)] == [None] * most
    refusal = caps.refusal(tool, 1)
    assert refusal is not None
    assert not refusal.failed
    assert refusal.text.startswith(f"search has been called {words}")
    assert "Go on without search" in refusal.text


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["one", "two", "free"])), max_size=30))
def test_each_tool_is_counted_apart_and_a_turn_ends_it_only_if_all_of_its_calls_are_refused(
    wanted: list[tuple[int, str]],
) -> None:
    caps = CallCaps()
    tools = {name: Made(name, most_calls=most).tool for name, most in (("one", 1), ("two", 2), ("free", None))}
    made: Counter[str] = Counter()
    turns: dict[int, list[bool]] = {}
    for step, name in wanted:
        refused = caps.refusal(tools[name], step) is not None
        made[name] += not refused
        turns.setdefault(step, []).append(refused)
    asked_for = Counter(name for _, name in wanted)
    assert made["one"] == min(asked_for["one"], 1)
    assert made["two"] == min(asked_for["two"], 2)
    assert made["free"] == asked_for["free"]
    assert all(caps.must_conclude(step, len(run_input)) == all(run_input) for step, run_input in turns.items())
    assert not caps.must_conclude(99, 0)


def test_a_turn_whose_other_calls_never_came_to_a_tool_goes_on() -> None:
    caps, tool = CallCaps(), Made("search", most_calls=0).tool
    caps.refusal(tool, 1)
    assert caps.must_conclude(1, 1)
    assert not caps.must_conclude(1, 2)  # the other was of a tool that there is not


@given(st.text(alphabet="abc…\n\0\ud800😀", max_size=3000), st.integers(100, 2000))
def test_an_answer_is_never_longer_than_it_may_be_and_keeps_its_ends(text: str, most: int) -> None:
    short = capped(ToolAnswer(text=text, failed=True), most)
    assert short.failed
    assert len(short.text) <= most
    short.text.encode()  # halves of characters are gone, which no provider takes
    if len(text) > most:
        assert "characters left out" in short.text
        clean = text.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
        assert short.text[:20] == clean[:20]
        assert short.text[-10:] == clean[-10:]


async def test_a_tool_that_raises_has_failed_and_that_is_logged_without_its_arguments() -> None:
    made = Made("search", ValueError("secret text"))
    with capture_logs() as logs:
        answer = await answered(made.tool, {"query": "secret text"}, 100)
    assert answer == ToolAnswer(text="search failed: something went wrong on our side.", failed=True)
    assert [(log["action"], log["tool"]) for log in logs] == [("tool_failed", "search")]
    assert "secret" not in str({key: value for key, value in logs[0].items() if key != "exc_info"})


async def test_a_connection_that_was_cancelled_below_a_tool_does_not_cancel_the_run() -> None:
    answer = await answered(Made("search", asyncio.CancelledError()).tool, {}, 100)
    assert answer == ToolAnswer(text="search broke off before it answered.", failed=True)


async def test_whoever_cancels_a_call_ends_it() -> None:
    held = Held()
    call = asyncio.create_task(answered(Made("wait", held).tool, {}, 100))
    await held.began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert held.was_cut_off


RULES = (
    ToolLimits(pattern="jira/create_*", key="agents.builtin.helper.limits.tools.jira/create_*", calls=1),
    ToolLimits(pattern="jira/*", key="limits.tools.jira/*", calls=4, characters=500),
    ToolLimits(pattern="jira_search", key="limits.tools.jira_search", calls=2, seconds=0.01),
)


def of_jira(name: str, said: str = "done") -> Tool:
    """A tool of an MCP server, which another server's tool of the same name has given a longer name."""
    return replace(Made(f"jira_{name}", said, server="jira").tool, server_name=name)


@pytest.mark.req("AGENT-12")
@pytest.mark.parametrize(
    ("tool", "calls", "key"),
    [
        (of_jira("create_issue"), 1, "agents.builtin.helper.limits.tools.jira/create_*.calls"),
        (of_jira("search"), 4, "limits.tools.jira/*.calls"),
        (Made("jira_search").tool, 2, "limits.tools.jira_search.calls"),  # not of that server
        (Made("search", most_calls=3).tool, 3, ""),
    ],
)
def test_a_tool_is_limited_by_the_first_pattern_of_its_name_or_of_its_server(tool: Tool, calls: int, key: str) -> None:
    found = limited(tool, RULES)
    assert found.most_calls == calls
    assert found.limit_keys.get("calls", "") == key
    caps = CallCaps()
    answers = [caps.refusal(found, 1) for _ in range(calls + 1)]
    last = answers[-1]
    assert answers[:-1] == [None] * calls
    assert last
    assert last.text.startswith(f"{tool.name} has been called ")
    assert key in last.text


@pytest.mark.req("AGENT-12")
async def test_what_a_tool_of_a_server_says_is_cut_at_its_own_limit_which_the_note_names() -> None:
    tool = limited(of_jira("create_issue", "x" * 5000), RULES)
    answer = await answered(tool, {}, 20_000)
    assert len(answer.text) <= 500
    assert "the limit is 500 (limits.tools.jira/*.characters)" in answer.text
    usual = await answered(Made("other", "x" * 5000).tool, {}, 1000)
    assert "the limit is 1,000 (tools.output_characters)" in usual.text


@pytest.mark.req("AGENT-12")
async def test_a_call_that_takes_too_long_is_stopped_and_the_run_goes_on() -> None:
    held = Held()
    answer = await answered(limited(Made("jira_search", held).tool, RULES), {}, 1000)
    assert held.was_cut_off
    assert answer == ToolAnswer(
        text="jira_search was stopped: it took longer than 0.01 s, which is the limit "
        "(limits.tools.jira_search.seconds).",
        failed=True,
    )


@pytest.mark.req("AGENT-12")
async def test_the_time_of_a_call_and_of_its_run_stand_still_while_people_are_asked() -> None:
    async def asks(arguments: Mapping[str, Any]) -> ToolAnswer:
        caller = CALLER.get()
        assert caller
        with caller.limit.paused():
            await asyncio.sleep(0.05)
            paused.append(caller.limit.paused_seconds)
        return ToolAnswer(text="they agree")

    paused: list[float] = []
    run = PausableTimeout(0.03)
    token = CALLER.set(ToolCaller(run_id="r", limit=run))
    try:
        async with run:
            answer = await answered(limited(Made("jira_search", asks).tool, RULES), {}, 1000)
    finally:
        CALLER.reset(token)
    assert answer.text == "they agree"
    assert run.paused_seconds == pytest.approx(paused[0], abs=0.04)
    assert CALLER.get() is None
