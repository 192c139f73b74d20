"""A message that is answered several times: while one attempt goes on, none of the others is told; the one that answers
takes their place; none is lost, and none that comes late counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from structlog.testing import capture_logs

from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.runs import PageKind, RunStep
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.services.speaking.system_messages import post_message
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import sessions
from swarm.store.builtin.sessions import MAX_ORIGINALS
from swarm.store.inbox import leases
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads
from tests.support.attempts import attempt
from tests.support.conversing import press, pressed
from tests.support.locks import held, somebody_waits
from tests.support.runs import asked, begun, failed
from tests.support.tasks import asked_and_handed, work_of
from tests.support.world import World

pytestmark = pytest.mark.req("AGENT-05")

HERE = "slack:C1:U1"


@pytest.fixture
async def helper(world: World) -> Agent:
    return await world.lead("helper")


@pytest.fixture
def memory(world: World) -> DatabaseMemory:
    return DatabaseMemory(world.database, "helper", None)


@pytest.fixture
async def elsewhere(world: World, database_url: str) -> AsyncIterator[DatabaseMemory]:
    """The same memory, as another process has it."""
    async with Database(database_url, clock=world.clock) as another:
        yield DatabaseMemory(another, "helper", None)


def block(*texts: str) -> list[SessionMessage]:
    question, *answers = texts
    return [
        SessionMessage(role=MessageRole.USER, text=question),
        *(SessionMessage(role=MessageRole.ASSISTANT, text=text) for text in answers),
    ]


async def add(memory: DatabaseMemory, run: Run, *texts: str, broke_off: bool = False) -> None:
    await memory.add_run(HERE, run.agui_run_id, block(*texts), run_id=run.id, has_answered=not broke_off)


async def told(memory: DatabaseMemory, run: Run | None = None) -> list[str]:
    return [message.text for message in await memory.get_messages(HERE, run_id=run.id if run else "")]


async def originals(memory: DatabaseMemory) -> list[str]:
    return [message.text for message in await memory.get_originals(HERE)]


async def test_while_a_message_is_answered_again_its_earlier_attempt_is_not_told(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    one = await attempt(world, helper, "a")
    await add(memory, one, "a", "half")
    other = await attempt(world, helper, "b")
    await add(memory, other, "b", "yes")
    again = await attempt(world, helper, "a", over=one)
    assert await told(memory, again) == ["b", "yes"]
    assert await told(memory) == ["a", "half", "b", "yes"], "nothing is lost before it is answered"


@pytest.mark.both_engines
async def test_an_attempt_that_answers_takes_the_place_of_all_before_it_and_the_originals_stay(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    one = await attempt(world, helper, "a")
    await add(memory, one, "a", "first", broke_off=True)
    two = await attempt(world, helper, "a", over=one)
    await add(memory, two, "a", "second", broke_off=True)
    await memory.add_message(HERE, "user", "between")
    three = await attempt(world, helper, "a", over=two, how=RunStep.FAIL)
    await add(memory, three, "A", "third")
    assert await told(memory) == ["between", "A", "third"]
    assert await originals(memory) == ["a", "first", "a", "second", "between", "A", "third"]
    assert (await memory.get_or_create_session(HERE)).messages == 3


async def test_an_attempt_that_breaks_off_takes_nobodys_place(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    one = await attempt(world, helper, "a")
    await add(memory, one, "a", "first")
    two = await attempt(world, helper, "a", over=one)
    await add(memory, two, "a", "broken off", broke_off=True)
    assert await told(memory) == ["a", "first", "a", "broken off"]
    three = await attempt(world, helper, "a", over=two, how=RunStep.FAIL)
    assert await told(memory, three) == []


@pytest.mark.parametrize("newer_is_over", [False, True])
@pytest.mark.parametrize("newer_broke_off", [False, True])
async def test_an_attempt_of_a_deposed_process_that_comes_late_is_kept_and_never_told(
    world: World,
    memory: DatabaseMemory,
    elsewhere: DatabaseMemory,
    helper: Agent,
    newer_is_over: bool,
    newer_broke_off: bool,
) -> None:
    old = await attempt(world, helper, "a")
    new = await attempt(world, helper, "a", over=old)
    await add(memory, new, "a", "new", broke_off=newer_broke_off)
    if newer_is_over:
        await attempt(world, helper, "b", over=new, how=RunStep.ANSWER)
    with capture_logs() as logs:
        await add(elsewhere, old, "a", "[stopped]", broke_off=True)
    assert await told(memory) == await told(elsewhere) == ["a", "new"]
    assert await originals(memory) == ["a", "new", "a", "[stopped]"]
    assert [(line["action"], line["run_id"]) for line in logs] == [("session_late", old.agui_run_id)]


async def test_nor_is_one_that_has_answered_late(
    world: World, memory: DatabaseMemory, elsewhere: DatabaseMemory, helper: Agent
) -> None:
    old = await attempt(world, helper, "a")
    new = await attempt(world, helper, "a", over=old)
    await add(memory, new, "a", "new")
    await add(elsewhere, old, "a", "old")
    assert await told(memory) == ["a", "new"]


async def test_a_newer_attempt_that_comes_later_is_told(
    world: World, memory: DatabaseMemory, elsewhere: DatabaseMemory, helper: Agent
) -> None:
    old = await attempt(world, helper, "a")
    new = await attempt(world, helper, "a", over=old)
    assert await told(memory, new) == []
    await add(elsewhere, old, "a", "[stopped]", broke_off=True)
    assert await told(memory, new) == [], "what comes while it is answered is not told either"
    await add(memory, new, "a", "new")
    assert await told(elsewhere) == ["a", "new"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer: nothing ever waits
@pytest.mark.parametrize("old_is_first", [False, True])
async def test_two_attempts_that_end_at_the_same_moment_come_to_the_same(
    world: World, memory: DatabaseMemory, elsewhere: DatabaseMemory, helper: Agent, old_is_first: bool
) -> None:
    old = await attempt(world, helper, "a")
    new = await attempt(world, helper, "a", over=old)
    (first, said), (second, late) = sorted(
        ((old, "old"), (new, "new")), reverse=not old_is_first, key=lambda p: p[1] == "new"
    )
    async with held(
        world.database, sessions.add_run, "helper", HERE, first.agui_run_id, block("a", said), first.id, first is new
    ):
        waiting = asyncio.ensure_future(add(elsewhere, second, "a", late, broke_off=second is old))
        await somebody_waits(world.database)
    await waiting
    assert await told(memory) == ["a", "new"]
    assert sorted(await originals(memory)) == ["a", "a", "new", "old"]


async def test_messages_that_were_answered_together_may_be_answered_one_by_one(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    both = await attempt(world, helper, "a", "b")
    await add(memory, both, "a b", "half", broke_off=True)
    a = await attempt(world, helper, "a", over=both)
    b = await attempt(world, helper, "b")
    assert await told(memory, a) == await told(memory, b) == []
    await add(memory, a, "a", "to a")
    assert await told(memory, b) == ["a", "to a"]
    await add(memory, b, "b", "to b")
    assert await told(memory) == ["a", "to a", "b", "to b"]


async def test_runs_of_other_agents_and_unknown_ones_are_no_attempts(world: World, memory: DatabaseMemory) -> None:
    ada, bob = await world.lead("helper"), await world.lead("bob")
    bobs = await attempt(world, bob, "a")
    await DatabaseMemory(world.database, "bob", None).add_run(
        HERE, bobs.agui_run_id, block("a", "bob's"), run_id=bobs.id
    )
    one = await attempt(world, ada, "c")
    await add(memory, one, "c", "answer")
    await memory.add_run(HERE, "elsewhere", block("d"), run_id="forgotten")
    assert await told(memory) == await told(memory, await attempt(world, ada, "e")) == ["c", "answer", "d"]
    assert [message.text for message in await memory.get_messages(HERE, run_id="forgotten")] == ["c", "answer", "d"]
    await world.database.write(run_pages.open_page, bobs.id, 1, PageKind.STREAM)
    await world.database.write(run_pages.page_opened, bobs.id, 1, "1.1")
    adas = await attempt(world, ada, "a", over=bobs, how=RunStep.ANSWER)
    assert await memory.shown_before(adas.id) == frozenset(), "what another agent says is part of the conversation"


async def test_to_repeat_what_is_there_changes_nothing(world: World, memory: DatabaseMemory, helper: Agent) -> None:
    one = await attempt(world, helper, "a")
    two = await attempt(world, helper, "a", over=one)
    for _ in range(2):
        await add(memory, one, "a", "first", broke_off=True)
        await add(memory, two, "a", "second")
    assert await told(memory) == ["a", "second"]
    assert await originals(memory) == ["a", "first", "a", "second"]


async def test_where_the_other_attempts_were_shown_is_known_live_or_posted(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    _, run = await asked(world, helper)
    assert await memory.shown_before(run.id) == frozenset()
    await world.database.write(show, run, "1.1")
    await world.send()
    await failed(world, run)
    await world.database.write(leases.end, run.lease_token, LeaseEnd.FINISHED)
    assert await pressed(world, press(RETRY_RUN_ACTION, run.id)) is None
    again = await begun(world, helper, await world.only(helper, hold=True))
    await world.database.write(run_pages.open_page, again.id, 1, PageKind.STREAM)
    await world.database.write(run_pages.page_opened, again.id, 1, "2.2")
    posts = await world.rows("SELECT sent_ts, agent_id FROM deliveries WHERE kind = 'post'")
    assert len(posts) == 2
    assert await memory.shown_before(again.id) == {"1.1", *(post["sent_ts"] for post in posts if post["agent_id"])}
    assert await memory.shown_before(run.id) == {"2.2", *(post["sent_ts"] for post in posts if post["agent_id"])}
    assert await memory.shown_before("forgotten") == frozenset()


def show(tx: Transaction, run: Run, ts: str) -> None:
    """A run shows a message live, and posts what it could not; the coordinator says something as well."""
    run_pages.open_page(tx, run.id, 1, PageKind.STREAM)
    run_pages.page_opened(tx, run.id, 1, ts)
    thread = threads.locked(tx, run.thread_id or "")
    post_message(
        tx, thread, "what could not be shown", agent_id=run.agent_id, inbox_message_id=run.inbox_message_ids[0]
    )
    post_message(tx, thread, "I am the coordinator.", inbox_message_id=run.inbox_message_ids[0])


@pytest.mark.both_engines
async def test_of_tasks_each_has_attempts_of_its_own_also_in_one_thread(
    world: World, memory: DatabaseMemory, helper: Agent
) -> None:
    worker = await world.worker("worker")
    work = []
    for _ in range(2):
        await asked_and_handed(world, helper, worker)
        work.append(await work_of(world, worker))
    one, other = [await begun(world, worker, trigger) for trigger in work]
    await add(memory, one, "count one", "half", broke_off=True)
    await add(memory, other, "count another", "two")
    await world.database.write(runs.end, one.id, RunStep.ABANDON)
    world.clock.advance(1)
    again = await begun(world, worker, work[0])
    assert await told(memory, again) == ["count another", "two"]
    await add(memory, again, "count one", "one")
    assert await told(memory) == ["count another", "two", "count one", "one"]
    beside = await attempt(world, worker, "a message", thread_id=again.thread_id)
    assert await told(memory, beside) == await told(memory)


# Summaries


async def summarise(session_id: str, messages: Sequence[SessionMessage]) -> str:
    return f"sum({' '.join(message.text for message in messages)})"


@pytest.mark.both_engines
@pytest.mark.req("AGENT-06")
async def test_an_attempt_that_was_summarised_is_not_told_by_the_summary_either(world: World, helper: Agent) -> None:
    memory = DatabaseMemory(world.database, "helper", summarise, compaction_threshold=4, keep_recent_messages=1)
    await memory.add_run(HERE, "before", block("q", "answer"))
    one = await attempt(world, helper, "a")
    await add(memory, one, "a", "1", "2", "3", broke_off=True)
    assert await memory.compact_session(HERE)
    again = await attempt(world, helper, "a", over=one, how=RunStep.FAIL)
    assert await told(memory) == ["sum(q answer a 1 2)", "3"]
    assert await told(memory, again) == ["q", "answer"]
    await add(memory, again, "a", "done")
    assert await told(memory) == ["sum(q answer a 1 2)", "a", "done"]
    assert await told(memory, await attempt(world, helper, "b")) == ["sum(q answer a 1 2)", "a", "done"]


@pytest.mark.req("AGENT-06")
async def test_in_place_of_a_summary_so_many_of_the_last_messages_are_told_as_can_be_read(
    world: World, helper: Agent
) -> None:
    memory = DatabaseMemory(world.database, "helper", summarise, compaction_threshold=4, keep_recent_messages=1)
    await memory.add_run(HERE, "before", block("q", *(str(number) for number in range(MAX_ORIGINALS))))
    one = await attempt(world, helper, "a")
    await add(memory, one, "a", "half", broke_off=True)
    assert await memory.compact_session(HERE)
    again = await attempt(world, helper, "a", over=one, how=RunStep.FAIL)
    assert await told(memory, again) == [str(number) for number in range(2, MAX_ORIGINALS)]


@pytest.mark.req("AGENT-06")
async def test_a_summary_of_an_attempt_that_was_replaced_meanwhile_is_not_told(world: World, helper: Agent) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(session_id: str, messages: Sequence[SessionMessage]) -> str:
        asked.set()
        await may_answer.wait()
        return "of what was replaced"

    memory = DatabaseMemory(world.database, "helper", slow, compaction_threshold=4, keep_recent_messages=1)
    one = await attempt(world, helper, "a")
    await add(memory, one, "a", "1", "2", "3", "4", broke_off=True)
    again = await attempt(world, helper, "a", over=one)
    compacting = asyncio.ensure_future(memory.compact_session(HERE))
    await asked.wait()
    await add(memory, again, "a", "done")
    may_answer.set()
    assert not await compacting
    assert await told(memory) == ["a", "done"]
