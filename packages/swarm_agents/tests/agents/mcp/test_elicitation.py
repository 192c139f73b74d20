"""Servers that ask people during a call: real servers of both generations of the protocol, and people who answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pytest

from packages.swarm_agents.tests.agents.mcp.conftest import PROGRAMS, QUICK, Plain, at, call, until_offered
from packages.swarm_agents.tests.agents.mcp.programs.asking_server import made
from swarm.config.mcp_servers import McpServer, Program
from swarm.domain.errors import Conflict, SwarmError, Unavailable
from swarm.domain.model.requests import (
    BY_REQUESTER,
    Asker,
    EntryPoint,
    FieldType,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestAnswer,
    RequestStatus,
    ResumeStatus,
)
from swarm_agents.mcp import connection
from swarm_agents.mcp.elicitation import MOST_QUESTIONS, ServerQuestions
from swarm_agents.mcp.servers import McpServers
from swarm_agents.toolbox.people import (
    CALLER,
    MOST_WAIT_SECONDS,
    QUESTION_SECONDS,
    PausableTimeout,
    ToolCaller,
)
from swarm_agents.toolbox.tool import ToolAnswer
from tests.support.doors import serving
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("HITL-01", "HITL-03")

S = RequestStatus
ORDER = {"size": 3, "colour": "red", "gift": True}
TOOLS = ("buy", "drop", "link", "nag", "wait")
HTTP = [pytest.param("http", False, id="http, newest protocol"), pytest.param("http", True, id="http, older protocol")]
EVERY_WAY = [
    *HTTP,
    *(
        pytest.param("stdio", is_old, id=f"stdio, {age} protocol", marks=pytest.mark.long)
        for is_old, age in ((False, "newest"), (True, "older"))
    ),
]
"""A program of the library takes a second to start; what differs on its way is how it is begun and ended."""


@dataclass
class People:
    """People who decide what the test says, at once or after `go`."""

    status: RequestStatus = S.ANSWERED
    values: Mapping[str, Any] | None = None
    refusal: SwarmError | None = None
    go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[str, str, NewRequest]] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.go.set()

    async def __call__(self, run_id: str, tool: str, new: NewRequest) -> HumanRequest:
        if self.refusal:
            raise self.refusal
        self.asked.append((run_id, tool, new))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.withdrawn.append(run_id)
            raise
        return ended(run_id, new, self.status, self.values)

    async def until_asked(self, count: int = 1) -> None:
        async def look() -> int:
            return len(self.asked)

        await wait_until(look, lambda asked: asked >= count, what=f"{count} questions are asked")

    async def until_withdrawn(self) -> None:
        async def look() -> bool:
            return bool(self.withdrawn)

        await wait_until(look, what="the question is withdrawn")


def ended(run_id: str, new: NewRequest, status: RequestStatus, values: Mapping[str, Any] | None) -> HumanRequest:
    """The request of a question that people have decided."""
    decision = {S.ANSWERED: HumanDecision.ANSWER, S.APPROVED: HumanDecision.APPROVE, S.REJECTED: HumanDecision.REJECT}
    answers = [
        RequestAnswer(person="U1", decision=decision[status], at=1, door=EntryPoint.SLACK, values=values)
        for _ in range(status in decision)
    ]
    return HumanRequest(
        id="q", key="k", agent_id="a", agent="ada", thread_id="t", run_id=run_id, work_id="w", task_id=None,
        inbox_message_ids=("w",), lease_token="l", asker=Asker.LIVE, status=status, resume=ResumeStatus.NONE,
        requesters=("U1",), title=new.title, prompt=new.prompt, fields=new.fields, decisions=new.decisions, tool=None,
        policy=BY_REQUESTER, agent_request_id="", raw={}, created_at=1, expires_at=None, ended_at=2, reason=None,
        answers=tuple(answers),
    )  # fmt: skip


@asynccontextmanager
async def shop(
    way: str, people: People | None, monkeypatch: pytest.MonkeyPatch, *, is_old: bool = False, **more: Any
) -> AsyncIterator[McpServers]:
    """A server of the library, reached in this way, in one generation of the protocol."""
    monkeypatch.setattr(connection, "_MODES", ("legacy",) if is_old else ("auto",))
    if way == "stdio":
        program = Program(command=sys.executable, args=("-I", str(PROGRAMS / "asking_server.py")))
        server = McpServer(name="shop", reached=program, allowed=TOOLS, **more)
        async with McpServers([server], timeouts=QUICK, ask=people) as servers:
            yield servers
        return
    async with (
        serving(made().streamable_http_app()) as url,
        McpServers([at(url, *TOOLS, **more)], timeouts=QUICK, ask=people) as servers,
    ):
        yield servers


@asynccontextmanager
async def asking(plain: Plain, people: People, **more: Any) -> AsyncIterator[McpServers]:
    """A program that speaks the older protocol, and does not tell which call a question belongs to."""
    tools = ("ask", "ask_later", "go", "echo")
    plain.offer(*tools)
    async with McpServers([plain.server(*tools, **more)], timeouts=QUICK, ask=people) as servers:
        yield servers


def of_run(servers: McpServers, run_id: str, tool: str, seconds: float | None = None, **arguments: Any) -> Any:
    """A call of a run, as a task."""

    async def called() -> ToolAnswer:
        async with PausableTimeout(seconds) as limit:
            CALLER.set(ToolCaller(run_id=run_id, limit=limit))
            return await call(servers, tool, **arguments)

    return asyncio.create_task(called())


async def calls_of(plain: Plain, count: int) -> None:
    async def look() -> int:
        return len(plain.seen("tools/call"))

    await wait_until(look, lambda seen: seen >= count, what=f"{count} calls have arrived")


@pytest.mark.parametrize(("way", "is_old"), [*HTTP, ("stdio", False), EVERY_WAY[-1]])
async def test_people_fill_in_the_form_of_a_server(way: str, is_old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    people = People(values=ORDER)
    async with shop(way, people, monkeypatch, is_old=is_old) as servers:
        answer = await of_run(servers, "run-1", "buy", what="hat")
    text = 'hat: {"size":3,"colour":"red","price":2.5,"gift":true,"note":null}'
    assert answer == ToolAnswer(text=text)
    ((run_id, tool, new),) = people.asked
    assert (run_id, tool, new.prompt) == ("run-1", "buy", "Which hat?")
    assert new.title == f"{'shop' if way == 'stdio' else 'web'} asks"
    assert new.decisions == (HumanDecision.ANSWER, HumanDecision.REJECT)
    assert new.expires_seconds == pytest.approx(QUESTION_SECONDS)
    assert [(one.name, one.type, one.required) for one in new.fields] == [
        ("size", FieldType.INTEGER, True),
        ("colour", FieldType.SELECT, True),
        ("price", FieldType.NUMBER, False),
        ("gift", FieldType.BOOLEAN, False),
        ("note", FieldType.TEXT, False),
    ]
    assert (new.fields[0].label, new.fields[0].min, new.fields[0].max) == ("How many", 1, 9)


@pytest.mark.parametrize(("way", "is_old"), HTTP)
@pytest.mark.parametrize(
    ("status", "says"),
    [
        (S.REJECTED, "decline"),
        (S.EXPIRED, "cancel\n\n[The tool asked people. Nobody has answered: nobody decided in time.]"),
        (
            S.CANCELLED,
            "cancel\n\n[The tool asked people. Nobody has answered: withdrawn: it is no longer needed.]",
        ),
    ],
)
async def test_a_server_hears_how_else_its_question_ended(
    status: RequestStatus, says: str, way: str, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop(way, People(status), monkeypatch, is_old=is_old) as servers:
        assert (await of_run(servers, "run-1", "buy", what="hat")).text == says


@pytest.mark.parametrize(("way", "is_old"), HTTP)
async def test_a_form_without_fields_is_a_confirmation(way: str, is_old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    people = People(S.APPROVED)
    async with shop(way, people, monkeypatch, is_old=is_old) as servers:
        assert (await of_run(servers, "run-1", "drop", what="it")).text == "accept"
    assert people.asked[0][2].decisions == (HumanDecision.APPROVE, HumanDecision.REJECT)


@pytest.mark.parametrize(("way", "is_old"), EVERY_WAY)
async def test_the_time_of_people_is_not_the_tools(way: str, is_old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    people = People(values=ORDER)
    people.go.clear()
    async with shop(way, people, monkeypatch, is_old=is_old, timeout_seconds=1.0) as servers:
        calling = of_run(servers, "run-1", "buy", seconds=1.0, what="hat")
        await people.until_asked()
        await asyncio.sleep(1.5)  # longer than either limit
        people.go.set()
        assert (await calling).text.startswith("hat: ")
        waiting = of_run(servers, "run-1", "wait")
        assert "did not answer within 1 s" in (await waiting).text, "the server's own time counts"


@pytest.mark.parametrize(("way", "is_old"), EVERY_WAY)
async def test_a_run_that_is_stopped_withdraws_its_question(
    way: str, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People()
    people.go.clear()
    async with shop(way, people, monkeypatch, is_old=is_old) as servers:
        calling = of_run(servers, "run-1", "buy", what="hat")
        await people.until_asked()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await people.until_withdrawn()


async def test_the_end_of_a_call_withdraws_its_question_whatever_the_server_does() -> None:
    people = People()
    people.go.clear()
    questions = ServerQuestions(at("http://127.0.0.1", "buy"), people)

    async def calls() -> types.ElicitResult:
        CALLER.set(ToolCaller(run_id="run-1", limit=PausableTimeout(None)))
        async with questions.call("buy") as one:
            params = types.ElicitRequestFormParams(message="?", requested_schema={})
            asking = asyncio.create_task(questions.answer(one, params))
            await people.until_asked()
        return await asking

    assert (await asyncio.create_task(calls())).action == "cancel"
    assert people.withdrawn == ["run-1"]


async def test_a_question_is_withdrawn_with_its_server(plain: Plain) -> None:
    people = People()
    people.go.clear()
    async with asking(plain, people) as servers:
        calling = of_run(servers, "run-1", "ask", message="?")
        await people.until_asked()
        await servers.aclose()
        await people.until_withdrawn()
        assert "disconnected" in (await calling).text


@pytest.mark.parametrize(("way", "is_old"), [*HTTP, EVERY_WAY[2]])
async def test_each_of_two_runs_is_asked_its_own_question(
    way: str, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People(values=ORDER)
    people.go.clear()
    async with shop(way, people, monkeypatch, is_old=is_old) as servers:
        calls = [of_run(servers, f"run of {what}", "buy", what=what) for what in ("hat", "cat", "mat")]
        await people.until_asked(3)  # all are under way at once
        people.go.set()
        answers = await asyncio.gather(*calls)
    assert sorted((run_id, new.prompt) for run_id, _, new in people.asked) == [
        (f"run of {what}", f"Which {what}?") for what in ("cat", "hat", "mat")
    ]
    assert [answer.text.split(":")[0] for answer in answers] == ["hat", "cat", "mat"]


async def test_a_question_that_may_belong_to_several_calls_is_not_asked_and_then_they_take_turns(plain: Plain) -> None:
    people = People(values={"word": "yes"})
    async with asking(plain, people) as servers:
        later = [of_run(servers, run_id, "ask_later", message=run_id) for run_id in ("one", "two")]
        await calls_of(plain, 2)
        await of_run(servers, "three", "go")
        answers = await asyncio.gather(*later)
        assert people.asked == [], "it is not clear whose question it is"
        for answer in answers:
            assert '"action": "cancel"' in answer.text
            assert "made one after another" in answer.text
        people.go.clear()
        calls = [of_run(servers, run_id, "ask", message=run_id) for run_id in ("one", "two", "three")]
        await people.until_asked(1)
        assert len(plain.seen("tools/call")) == 4, "the others wait for their turn"
        people.go.set()
        assert all('"word": "yes"' in answer.text for answer in await asyncio.gather(*calls))
    assert [(run_id, new.prompt) for run_id, _, new in people.asked] == [(one, one) for one in ("one", "two", "three")]


async def test_a_call_that_waits_too_long_for_its_turn_is_not_made(plain: Plain) -> None:
    people = People(values={"word": "yes"})
    people.go.clear()
    async with asking(plain, people, timeout_seconds=0.5) as servers:
        first = of_run(servers, "one", "ask", message="?")
        await people.until_asked()
        answer = await of_run(servers, "two", "echo")
        assert answer.failed
        assert "was not called: another call" in answer.text
        people.go.set()
        assert '"word": "yes"' in (await first).text
    assert len(plain.seen("tools/call")) == 1


async def test_a_call_that_was_given_up_asks_nobody_and_the_server_is_connected_anew(plain: Plain) -> None:
    """Servers may ignore that a call was cancelled. What it asks is not shown to another run."""
    people = People(values={"word": "yes"})
    async with asking(plain, people) as servers:
        given_up = of_run(servers, "one", "ask_later", message="of one")
        await calls_of(plain, 1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await of_run(servers, "two", "go")  # this call is the only one under way when the server asks
        await until_offered(servers)
        await until_offered(servers, "ask", "ask_later", "go", "echo")
        assert people.asked == []
        assert '"word": "yes"' in (await of_run(servers, "two", "ask", message="of two")).text
    assert [(run_id, new.prompt) for run_id, _, new in people.asked] == [("two", "of two")]
    assert len(plain.pids) == 2


@pytest.mark.parametrize("caller", ["no run", "a client's run"])
async def test_without_a_run_in_a_thread_nobody_is_asked(caller: str, plain: Plain) -> None:
    people = People()
    async with asking(plain, people) as servers:
        if caller == "no run":
            answer = await call(servers, "ask", message="?")
        else:
            answer = await of_run(servers, "", "ask", message="?")
    (told, _, note) = answer.text.partition("\n\n")
    reason = "Nobody can be asked in this conversation."
    assert json.loads(told) == {"action": "decline", "_meta": {"swarm/reason": reason}}
    assert note == f"[The tool asked people. {reason}]"
    assert people.asked == []


@pytest.mark.parametrize(
    ("refusal", "action"),
    [(Conflict("The run has ended."), "decline"), (Unavailable("The run has ended."), "cancel")],
)
async def test_why_nobody_was_asked_is_told_to_the_server_and_to_the_model(
    refusal: SwarmError, action: str, plain: Plain
) -> None:
    async with asking(plain, People(refusal=refusal)) as servers:
        answer = await of_run(servers, "run-1", "ask", message="?")
    assert answer.text.count("The run has ended.") == 2
    assert f'"action": "{action}"' in answer.text


async def test_secrets_of_the_server_are_not_shown_to_people(plain: Plain) -> None:
    people = People(values={"word": "yes"})
    async with asking(plain, people, secrets=("hunter2hunter2",)) as servers:
        await of_run(servers, "run-1", "ask", message="Is it hunter2hunter2?\0")
    assert "hunter2" not in people.asked[0][2].prompt
    assert "\0" not in people.asked[0][2].prompt


async def test_links_are_declined_and_only_forms_are_offered(plain: Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    people = People()
    async with asking(plain, people):
        (hello,) = plain.seen("initialize")
    assert hello["params"]["capabilities"] == {"elicitation": {"form": {}}}
    async with shop("http", people, monkeypatch, is_old=True) as servers:
        answer = await of_run(servers, "run-1", "link")
    assert answer.text.startswith("decline")
    assert "not supported" in answer.text
    assert people.asked == []


async def test_a_program_without_people_offers_nothing(plain: Plain) -> None:
    async with McpServers([plain.server("echo")], timeouts=QUICK) as servers:
        await call(servers, "echo")
        (hello,) = plain.seen("initialize")
    assert "elicitation" not in hello["params"]["capabilities"]


async def test_a_call_asks_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    people = People(S.APPROVED)
    async with shop("http", people, monkeypatch, is_old=True) as servers:
        answer = await of_run(servers, "run-1", "nag")
    assert answer.text.startswith(" ".join(["accept"] * MOST_QUESTIONS + ["decline"] * 2))
    assert len(people.asked) == MOST_QUESTIONS


async def test_a_run_waits_only_so_long_in_all_its_calls(plain: Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    people = People(values={"word": "yes"})
    async with asking(plain, people) as servers:
        monkeypatch.setattr(PausableTimeout, "paused_seconds", MOST_WAIT_SECONDS - 60)
        assert '"accept"' in (await of_run(servers, "run-1", "ask", message="?")).text
        assert people.asked[0][2].expires_seconds == 60
        monkeypatch.setattr(PausableTimeout, "paused_seconds", MOST_WAIT_SECONDS)
        assert "the limit for one run" in (await of_run(servers, "run-1", "ask", message="?")).text
    assert len(people.asked) == 1


async def test_a_limit_does_not_run_while_it_is_paused() -> None:
    async with PausableTimeout(0.2) as limit:
        with limit.paused():
            with limit.paused():
                await asyncio.sleep(0.3)
            await asyncio.sleep(0.1)
        assert limit.paused_seconds >= 0.4


async def test_a_limit_goes_on_after_a_pause() -> None:
    limit = PausableTimeout(0.1)

    async def waits() -> None:
        async with limit:
            with limit.paused():
                await asyncio.sleep(0.2)
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        await waits()
    assert limit.expired()
