"""Two coordinators behind one address: a conversation has one run at a time, whichever of them is asked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from packages.swarm_agents.tests.contract.agui_api.scene import (
    FOREVER,
    HELLO,
    INVOKE,
    PATIENCE_SECONDS,
    START,
    Client,
    Place,
    Scripted,
    agui_input,
    events_of,
    place,
    run_input,
    start,
)
from swarm.clock import ManualClock
from swarm.domain.errors import Conflict, Unavailable
from swarm.domain.model.leases import LockKind
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import NO_DATABASE, TAKEN, ConversationKey, ConversationLocks
from swarm.services.ground.locks import TERM_SECONDS
from swarm.store import locks, tables
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("AGENT-09", "OPS-03")

TALK = ConversationKey(client="wim", agent="router", id="c1")
ROW = (LockKind.CONVERSATION, '["wim","router","c1"]')


@pytest.fixture
def clock() -> ManualClock:
    """That of the database."""
    return ManualClock()


@pytest.fixture
async def both(database_url: str, clock: ManualClock) -> AsyncIterator[tuple[Place, Place]]:
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(place(database_url, {"router": Scripted(FOREVER)}, clock=clock))
            for _ in range(2)
        ]
        yield here, there


async def asked_at_both(here: Place, there: Place) -> tuple[Client, Client]:
    """The same client, here and there."""
    wim = await here.client()
    return wim, replace(wim, base=there.base)


async def test_a_run_at_one_keeps_the_other_from_beginning_one(both: tuple[Place, Place]) -> None:
    here, there = both
    wim, wim_there = await asked_at_both(here, there)
    async with wim.stream(START, start()) as response:
        await here.agents["router"].began()
        for path, body in ((START, start()), (INVOKE, start()), ("/agui/router", agui_input())):
            with there.impatient():
                status, error = await wim_there.refusal(path, body)
            assert (status, error["code"]) == (409, "conflict")
        assert not there.agents["router"].ran
        there.agents["router"].script = lambda run_input: HELLO
        assert (await wim_there.said(START, start(conversation="c2")))[-1]["type"] == "RUN_FINISHED"
        assert await wim.cancels(conversation_id="c1")
        assert [event async for event in events_of(response)][-1]["outcome"] == {"type": "cancelled"}
    assert (await wim_there.said(START, start()))[-1]["type"] == "RUN_FINISHED"


async def test_of_many_that_come_to_both_at_once_one_runs(both: tuple[Place, Place]) -> None:
    with both[0].impatient(), both[1].impatient():
        begun = [place.runs.begin(TALK, run_input()) for place in both for _ in range(5)]
        outcomes = await asyncio.gather(*begun, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    assert len(refused) == len(outcomes) - 1


async def test_after_it_has_left_here_a_client_may_ask_there_at_once(database_url: str, clock: ManualClock) -> None:
    agents = {"router": Scripted(FOREVER)}
    async with (
        place(database_url, agents, clock=clock) as here,
        place(database_url, {"router": Scripted(*HELLO)}, clock=clock) as there,
    ):
        wim, wim_there = await asked_at_both(here, there)
        async with wim.stream(START, start()):
            await agents["router"].began()
        assert (await wim_there.said(START, start()))[-1]["type"] == "RUN_FINISHED"


async def test_a_holder_that_died_blocks_the_conversation_until_its_time_is_over_and_no_longer(
    both: tuple[Place, Place], clock: ManualClock, database_url: str
) -> None:
    here, _ = both
    async with Database(database_url, clock=clock) as of_the_dead:
        held = await ConversationLocks(of_the_dead).take(TALK, "of the dead", patience_seconds=PATIENCE_SECONDS)
    assert held.agui_run_id == "of the dead"
    clock.advance(TERM_SECONDS - 1)
    with here.impatient(), pytest.raises(Conflict):
        await here.runs.begin(TALK, run_input())
    clock.advance(1)
    run = await here.runs.begin(TALK, run_input())
    run.leave()


_ENDS_AT = Statement(select(tables.locks.c.expires_at))

HOLDER = """
import asyncio, sys
from swarm.services.builtin.conversation_locks import ConversationKey, ConversationLocks
from swarm.store.bridge.database import Database

async def main(url, seconds):
    async with Database(url) as database:
        locks = ConversationLocks(database, lease_seconds=float(seconds), renew_seconds=0.3, stop_seconds=0.3)
        key = ConversationKey(client="wim", agent="router", id="c1")
        held = await locks.take(key, "of the dead", patience_seconds=30)
        print("held", flush=True)
        await locks.keep(held, print)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_process_that_is_killed_leaves_it_blocked_for_a_while_only(database_url: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, database_url, "3"], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert await asyncio.to_thread(process.stdout.readline) == b"held\n"
        async with Database(database_url) as database:

            async def ends_at() -> int:
                row = await database.read(_ENDS_AT.first)
                return int(row["expires_at"]) if row else 0

            at_first = await ends_at()
            await wait_until(ends_at, lambda at: at > at_first, what="it is renewed")
            process.kill()
            with pytest.raises(Conflict):
                await ConversationLocks(database).take(TALK, "ours", patience_seconds=0.1)
            held = await ConversationLocks(database).take(TALK, "ours", patience_seconds=PATIENCE_SECONDS)
            assert held.agui_run_id == "ours"
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


async def test_a_run_that_has_lost_its_conversation_ends_and_says_why(database_url: str, clock: ManualClock) -> None:
    router = Scripted(FOREVER)
    with capture_logs() as logs:
        async with place(database_url, {"router": router}, clock=clock, locks={"renew_seconds": 0.02}) as here:
            wim = await here.client()
            async with wim.stream(START, start()) as response:
                await router.began()
                clock.advance(TERM_SECONDS)  # this process was suspended, say
                row = LockKind.CONVERSATION, ConversationKey(client=wim.id, agent="router", id="c1").lock_key
                assert (await here.world.database.write(locks.take, *row, "another", TERM_SECONDS)).term
                async with asyncio.timeout(PATIENCE_SECONDS):
                    events = [event async for event in events_of(response)]
        assert events[-1]["type"] == "RUN_ERROR"
        assert TAKEN in events[-1]["message"]
        assert router.ran[0].over.is_set()
    assert [line["run_id"] for line in logs if line["action"] == "agent_talk_lost"]


async def test_without_the_database_a_run_ends_before_its_time_is_over(sqlite_url: str) -> None:
    now, why = 0.0, asyncio.get_running_loop().create_future()
    async with Database(sqlite_url) as database:
        ours = ConversationLocks(database, renew_seconds=0.01, clock=lambda: now)
        held = await ours.take(TALK, "ours", patience_seconds=PATIENCE_SECONDS)
        now = 7.0
    with capture_logs() as logs:
        keeping = asyncio.create_task(ours.keep(held, why.set_result))  # the database is closed

        async def in_vain() -> int:
            return sum(line["action"] == "lock_renew" for line in logs)

        await wait_until(in_vain, lambda count: count >= 2)
        assert not why.done(), "its time is not over yet"
        now = 8.0  # two seconds earlier than the database lets go of it
        assert await asyncio.wait_for(why, PATIENCE_SECONDS) == NO_DATABASE
        await keeping


async def test_whoever_goes_away_while_it_is_taken_leaves_it_free(database_url: str) -> None:
    async with Database(database_url) as database:
        ours = ConversationLocks(database)
        taking = asyncio.create_task(ours.take(TALK, "one", patience_seconds=PATIENCE_SECONDS))
        await asyncio.sleep(0)  # it has begun
        await asyncio.sleep(0)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        held = await ours.take(TALK, "two", patience_seconds=TERM_SECONDS / 2)
        assert held.agui_run_id == "two"


async def test_a_stop_frees_what_its_runs_have_had_and_refuses_more(both: tuple[Place, Place]) -> None:
    here, there = both
    await here.runs.begin(TALK, run_input())
    await here.runs.close()
    with pytest.raises(Unavailable):
        await here.runs.begin(TALK, run_input())
    run = await there.runs.begin(TALK, run_input())
    run.leave()


async def test_a_slow_database_is_not_taken_for_another_run(database_url: str) -> None:
    async with Database(database_url) as database:
        held = await ConversationLocks(database).take(TALK, "ours", patience_seconds=0)
        assert held.agui_run_id == "ours"
        with pytest.raises(Conflict):
            await ConversationLocks(database).take(TALK, "another", patience_seconds=0)


async def test_where_there_is_no_room_no_conversation_is_taken(database_url: str) -> None:
    async with Database(database_url) as database:
        runs = AgentRuns({"router": Scripted(FOREVER)}, ConversationLocks(database), {}, most_runs=0)
        with pytest.raises(Exception, match="limit of concurrent runs"):
            await runs.begin(TALK, run_input())
        assert (await database.write(locks.take, *ROW, "other", 1.0)).term == 1


async def test_an_answer_that_waits_for_the_run_before_it_comes_when_that_is_over(
    both: tuple[Place, Place],
) -> None:
    here, there = both
    run = await here.runs.begin(TALK, run_input())
    waiting = asyncio.create_task(there.runs.begin(TALK, run_input()))

    async def waits() -> bool:
        return bool(there.runs._locks._wakeups.awaited)

    await wait_until(waits)
    run.leave()
    (await asyncio.wait_for(waiting, PATIENCE_SECONDS)).leave()
