"""The status line beside an answer, and the state of an agent's session, against the twin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import stamina
from structlog.testing import capture_logs

from swarm.domain.answers.calls import AnswerTarget, SessionState
from swarm.domain.model.deliveries import Delivery, DeliveryAccepted, DeliveryKind
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from tests.contract.slack.answers import place
from tests.contract.slack.scripted import ScriptedSlack
from tests.contract.slack.workspace import Workspace

pytestmark = pytest.mark.req("STREAM-09")

STATUS = "assistant.threads.setStatus"
SESSION = "agents.sessions.setStatus"
TITLE = "assistant.threads.setTitle"
SUGGEST = "assistant.threads.setSuggestedPrompts"


@pytest.fixture(autouse=True)
def without_pauses() -> Any:
    """Attempts follow one another at once."""
    with stamina.set_testing(True, attempts=3, cap=True):
        yield


@pytest.fixture
async def where(workspace: Workspace) -> AnswerTarget:
    return place(await workspace.say("@swarm hello"))


@pytest.fixture
async def agent(workspace: Workspace) -> AsyncIterator[Gateway]:
    """A gateway for an app that is declared as an agent."""
    gateway = workspace.gateway(agent_sessions=True)
    yield gateway
    await gateway.close()


async def statuses(workspace: Workspace) -> list[tuple[str, str]]:
    return [(shown["thread_ts"], shown["text"]) for shown in (await workspace.assistant())["statuses"]]


async def session(workspace: Workspace) -> str | None:
    shown = (await workspace.assistant())["assistants"]
    return next((one["session"] for one in shown), None)


async def test_a_status_shows_in_its_thread_until_it_is_cleared(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    await gateway.streams.status(where, "is searching the docs")
    assert await statuses(workspace) == [(where.thread_ts, "is searching the docs")]
    await gateway.streams.status(where, "")
    assert await statuses(workspace) == []


async def test_an_agents_session_is_processing_until_it_works_no_more(
    agent: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    await agent.streams.status(where, "is searching the docs")
    assert await session(workspace) == "processing"
    await agent.streams.status(where, "", session=SessionState.PROCESSING)
    assert await session(workspace) == "processing"
    await agent.streams.status(where, "", session=SessionState.SUSPENDED)
    assert await session(workspace) == "suspended"
    await agent.streams.status(where, "", session=SessionState.ACTIVE)
    assert await session(workspace) == "active"
    assert await workspace.calls(STATUS) == []


async def test_a_status_that_cannot_be_shown_is_logged_and_left_out(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    await workspace.fault("http_500", method=STATUS)
    with capture_logs() as logs:
        await gateway.streams.status(where, "is thinking")
    [entry] = logs
    assert (entry["action"], entry["turn_id"]) == ("slack_status_not_shown", where.run_id)
    assert len(await workspace.calls(STATUS)) == 1
    with capture_logs() as logs:
        await gateway.streams.status(place("1700000000.000100"), "is thinking")
    assert [entry["reason"] for entry in logs] == ["invalid_thread_ts"]
    await gateway.streams.status(where, "is back")
    assert await statuses(workspace) == [(where.thread_ts, "is back")]


async def test_clearing_is_tried_until_it_is_done(gateway: Gateway, workspace: Workspace, where: AnswerTarget) -> None:
    await gateway.streams.status(where, "is thinking")
    await workspace.fault("http_500", method=STATUS, times=2)
    await gateway.streams.status(where, "")
    assert await statuses(workspace) == []
    await workspace.fault("http_500", method=STATUS, times=9)
    await gateway.streams.status(where, "")  # in the end Slack forgets it


async def test_of_a_session_only_the_end_of_its_work_is_worth_several_attempts(
    agent: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    await workspace.fault("http_500", method=SESSION)
    await agent.streams.status(where, "", session=SessionState.PROCESSING)
    assert (len(await workspace.calls(SESSION)), await session(workspace)) == (1, None)
    await workspace.fault("http_500", method=SESSION)
    await agent.streams.status(where, "is done", session=SessionState.ACTIVE)
    assert (len(await workspace.calls(SESSION)), await session(workspace)) == (3, "active")


async def test_clearing_waits_out_a_rate_limit_which_a_status_does_not(
    workspace: Workspace, where: AnswerTarget
) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    gateway = workspace.gateway(pacing=Pacing(enforced=False, monotonic=lambda: now, sleep=sleep))
    await gateway.streams.status(where, "is thinking")
    await workspace.fault("http_429", method=STATUS, seconds=90)
    with capture_logs() as logs:
        await gateway.streams.status(where, "is reading")  # this one is told of the limit
        await gateway.streams.status(where, "is writing")  # and this one would come too late
    assert len(logs) == 2
    assert now == 0
    await gateway.streams.status(where, "")
    assert now == 90
    assert await statuses(workspace) == []
    await gateway.close()


@pytest.mark.parametrize("code", ["missing_scope", "unknown_method", "feature_not_enabled", "not_allowed_token_type"])
async def test_a_method_that_the_workspace_does_not_have_is_not_asked_again(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget, code: str
) -> None:
    await workspace.fault("error", method=STATUS, error=code)
    with capture_logs() as logs:
        await gateway.streams.status(where, "is thinking")
        await gateway.streams.status(where, "is reading")
        await gateway.streams.status(where, "")
    assert [entry["reason"] for entry in logs] == [code]
    assert len(await workspace.calls(STATUS)) == 1


async def test_where_there_are_no_sessions_the_status_line_is_used(
    agent: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    await workspace.fault("error", method=SESSION, error="feature_disabled")
    await agent.streams.status(where, "is thinking")
    await agent.streams.status(where, "is reading")
    assert await statuses(workspace) == [(where.thread_ts, "is reading")]


async def test_what_is_said_of_a_status_is_what_slack_documents(scripted: Gateway, script: ScriptedSlack) -> None:
    script.answers[STATUS] = {"ok": True}
    await scripted.streams.status(place("1700000000.000100"), "is thinking")
    told = {"channel_id": "C0GENERAL", "thread_ts": "1700000000.000100", "status": "is thinking"}
    assert script.calls == [(STATUS, told)]
    assert script.verbs == ["POST"]


async def test_whether_the_app_is_an_agent_is_tried_once(workspace: Workspace, where: AnswerTarget) -> None:
    gateway = workspace.gateway(agent_sessions=None)
    assert not gateway.streams.shows_stop
    await gateway.streams.status(where, "is thinking")
    assert (await session(workspace), gateway.streams.shows_stop) == ("processing", True)
    await gateway.close()
    other = workspace.gateway(agent_sessions=None)
    await workspace.fault("error", method=SESSION, error="a_code_that_nobody_knows")
    begun = len(await workspace.calls(SESSION))
    await other.streams.status(where, "is thinking")
    await other.streams.status(where, "is reading")
    assert await statuses(workspace) == [(where.thread_ts, "is reading")]
    assert (len(await workspace.calls(SESSION)) - begun, other.streams.shows_stop) == (1, False)
    await other.close()


async def test_a_thread_that_is_gone_says_nothing_about_the_app(workspace: Workspace, where: AnswerTarget) -> None:
    gateway = workspace.gateway(agent_sessions=None)
    await gateway.streams.status(place("1700000000.000100"), "is thinking")
    await gateway.streams.status(where, "is thinking")
    assert await session(workspace) == "processing"
    await gateway.close()


async def test_a_flat_answer_has_no_status(gateway: Gateway, workspace: Workspace) -> None:
    await gateway.streams.status(place(""), "is thinking")
    await gateway.streams.status(place(""), "")
    assert await workspace.calls(STATUS) == []


# Titles and prompts


def decoration(kind: DeliveryKind, text: str, thread_ts: str) -> Delivery:
    return Delivery(
        id="d", kind=kind, channel="C0GENERAL", thread_ts=thread_ts, target_ts=None, text=text, broadcast=False,
        agent_name=None, attempts=1,
    )  # fmt: skip


PROMPTS = '[{"title": "Hi", "message": "Say hi"}]'


@pytest.mark.req("CHAN-08")
async def test_a_session_is_begun_with_its_title_and_renamed_later(
    agent: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    for title in ("a question", "another"):
        assert isinstance(await agent.deliver(decoration(DeliveryKind.TITLE, title, where.thread_ts)), DeliveryAccepted)
        (shown,) = (await workspace.assistant())["assistants"]
        assert (shown["title"], shown["session"]) == (title, "active")
    assert await workspace.calls(TITLE) == []


@pytest.mark.req("CHAN-08")
async def test_an_app_that_is_no_agent_names_threads_and_suggests_prompts(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    await gateway.deliver(decoration(DeliveryKind.TITLE, "a question", where.thread_ts))
    await gateway.deliver(decoration(DeliveryKind.PROMPTS, PROMPTS, where.thread_ts))
    await gateway.deliver(decoration(DeliveryKind.PROMPTS, PROMPTS, ""))
    shown = {
        one["thread_ts"]: (one["title"], len(one["prompts"])) for one in (await workspace.assistant())["assistants"]
    }
    assert shown == {where.thread_ts: ("a question", 1), "": ("", 1)}


@pytest.mark.req("CHAN-08")
async def test_where_slack_offers_no_titles_and_prompts_they_are_asked_for_once(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    for method, kind in ((TITLE, DeliveryKind.TITLE), (SUGGEST, DeliveryKind.PROMPTS)):
        await workspace.fault("error", method=method, error="missing_scope")
        for _ in range(2):
            answer = await gateway.deliver(decoration(kind, PROMPTS, where.thread_ts))
            assert isinstance(answer, DeliveryAccepted)
        assert len(await workspace.calls(method)) == 1
