"""Tool calls that wait in a session: settled once, kept together, taken over by the run that goes on, and erased."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.model.agents import Agent
from swarm.domain.model.runs import RunStep
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.bridge.transaction import Transaction
from swarm.store.erasure import forget_remembered
from swarm.store.runs.runs import Run
from tests.support.attempts import attempt
from tests.support.world import World

pytestmark = pytest.mark.req("HITL-04", "AGENT-05")

HERE = "slack:C1:U1"
THREAD = "C1:100.1"


@pytest.fixture
async def helper(world: World) -> Agent:
    return await world.lead("helper")


@pytest.fixture
def memory(world: World) -> DatabaseMemory:
    return DatabaseMemory(world.database, "helper", None)


def call(id: str) -> SessionMessage:
    return SessionMessage(role=MessageRole.TOOL_USE, call_id=id, tool="erase", arguments={"of": id}, waits_in=THREAD)


def result(id: str, text: str) -> SessionMessage:
    return SessionMessage(role=MessageRole.TOOL_RESULT, call_id=id, tool="erase", text=text)


def said(text: str) -> SessionMessage:
    return SessionMessage(role=MessageRole.ASSISTANT, text=text)


def question(text: str, source: str = "") -> SessionMessage:
    return SessionMessage(role=MessageRole.USER, text=text, source=source)


async def told(memory: DatabaseMemory, run: Run | None = None) -> list[str]:
    found = await memory.get_messages(HERE, run_id=run.id if run else "")
    return [message.text or message.call_id for message in found]


async def waits(memory: DatabaseMemory, run: Run, *calls: str, source: str = "") -> None:
    block = [question("a", source), *map(call, calls)]
    await memory.add_run(HERE, run.agui_run_id, block, run_id=run.id)


async def test_the_run_that_goes_on_takes_the_place_of_the_run_that_asked(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    one = await attempt(world, helper, "a")
    await waits(memory, one, "c1", "c2")
    other = await attempt(world, helper, "b", over=one, how=RunStep.ABANDON)
    await memory.add_run(HERE, other.agui_run_id, [question("b"), said("of b")], run_id=other.id)
    assert await told(memory) == ["a", "b", "of b"], "a call without a result is not for a model"
    assert await memory.settle_calls(HERE, one.agui_run_id, [result("c1", "began")]) == {"c1"}
    assert await memory.settle_calls(HERE, one.agui_run_id, [result("c1", "x"), result("c2", "no")]) == {"c2"}
    await memory.change_result(HERE, one.agui_run_id, result("c1", "done"))
    assert await told(memory) == ["b", "of b", "a", "c1", "c2", "done", "no"], "calls and results stay together"
    broken = await attempt(world, helper, "a", over=other)
    await memory.add_run(
        HERE,
        broken.agui_run_id,
        [said("half")],
        run_id=broken.id,
        has_answered=False,
        continues=one.agui_run_id,
    )
    again = await attempt(world, helper, "a", over=broken)
    turn = await memory.waiting_turn(HERE, THREAD, ["c1"])
    assert turn
    assert (turn.run, turn.open_calls) == (one.agui_run_id, ())
    assert await told(memory, again) == ["b", "of b"], "attempts at the same message are left out"
    await memory.add_run(HERE, again.agui_run_id, [said("whole")], run_id=again.id, continues=one.agui_run_id)
    assert await told(memory) == ["b", "of b", "a", "c1", "c2", "done", "no", "whole"]
    turn = await memory.waiting_turn(HERE, THREAD, ["c1"])
    assert turn
    assert turn.run == again.agui_run_id


async def test_of_many_who_settle_a_call_one_does(world: World, memory: DatabaseMemory, helper: Agent) -> None:
    one = await attempt(world, helper, "a")
    await waits(memory, one, "c1")
    settled = await asyncio.gather(
        *(memory.settle_calls(HERE, one.agui_run_id, [result("c1", f"by {n}")]) for n in range(8))
    )
    assert sorted(map(len, settled)) == [0] * 7 + [1]
    assert len(await told(memory)) == 3


async def test_calls_are_found_in_their_conversation(world: World, memory: DatabaseMemory, helper: Agent) -> None:
    one = await attempt(world, helper, "a")
    await waits(memory, one, "c1")
    turn = await memory.waiting_turn(HERE, THREAD)
    assert turn
    assert [waiting.call_id for waiting in turn.open_calls] == ["c1"]
    assert await memory.waiting_turn(HERE, "C1:200.1") is None
    assert await memory.waiting_turn(HERE, THREAD, ["c2"]) is None
    assert await DatabaseMemory(world.database, "other", None).waiting_turn(HERE, THREAD) is None


async def test_positions_after_a_summary_are_not_used_again(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    async def summary(session_id: str, messages: object) -> str:
        return "They talked."

    one = await attempt(world, helper, "a")
    await waits(memory, one, "c1")
    short = DatabaseMemory(world.database, "helper", summary, compaction_threshold=2, keep_recent_messages=0)
    await memory.add_run(HERE, "x", [question("b")])
    assert await short.compact_session(HERE)
    await memory.settle_calls(HERE, one.agui_run_id, [result("c1", "done")])
    assert await told(memory) == ["They talked.", "a", "c1", "done"]


@pytest.mark.req("SEC-06")
async def test_what_waits_is_erased_with_its_message(world: World, memory: DatabaseMemory, helper: Agent) -> None:
    one = await attempt(world, helper, "a")
    await waits(memory, one, "c1", source="m1")
    assert one.thread_id

    def forget(tx: Transaction) -> int:
        return forget_remembered(tx, str(one.thread_id), "m1")

    await memory.settle_calls(HERE, one.agui_run_id, [result("c1", "secret")])
    assert await world.database.write(forget) == 3
    assert await memory.waiting_turn(HERE, THREAD) is None
    assert await memory.settle_calls(HERE, one.agui_run_id, [result("c1", "late")]) == frozenset()
    await memory.change_result(HERE, one.agui_run_id, result("c1", "late"))
    two = await attempt(world, helper, "a", over=one)
    await memory.add_run(HERE, two.agui_run_id, [said("of it")], run_id=two.id, continues=one.agui_run_id)
    kept = "".join(await told(memory)) + str(await memory.get_originals(HERE))
    assert "secret" not in kept
    assert "late" not in kept
    assert "of it" not in kept


@pytest.mark.req("SEC-06")
async def test_the_work_of_the_run_that_goes_on_is_erased_too(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    one = await attempt(world, helper, "a")
    await waits(memory, one, "c1", source="m1")
    await memory.settle_calls(HERE, one.agui_run_id, [result("c1", "secret")])
    two = await attempt(world, helper, "a", over=one)
    await memory.add_run(HERE, two.agui_run_id, [said("of it")], run_id=two.id, continues=one.agui_run_id)

    def forget(tx: Transaction) -> int:
        return forget_remembered(tx, str(one.thread_id), "m1")

    assert await world.database.write(forget) == 4
    assert await told(memory) == []
