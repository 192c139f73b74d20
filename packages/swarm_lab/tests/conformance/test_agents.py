"""The suite against agents: a good one passes all 22 checks, and each check has an agent that fails exactly it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ag_ui.core import EventType, RunErrorEvent

from packages.swarm_lab.tests.conformance.agents import BROKEN, CASES, Script, Seen, concluding, good, lines, summing_up
from packages.swarm_lab.tests.conformance.beyond import BROKEN_BEYOND, NOTE, Runs, asking, complete
from swarm.agents.remote.agui import AguiAgent
from swarm.domain.answers.agents import Dialect, RemoteAgent, conversation_with
from swarm.domain.errors import Unavailable
from swarm_lab.conformance.checks import Limits
from swarm_lab.conformance.run import Examination, Result, examine
from swarm_lab.conformance.scenarios import ALL_SCENARIOS, ANSWER, HUMAN_INPUT, SCENARIOS, Beyond, Check, Scenario
from swarm_lab.conformance.workspace import workspace
from tests.support.agui_server import AguiServer, Answer
from tests.support.idle_time import IdleTimeLoop
from tests.support.quick import quick

PATIENCE_SECONDS = 60.0
CAIPE_PATH = "/api/v1/chat/stream/start"
RAG_COMPLEX = SCENARIOS[3]
IMPATIENT = Limits(first_sign_seconds=1.0)


@asynccontextmanager
async def examining(
    url: str, seen: Seen, dialect: Dialect = Dialect.AGUI, limits: Limits | None = None
) -> AsyncIterator[Examination]:
    remote = RemoteAgent(name="remote", url=url, dialect=dialect, timeout_seconds=PATIENCE_SECONDS)
    agent = AguiAgent(remote, connect_patience_seconds=0.5)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, IdleTimeLoop)
    loop.hurry(10)  # agent and Slack live in this loop: what is left are pauses between calls
    async with workspace(seen, monotonic=loop.time) as slack:
        yield Examination(
            agent,
            slack,
            lambda place: conversation_with(remote, team=place.team, channel=place.channel, thread_ts=place.thread_ts),
            name="remote",
            limits=limits,
        )
    await agent.aclose()


async def result_of(server: AguiServer, scenario: Scenario, script: Script, limits: Limits | None = None) -> Result:
    """One scenario with one agent."""
    seen = Seen()
    server.on("/", *script(scenario, seen))
    async with asyncio.timeout(PATIENCE_SECONDS), examining(f"{server.url}/", seen, limits=limits) as examination:
        return await examination.run(scenario)


def failed(result: Result) -> dict[str, str]:
    """The checks that failed, and what they saw."""
    return {verdict.check.value: verdict.found.seen for verdict in result.verdicts if not verdict.passed}


@pytest.mark.req("CONF-01", "CONF-02", "STREAM-04")
@pytest.mark.parametrize("scenario", quick(SCENARIOS), ids=[scenario.name for scenario in SCENARIOS])
async def test_a_good_agent_passes_every_check(server: AguiServer, scenario: Scenario) -> None:
    result = await result_of(server, scenario, good)
    assert failed(result) == {}
    assert len(result.verdicts) == len(scenario.checks)


@pytest.mark.req("CONF-01", "STREAM-04")
@pytest.mark.parametrize("script", quick([concluding, summing_up]))
async def test_a_final_result_completes_the_answer_and_is_not_shown_again(server: AguiServer, script: Script) -> None:
    scenario = SCENARIOS[0]
    result = await result_of(server, scenario, script)
    assert failed(result) == {}
    assert result.record.text.split() == "".join(lines(scenario)).split()


@pytest.mark.req("CONF-02")
@pytest.mark.parametrize(("scenario", "check"), CASES, ids=[f"{s.name}-{c.name.lower()}" for s, c in CASES])
async def test_a_broken_agent_fails_exactly_the_check_that_it_breaks(
    server: AguiServer, scenario: Scenario, check: Check
) -> None:
    limits = IMPATIENT if check is Check.STREAM else None
    assert list(failed(await result_of(server, scenario, BROKEN[check], limits))) == [check.value]


@pytest.mark.req("CONF-01", "STREAM-01")
async def test_all_scenarios_run_one_after_another_in_either_dialect(server: AguiServer) -> None:
    seen = Seen()
    server.on("/healthz", Answer(200, {}, b"ok"))
    server.on(CAIPE_PATH, *good(SCENARIOS[0], seen))
    begun: list[str] = []
    done: list[str] = []
    async with examining(server.url, seen, Dialect.CAIPE) as examination:
        results = await examine(
            examination,
            SCENARIOS[:2],
            begun=lambda scenario: begun.append(scenario.name),
            done=lambda result: done.append(result.scenario.name),
        )
    assert [result.scenario.name for result in results] == begun == done == ["simple-chat", "off-topic"]
    assert failed(results[0]) == {}
    asked = [request.json for request in server.to(CAIPE_PATH)]
    assert [body["message"] for body in asked] == [scenario.prompt for scenario in SCENARIOS[:2]]
    assert asked[0]["client_context"] == {"source": "slack", "channel_type": "channel", "channel_name": "#general"}
    assert asked[0]["conversation_id"] != asked[1]["conversation_id"]


@pytest.mark.req("CONF-01")
async def test_an_agent_that_cannot_be_reached_is_not_examined() -> None:
    async with examining("http://127.0.0.1:9/", Seen()) as examination:
        with pytest.raises(Unavailable, match="cannot be examined: it cannot be reached"):
            await examine(examination, SCENARIOS, begun=lambda _: None, done=lambda _: None)


@pytest.mark.req("CONF-01")
async def test_an_agent_that_says_nothing_fails_what_it_did_not_do(server: AguiServer) -> None:
    server.on("/", Answer(200))
    async with examining(f"{server.url}/", Seen()) as examination:
        result = await examination.run(SCENARIOS[0])
    assert list(failed(result)) == [check.value for check in (Check.CONTENT, Check.STREAM, Check.LIVE, Check.LATCHED)]
    assert result.record.messages[-1].text.startswith("⚠️")


def test_the_checks_are_twenty_two_and_each_has_an_agent_that_fails_it() -> None:
    assert [len(scenario.checks) for scenario in SCENARIOS] == [6, 4, 7, 5]
    assert len(CASES) == 22
    assert set(BROKEN) == set(Check)


# Beyond the 22


async def beyond(server: AguiServer, scenario: Scenario, runs: Callable[[Seen], Runs]) -> Result:
    """One scenario with one agent that may be asked more than once."""
    seen = Seen()
    for steps in runs(seen):
        server.next("/", *steps)
    async with asyncio.timeout(PATIENCE_SECONDS), examining(f"{server.url}/", seen) as examination:
        return await examination.run(scenario)


def failed_beyond(result: Result) -> dict[str, str]:
    return {verdict.check.value: verdict.found.seen for verdict in result.beyond if not verdict.passed}


@pytest.mark.req("CONF-05")
@pytest.mark.parametrize(("scenario", "runs"), [(RAG_COMPLEX, complete), (HUMAN_INPUT, lambda seen: asking())])
async def test_a_complete_agent_passes_what_is_beyond_the_22(
    server: AguiServer, scenario: Scenario, runs: Callable[[Seen], Runs]
) -> None:
    result = await beyond(server, scenario, runs)
    assert (failed(result), failed_beyond(result)) == ({}, {})
    assert [verdict.check for verdict in result.beyond] == list(scenario.beyond)


@pytest.mark.req("CONF-05")
@pytest.mark.parametrize("check", Beyond, ids=[check.name.lower() for check in Beyond])
async def test_each_check_beyond_has_an_agent_that_fails_exactly_it(server: AguiServer, check: Beyond) -> None:
    scenario = next(scenario for scenario in ALL_SCENARIOS if check in scenario.beyond)
    result = await beyond(server, scenario, BROKEN_BEYOND[check])
    assert (failed(result), list(failed_beyond(result))) == ({}, [check.value])


@pytest.mark.req("CONF-05")
@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ({"capped": "b.md"}, "no search had reached its cap"),
        ({"reads": False}, "1 searches were capped, 1 of them say the tool; 0 documents were read afterwards"),
    ],
)
async def test_a_cap_is_isolated_only_if_it_was_reached_and_documents_are_read_after_it(
    server: AguiServer, more: dict[str, Any], seen: str
) -> None:
    result = await beyond(server, RAG_COMPLEX, lambda watched: complete(watched, **more))
    assert failed_beyond(result) == {Beyond.CAPS.value: seen}


FAILED = RunErrorEvent(type=EventType.RUN_ERROR, message="the note is lost")
OTHER = "I have written the note down: the cellar is closed today.\n"


@pytest.mark.req("CONF-05")
@pytest.mark.parametrize(
    ("wrong", "check", "seen"),
    [
        ({"made": True}, Beyond.APPROVAL, "file-write was called before it was approved"),
        ({"answer": 2 * NOTE}, Beyond.RESUMED, "characters, of which a passage comes twice"),
        ({"answer": OTHER, "note": "No cellar."}, Beyond.RESUMED, f"but not what people had answered: “{ANSWER}”"),
        ({"questions": 2}, Beyond.RESUMED, "characters, and the same was asked again"),
        ({"questions": 9}, Beyond.RESUMED, "5 questions were answered; then 0 characters, and no end"),
        ({"end": FAILED}, Beyond.RESUMED, "characters, and no end"),
    ],
)
async def test_an_agent_that_goes_on_wrongly_fails_and_is_told_how(
    server: AguiServer, wrong: dict[str, Any], check: Beyond, seen: str
) -> None:
    result = await beyond(server, HUMAN_INPUT, lambda watched: asking(**wrong))
    failures = failed_beyond(result)
    assert seen in failures[check.value]


@pytest.mark.req("CONF-05")
@pytest.mark.parametrize(("answer", "note"), [(OTHER, ANSWER), (NOTE, "See above.")])
async def test_an_answer_is_used_in_a_call_or_in_the_text(server: AguiServer, answer: str, note: str) -> None:
    assert failed_beyond(await beyond(server, HUMAN_INPUT, lambda seen: asking(answer=answer, note=note))) == {}


@pytest.mark.req("CONF-05")
async def test_the_answers_go_to_the_questions_in_the_conversation_in_which_they_were_asked(server: AguiServer) -> None:
    await beyond(server, HUMAN_INPUT, lambda seen: asking())
    first, second, third = (request.json for request in server.to("/"))
    assert first["threadId"] == second["threadId"] == third["threadId"]
    assert [entry["interruptId"] for entry in second["resume"]] == ["q1"]
    assert second["resume"][0]["payload"] == {"text": ANSWER}
    assert [(entry["interruptId"], entry["payload"]["approved"]) for entry in third["resume"]] == [("q2", True)]
