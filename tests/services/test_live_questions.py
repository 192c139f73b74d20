"""Questions of tool servers during a run: from a real server through an assistant to people, and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import pytest

from packages.swarm_agents.tests.agents.builtin.making import assistant, remembering
from packages.swarm_agents.tests.agents.builtin.scripted import Calls
from packages.swarm_agents.tests.agents.builtin.scripted import Scripted as ScriptedModel
from packages.swarm_agents.tests.agents.mcp.conftest import QUICK
from packages.swarm_agents.tests.agents.mcp.programs.asking_server import made
from swarm.config.mcp_servers import Address, McpServer
from swarm.domain.answers.agents import OnRestart
from swarm.domain.errors import Conflict, Unavailable
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.requests import (
    Asker,
    Decide,
    DecisionPolicy,
    EntryPoint,
    FormField,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestStatus,
    ResumeStatus,
)
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from swarm.services.requests.human_requests import CALL_IS_OVER
from swarm.services.requests.upkeep import WORK_IS_OVER
from swarm.store import grants, requests
from swarm.store.runs.runs import Run
from swarm_agents.mcp.servers import McpServers
from tests.support.conversing import begun, press, pressed, status
from tests.support.doors import serving
from tests.support.live import Gate, Scripted, Show, hired, playing, says, show
from tests.support.policies import governing
from tests.support.waiting import wait_until
from tests.support.world import BOT, World

pytestmark = pytest.mark.req("HITL-01", "HITL-03")

D = HumanDecision
S = RequestStatus
NEW = NewRequest(key="", title="shop asks", decisions=(D.APPROVE, D.REJECT), expires_seconds=1800)


async def open_requests(world: World, count: int = 1) -> list[HumanRequest]:
    """The open requests, oldest first, once there are so many."""

    async def look() -> list[HumanRequest]:
        return (await world.services.requests.latest(S.OPEN, 10))[::-1]

    return await wait_until(look, lambda found: len(found) == count, what=f"{count} questions are open")


async def now(world: World, request: HumanRequest) -> HumanRequest:
    found = await world.database.read(requests.get, request.id)
    assert found
    return found


async def until_ended(world: World, request: HumanRequest) -> HumanRequest:
    async def look() -> HumanRequest:
        return await now(world, request)

    return await wait_until(look, lambda found: not found.is_open, what="the question has ended")


async def decide(world: World, request: HumanRequest, decision: D, **values: Any) -> HumanRequest:
    wish = Decide(request_id=request.id, decision=decision, person="U1", door=EntryPoint.SLACK, values=values or None)
    return await world.services.decisions.decide(wish)


@asynccontextmanager
async def shop(world: World, *replies: Any) -> AsyncIterator[tuple[Show, ScriptedModel]]:
    """An assistant with the tools of a server that asks people, in a process in office."""
    model = ScriptedModel(*replies)
    async with serving(made().streamable_http_app()) as url:
        server = McpServer(name="shop", reached=Address(url=f"{url}/mcp"), allowed=("buy", "drop"))
        async with McpServers([server], timeouts=QUICK, ask=world.services.requests.ask_during_run) as servers:
            ada = assistant(model.model, remembering(world.database, "ada"), *servers.tools())
            async with playing(world, hired("ada", ada, on_restart=OnRestart.ASK)) as playing_now:
                yield playing_now, model
            await ada.aclose()


@asynccontextmanager
async def working(world: World) -> AsyncIterator[tuple[Show, Run, SlackMessage, Gate]]:
    """A run in the middle of its work."""
    gate, ada = Gate(), Scripted(says("Again."))
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as playing_now:
        root = await world.says(f"{BOT} hello")
        yield playing_now, await begun(playing_now, gate, root), root, gate


def asked(world: World, run_id: str, new: NewRequest = NEW, tool: str = "buy") -> asyncio.Task[HumanRequest]:
    """A call that waits for people."""
    return asyncio.create_task(world.services.requests.ask_during_run(run_id, tool, new))


@pytest.mark.both_engines
async def test_people_answer_the_server_and_the_run_goes_on(world: World) -> None:
    async with shop(world, [Calls("buy", {"what": "hat"})], "Bought.") as (playing_now, model):
        root = await world.says(f"{BOT} buy a hat")
        (request,) = await open_requests(world)
        (run,) = await playing_now.runs(root)
        assert (request.asker, request.run_id, request.lease_token) == (Asker.LIVE, run.id, run.lease_token)
        assert (request.requester, request.thread_id, request.title) == ("U1", run.thread_id, "shop asks")
        assert await status(world, root) is InboxStatus.CLAIMED
        await world.send()
        assert any("asks (for the tool server shop)" in post for post in world.slack.posts)
        await decide(world, request, D.ANSWER, size="3", colour="red", gift="yes")
        (run,) = await playing_now.over(root)
    assert model.told[1].results == ['hat: {"size":3,"colour":"red","price":2.5,"gift":true,"note":null}']
    assert (run.status, await status(world, root)) == (RunStatus.ANSWERED, InboxStatus.RESPONDED)
    assert (await now(world, request)).resume is ResumeStatus.ACCEPTED
    lines = await world.database.read(grants.lines, 0, 0, 100)
    assert [line.kind.value for line in lines] == ["asked", "decided", "resumed"]


async def test_a_second_question_of_a_call_is_asked_after_the_first_is_rejected(world: World) -> None:
    calls = [Calls("drop", {"what": "it"}), Calls("drop", {"what": "all"})]
    async with shop(world, calls, "Done.") as (playing_now, model):
        root = await world.says(f"{BOT} drop it all")
        first, second = await open_requests(world, 2)
        await decide(world, first, D.REJECT)
        await decide(world, second, D.APPROVE)
        await playing_now.over(root)
    prompts = [first.prompt, second.prompt]
    results = dict(zip(prompts, ["decline", "accept"], strict=True))
    assert model.told[1].results == [results["Really it?"], results["Really all?"]]


@pytest.mark.both_engines
async def test_stop_ends_the_run_and_its_question(world: World) -> None:
    async with shop(world, [Calls("buy", {"what": "hat"})], "Bought.") as (playing_now, _):
        root = await world.says(f"{BOT} buy a hat")
        (request,) = await open_requests(world)
        await world.says("!stop", thread=root)
        (run,) = await playing_now.over(root)
        assert (run.status, run.stop_requested_by) == (RunStatus.STOPPED, "U1")
    found = await until_ended(world, request)
    assert (found.status, found.reason) == (S.CANCELLED, "stopped by <@U1>")
    (shown,) = playing_now.live.of(root)
    assert not shown.streaming
    assert "Stopped" in shown.text + str(shown.closing)


@pytest.mark.both_engines
async def test_a_question_is_cancelled_with_the_lease_also_before_its_run_has_ended(world: World) -> None:
    async with working(world) as (_, run, _, _):
        waiting = asked(world, run.id)
        await open_requests(world)
        await world.change("UPDATE leases SET ended_at = 1, ended_as = 'expired'")
        await world.sweep()
        assert (await asyncio.wait_for(waiting, 10)).status is S.CANCELLED


@pytest.mark.both_engines
async def test_a_question_is_cancelled_when_another_process_ends_its_run(world: World) -> None:
    async with working(world) as (running, run, _, _):
        waiting = asked(world, run.id)
        (request,) = await open_requests(world)
        await world.send()
        other = show(world, hired("ada", Scripted()), live=running.live)
        await other.recovery.bring_to_end(run.id, other.term.is_ours, counts=True)  # it takes over, and ends the lease
        await world.sweep()
        found = await asyncio.wait_for(waiting, 10)
        assert (found.id, found.status, found.reason) == (request.id, S.CANCELLED, WORK_IS_OVER)
        cards = await world.rows("SELECT kind FROM deliveries WHERE request_id IS NOT NULL ORDER BY id")
        assert [card["kind"] for card in cards] == [DeliveryKind.POST, DeliveryKind.UPDATE]
        with pytest.raises(Conflict, match="decided already"):
            await decide(world, request, D.APPROVE)


@pytest.mark.both_engines
async def test_after_a_restart_retry_asks_anew(world: World) -> None:
    calls: list[Any] = [[Calls("buy", {"what": "hat"})]] * 2
    async with shop(world, *calls, "Bought.") as (playing_now, model):
        root = await world.says(f"{BOT} buy a hat")
        (first,) = await open_requests(world)
        await playing_now.deposed()
        await world.sweep()
        assert (await until_ended(world, first)).status is S.CANCELLED
        playing_now.begin()
        (lost,) = await playing_now.over(root)
        assert await pressed(world, press(RETRY_RUN_ACTION, lost.id)) is None
        (second,) = await open_requests(world)
        assert second.id != first.id
        await decide(world, second, D.ANSWER, size="1", colour="blue")
        await playing_now.over(root, 2)
    assert len(model.told) == 3
    assert model.told[1].said[-1].endswith("buy a hat"), "the retry starts over, and continues nothing"


@pytest.mark.parametrize("is_decided", [False, True])
async def test_a_decision_is_not_handed_out_with_the_work_again(world: World, is_decided: bool) -> None:
    gate, ada = Gate(), Scripted(says("Again."))
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as playing_now:
        root = await world.says(f"{BOT} hello")
        run = await begun(playing_now, gate, root)
        waiting = asked(world, run.id)
        (request,) = await open_requests(world)
        if is_decided:
            await decide(world, request, D.APPROVE)
            await asyncio.wait_for(waiting, 10)
            await world.change("UPDATE requests SET resume = 'none'")  # the process dies before it has noted it
        other = show(world, hired("ada", Scripted()), live=playing_now.live)
        await other.recovery.bring_to_end(run.id, other.term.is_ours, counts=True)
        await world.sweep()
        await playing_now.over(root, 2)
        await asyncio.wait_for(waiting, 10)
    assert [(one.decided, [message.text for message in one.messages]) for one in ada.inputs] == [((), ["hello"])] * 2


async def test_a_call_that_ends_withdraws_its_question(world: World) -> None:
    async with working(world) as (playing_now, run, root, gate):
        waiting = asked(world, run.id)
        (request,) = await open_requests(world)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        found = await now(world, request)
        assert (found.status, found.reason) == (S.CANCELLED, CALL_IS_OVER)
        gate.opened.set()
        assert [one.status for one in await playing_now.over(root)] == [RunStatus.ANSWERED]


async def test_words_in_the_thread_answer_the_question(world: World) -> None:
    fields = (FormField(name="word", required=True),)
    new = NewRequest(key="", title="shop asks", fields=fields, decisions=(D.ANSWER, D.REJECT), expires_seconds=60)
    async with working(world) as (playing_now, run, root, gate):
        waiting = asked(world, run.id, new)
        await open_requests(world)
        said = await world.says("please", thread=root)
        assert (await asyncio.wait_for(waiting, 10)).values == {"word": "please"}
        assert await world.inbox_messages(said) == []
        gate.opened.set()
        assert len(await playing_now.over(root)) == 1


async def test_a_question_expires_and_the_run_goes_on(world: World) -> None:
    async with working(world) as (playing_now, run, root, gate):
        waiting = asked(world, run.id, NewRequest(key="", title="shop asks", expires_seconds=1))
        await open_requests(world)
        await world.later(2)
        assert (await asyncio.wait_for(waiting, 10)).status is S.EXPIRED
        gate.opened.set()
        assert [one.status for one in await playing_now.over(root)] == [RunStatus.ANSWERED]


async def test_the_operators_rule_for_the_tool_says_who_decides(world: World) -> None:
    policy = DecisionPolicy(users=("U2",))
    rules = (DecisionRule(**asdict(policy), agent="ada", tool="bu*").model_copy(update={"channel": "C1"}),)
    world = world.governed_by(governing(decisions=rules))
    async with working(world) as (_, run, _, _):
        waiting = [asked(world, run.id, tool=tool) for tool in ("buy", "drop")]
        found = await open_requests(world, 2)
        assert {request.policy for request in found} == {policy, NEW.policy}
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_nobody_is_asked_for_a_run_that_is_over_or_that_answers_nobody(world: World) -> None:
    async with working(world) as (playing_now, run, root, gate):
        with pytest.raises(Conflict, match="does not answer a person"):
            await asked(world, "no such run")
        await world.change("UPDATE runs SET requester = NULL")
        with pytest.raises(Conflict, match="does not answer a person"):
            await asked(world, run.id)
        await world.change("UPDATE runs SET requester = 'U1'")
        gate.opened.set()
        await playing_now.over(root)
        with pytest.raises(Conflict, match="has ended"):
            await asked(world, run.id)
    assert await world.services.requests.latest(None, 10) == []


async def test_waiting_ends_with_the_process(world: World) -> None:
    async with working(world) as (_, run, _, _):
        waiting = asked(world, run.id)
        await open_requests(world)
        world.database.wakeups.close()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting, 10)
