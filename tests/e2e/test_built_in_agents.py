"""The built-in agents as people meet them in Slack: real processes, and rules in place of the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from swarm.domain.model.feedback import INSTRUCTIONS, Reason
from swarm.domain.requests.button_actions import FEEDBACK_ACTION, REASON_ACTION
from swarm_lab.demo.rules.assistant_rules import WHAT_I_AM
from tests.e2e.built_in import KEPT, MODEL, REQUESTS, THRESHOLD, BuiltInStage
from tests.support.processes import processes_in
from tests.support.twin_client import ANSWERED, Conversation, TwinClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long

PATIENCE = 60.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltInStage]:
    with processes_in(tmp_path_factory.mktemp("built-in")) as processes:
        yield BuiltInStage(processes)


@pytest.fixture
async def built_in(shared: BuiltInStage) -> AsyncIterator[BuiltInStage]:
    await shared.open()
    yield shared
    shared.processes.show_logs()


@pytest.fixture
def person(built_in: BuiltInStage, http: httpx2.AsyncClient) -> TwinClient:
    return built_in.stage.person(http)


async def says(person: TwinClient, text: str, *, channel: str = "general", user: str = "alice") -> tuple[str, str]:
    """Say something in a thread of its own; its timestamp and the whole answer."""
    ts = await person.say(text, channel=channel, user=user)
    seen = await person.until(ts, Conversation.is_answered, channel=channel, user=user, within_seconds=PATIENCE)
    return ts, seen.answers[0]


async def goes_on(person: TwinClient, ts: str, text: str, *, channel: str = "general", user: str = "alice") -> str:
    """Say something in a thread, without naming anybody; the whole answer."""
    said = await person.say(text, channel=channel, user=user, thread=ts)

    async def reactions() -> list[str]:
        messages = await person.messages(channel=channel, thread_ts=ts, user=user)
        return [one["name"] for message in messages if message["ts"] == said for one in message["reactions"]]

    await wait_until(reactions, lambda names: ANSWERED in names, within_seconds=PATIENCE)
    seen = await person.until(ts, lambda seen: not seen.is_growing, channel=channel, user=user)
    return seen.answers[-1]


@pytest.mark.req("AGENT-01", "AGENT-02")
async def test_a_sentence_runs_a_tool_of_an_mcp_server_and_the_result_is_worded(person: TwinClient) -> None:
    _, answer = await says(person, "swarm#tools what is 6 times 7?")
    assert answer == "6 times 7 is **42**."


@pytest.mark.req("HITL-01")
async def test_a_tool_server_asks_in_the_thread_and_the_call_goes_on_with_the_answer(person: TwinClient) -> None:
    ts = await person.say("swarm#tools what is 999999 plus 2?", channel="general")

    async def card() -> str:
        messages = await person.messages(channel="general", thread_ts=ts)
        return next((one["ts"] for one in messages if "tool server calculator" in one["text"]), "")

    under = await wait_until(card, within_seconds=PATIENCE)
    pressed = {"user": "alice", "channel": "general", "ts": under, "action_id": "request_decide:approve"}
    assert (await person.ask("POST", "actions", json=pressed))["ok"]
    seen = await person.until(ts, Conversation.is_answered, within_seconds=PATIENCE)
    assert "999999 plus 2 is **1000001**." in seen.answers


@pytest.mark.req("AGENT-01")
async def test_what_is_missing_is_asked_for_in_the_thread_and_the_reply_goes_on_with_the_request(
    person: TwinClient,
) -> None:
    ts, question = await says(person, "swarm#tools multiply 6")
    assert question == "I have 6 so far. What is the other number?"
    assert await goes_on(person, ts, "7") == "6 times 7 is **42**."

    other, _ = await says(person, "swarm#tools multiply 6")
    assert "leave it at that" in await goes_on(person, other, "never mind")


@pytest.mark.req("AGENT-01", "AGENT-02")
async def test_a_router_refuses_what_no_tool_does_and_says_what_it_can_do(person: TwinClient) -> None:
    _, answer = await says(person, "swarm#tools who won the 1998 world cup?")
    assert answer.startswith("I can't help with that.")
    assert all(f"`{tool}`" in answer for tool in ("add", "multiply", "divide"))
    assert "subtract" not in answer  # which the server has, and nobody has allowed
    _, failed = await says(person, "swarm#tools what is 6 divided by 0?")
    assert "division by 0 is not possible" in failed


@pytest.mark.req("AGENT-04", "TOOL-06")
async def test_the_assistant_looks_things_up_and_says_where_it_stands_and_that_it_is_no_model(
    person: TwinClient,
) -> None:
    since = await person.now()
    _, answer = await says(person, "@swarm what is agntcy")
    assert "Internet of Agents" in answer
    assert "`agntcy.md`" in answer
    shown = str([call["args"] for call in await person.calls(since=since)])
    assert all(tool in shown for tool in ("search", "fetch_document"))
    _, compared = await says(person, "@swarm compare agntcy and caipe onboarding")
    assert all(f"`{name}-onboarding.md`" in compared for name in ("agntcy", "caipe"))
    _, identity = await says(person, "@swarm what are you?", user="bob")
    assert " ".join(identity.split()) == WHAT_I_AM


@pytest.mark.req("AGENT-04", "AGENT-05")
async def test_the_assistant_remembers_over_the_sudden_end_of_the_coordinator_in_a_thread_and_in_a_direct_message(
    built_in: BuiltInStage, person: TwinClient
) -> None:
    thread, _ = await says(person, "@swarm my name is Ada", user="bob")
    direct, _ = await says(person, "my name is Grace", channel="@swarm", user="bob")
    await built_in.restart()
    assert "**Ada**" in await goes_on(person, thread, "what is my name?", user="bob")
    assert "**Grace**" in await goes_on(person, direct, "what is my name?", channel="@swarm", user="bob")
    _, elsewhere = await says(person, "@swarm what is my name?", user="bob")
    assert "**Ada**" in elsewhere  # one memory for each user in a channel
    _, somebody = await says(person, "@swarm what is my name?", user="carol")
    assert "not told me" in somebody
    kept = built_in.sessions()
    assert sum("my name is Ada" in session.texts for session in kept.values()) == 1
    assert all(name.startswith("slack:") for name in kept)


@pytest.mark.req("AGENT-05", "AGENT-06", "AGENT-07")
async def test_the_assistant_remembers_over_a_summary_and_the_originals_stay(
    built_in: BuiltInStage, person: TwinClient, http: httpx2.AsyncClient
) -> None:
    await says(person, "@swarm my name is Joan. Remember: tea is at four", channel="random", user="carol")
    for _ in range(THRESHOLD // 2):
        await says(person, "@swarm tell me a joke", channel="random", user="carol")

    async def summary() -> str:
        found = [one.summary for one in built_in.sessions().values() if "tell me a joke" in one.texts and one.summary]
        return found[0] or "" if found else ""

    told = await wait_until(summary, within_seconds=PATIENCE)
    assert "my name is Joan" in told
    assert "tea is at four" in told
    summaries = (await built_in.get(http, "/runs", purpose="summary"))["runs"]
    assert any(run["outcome"] == "answered" and run["input_tokens"] for run in summaries)
    _, answer = await says(person, "@swarm what is my name?", channel="random", user="carol")
    assert "**Joan**" in answer
    _, everything = await says(person, "@swarm what do you know about me?", channel="random", user="carol")
    assert "tea is at four" in everything
    (kept,) = [one for one in built_in.sessions().values() if any("tea is at four" in text for text in one.texts)]
    assert len(kept.texts) > THRESHOLD + KEPT  # nothing of what was said is gone
    assert kept.roles[:2] == ["user", "assistant"]


@pytest.mark.req("AGENT-07")
async def test_a_run_that_does_not_end_is_ended_by_its_limit_and_the_thread_is_told_why(
    built_in: BuiltInStage, person: TwinClient, http: httpx2.AsyncClient
) -> None:
    ts = await person.say("@swarm search for ever")

    def is_over(seen: Conversation) -> bool:  # the reaction is a delivery of its own, and may be the first in Slack
        return "x" in seen.emoji and not seen.is_growing and "limits.requests" in str(seen.answers)

    seen = await person.until(ts, is_over, within_seconds=PATIENCE)
    assert f"{REQUESTS}" in " ".join(seen.answers)
    run = (await built_in.get(http, "/runs", agent="assistant", purpose="answer", limit="1"))["runs"][0]
    assert (run["outcome"], run["requests"]) == ("limited", REQUESTS)


@pytest.mark.req("AGENT-07")
async def test_what_was_used_and_what_it_costs_is_told_to_the_operator(
    built_in: BuiltInStage, person: TwinClient, http: httpx2.AsyncClient
) -> None:
    await says(person, "swarm#tools what is 2 plus 3?")
    run = (await built_in.get(http, "/runs", agent="tools", limit="1"))["runs"][0]
    assert (run["agent"], run["door"], run["outcome"]) == ("tools", "slack", "answered")
    assert (run["requests"], run["tool_calls"]) == (2, 1)  # one call of the model decides, one words the result
    assert MODEL in run["model"]
    assert run["input_tokens"] > run["output_tokens"] > 0
    assert run["cost_microdollars"] > 0
    used = (await built_in.get(http, "/usage"))["usage"]
    (of_router,) = [row for row in used if row["agent"] == "tools"]
    assert of_router["runs"] >= 1
    assert of_router["requests"] >= run["requests"]
    assert of_router["cost_microdollars"] >= run["cost_microdollars"]


@pytest.mark.req("CHAN-05", "STREAM-12")
async def test_more_detail_makes_the_assistant_answer_again_with_the_instruction(
    built_in: BuiltInStage, person: TwinClient
) -> None:
    ts, _ = await says(person, "swarm#assistant hello, remember the word lighthouse")
    messages = await person.messages(thread_ts=ts)
    (rated,) = [one for one in messages if "context_actions" in [block["type"] for block in one["blocks"]]]
    (value,) = [block["elements"][0]["negative_button"]["value"] for block in rated["blocks"] if "elements" in block
                and block["type"] == "context_actions"]  # fmt: skip
    press = {"user": "alice", "channel": "general", "wait_seconds": 0}
    down = {"ts": rated["ts"], "action_id": FEEDBACK_ACTION, "value": value}
    assert (await person.ask("POST", "actions", json=press | down))["ok"]
    choice = [one for one in await person.messages(user="alice") if one.get("subtype") == "ephemeral"][-1]
    more = {"ts": choice["ts"], "action_id": REASON_ACTION + Reason.MORE_DETAIL}
    assert (await person.ask("POST", "actions", json=press | more))["ok"]
    await person.until(ts, lambda seen: len(seen.answers) == 2 and not seen.is_growing, within_seconds=PATIENCE)

    async def told() -> list[str]:
        found = [one.texts for one in built_in.sessions().values() if "lighthouse" in str(one.texts)]
        return [text for text in found[0] if "hello, remember" in text] if found else []

    first, again = await wait_until(told, lambda texts: len(texts) == 2)
    assert INSTRUCTIONS[Reason.MORE_DETAIL] not in first
    assert again.startswith(INSTRUCTIONS[Reason.MORE_DETAIL])


@pytest.mark.req("AGENT-12")
async def test_a_thread_that_has_used_what_it_may_in_a_day_is_told_so_and_another_one_goes_on(
    built_in: BuiltInStage, person: TwinClient
) -> None:
    thread, joke = await says(person, "swarm#frugal tell me a joke", channel="random", user="bob")
    assert joke
    await person.say("swarm#frugal tell me a joke", channel="random", user="bob", thread=thread)
    wanted = (
        "more than 1 calls of the model today (UTC), which is the limit (agents.builtin.frugal.limits.thread.requests)"
    )
    await person.until(
        thread,
        lambda seen: any(wanted in answer for answer in seen.answers),
        channel="random",
        user="bob",
        within_seconds=PATIENCE,
    )
    _, elsewhere = await says(person, "swarm#frugal tell me a joke", channel="random", user="bob")
    assert elsewhere
