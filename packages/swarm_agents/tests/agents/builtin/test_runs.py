"""Runs of built-in agents, whatever the agent does: how they end, are cut off, remembered and noted down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from packages.swarm_agents.tests.agents.builtin.making import (
    UNLIMITED,
    Forgetful,
    Held,
    RunsKept,
    agent,
    hear,
    reader,
    remembering,
    run_input,
    texts,
)
from swarm.agents.failures import OUR_FAULT
from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Failed,
    Finished,
    Origin,
    TextDelta,
    TextEnded,
)
from swarm.domain.errors import Unavailable
from swarm.domain.model.language_models import Door, ModelUsage, ModelUsageRecord, UsageOutcome
from swarm.domain.model.sessions import MessageRole
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm.store.bridge.database import Database
from swarm_agents.builtin.agent import CUT_OFF
from swarm_agents.builtin.run import WAITING_EVENTS, BuiltinRun, Stumbled

Work = Callable[[BuiltinRun], Awaitable[object]]
HERE = "slack:C1:U1"


class Does:
    """An agent that does what the test says."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.is_closed = False

    async def answer(self, run: BuiltinRun) -> None:
        await self._work(run)

    async def aclose(self) -> None:
        self.is_closed = True


async def greets(run: BuiltinRun) -> None:
    await run.write_whole("hello", "m")


def blocks(memory: Forgetful) -> list[list[str]]:
    return [[message.text for message in block] for block in memory.blocks]


class Stubborn(Forgetful):
    """A memory whose database is away so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.tried = asyncio.Event()

    async def add_run(self, *args: Any, **options: Any) -> None:
        self.tried.set()
        if self.times:
            self.times -= 1
            raise Unavailable("The database is away.")
        await super().add_run(*args, **options)


@pytest.mark.req("AGENT-05", "AGENT-07")
async def test_a_run_is_remembered_and_noted_down_before_it_is_said_to_be_over(database: Database) -> None:
    memory, runs = remembering(database, "helper"), ModelUsageLog(database)

    async def work(run: BuiltinRun) -> None:
        run.used(ModelUsage(requests=1, input_tokens=7, cost_microdollars=3))
        run.model = "openai:gpt"
        await greets(run)

    asked = run_input("hi", id="1.1")
    async with aclosing(agent(Does(work), memory, runs=runs).run(asked)) as events:
        async for event in events:
            if isinstance(event, Finished):
                told = await memory.get_messages(HERE)
                (noted,) = await runs.latest("helper")
    assert [(message.role, message.text) for message in told] == [
        (MessageRole.USER, "hi"),
        (MessageRole.ASSISTANT, "hello"),
    ]
    assert noted.id == asked.agui_run_id
    assert (noted.outcome, noted.model, noted.door, noted.requester) == (
        UsageOutcome.ANSWERED,
        "openai:gpt",
        Door.SLACK,
        "U1",
    )
    assert noted.usage == ModelUsage(requests=1, input_tokens=7, cost_microdollars=3)


async def test_text_is_shown_as_it_comes_and_remembered_as_whole_messages() -> None:
    memory = Forgetful()

    async def work(run: BuiltinRun) -> None:
        for piece in ("He", "", "llo"):
            await run.write(piece, "1")
        await run.written("1")
        await run.written("1")
        await run.write("Bye", "2")
        await run.written("3")  # was never begun

    events = await hear(agent(Does(work), memory), run_input("hi"))
    assert events == [
        TextDelta(text="He", message_id="1"),
        TextDelta(text="llo", message_id="1"),
        TextEnded(message_id="1"),
        TextDelta(text="Bye", message_id="2"),
        Finished(),
    ]
    assert blocks(memory) == [["hi", "Hello", "Bye"]]


@pytest.mark.parametrize(
    ("error", "end", "outcome"),
    [
        (Stumbled("I cannot.", code="why"), Failed(message="I cannot.", code="why"), UsageOutcome.FAILED),
        (Unavailable("Away."), Failed(message="Away.", code=Unavailable.code), UsageOutcome.FAILED),
        (ValueError("secret"), Broken(reason=OUR_FAULT), UsageOutcome.FAILED),
        (TimeoutError(), Broken(reason=OUR_FAULT), UsageOutcome.FAILED),
    ],
)
async def test_an_error_ends_the_run_in_words_and_is_remembered(
    error: Exception, end: AgentEvent, outcome: UsageOutcome
) -> None:
    memory, runs = Forgetful(), RunsKept()

    async def work(run: BuiltinRun) -> None:
        await run.write("I thi", "m")
        raise error

    with capture_logs() as logs:
        events = await hear(agent(Does(work), memory, runs=runs), run_input("hi"))
    assert events[-1] == end
    assert runs.runs[0].outcome is outcome
    assert blocks(memory) == [["hi", "I thi", f"[This answer broke off: {runs.runs[0].note}]"]]
    assert "secret" not in runs.runs[0].note
    assert {log["action"] for log in logs} <= {"agent_failed", "agent_broken"}


@pytest.mark.req("AGENT-07")
async def test_a_run_ends_when_its_time_is_up_and_says_which_setting_that_is() -> None:
    held, runs = Held(), RunsKept()
    slow = agent(Does(lambda run: held({})), Forgetful(), runs=runs, limits=replace(UNLIMITED, seconds=0.05))
    (end,) = await hear(slow, run_input("hi"))
    assert end == Failed(message="This took longer than 0.05 s, which is the limit (limits.seconds).", code="limit")
    assert held.was_cut_off
    assert runs.runs[0].outcome is UsageOutcome.LIMITED


async def test_a_reader_that_leaves_ends_the_run_which_is_remembered_as_stopped() -> None:
    held, memory, runs = Held(), Forgetful(), RunsKept()

    async def work(run: BuiltinRun) -> None:
        await run.write("I thi", "m")
        await held({})

    stopped = agent(Does(work), memory, runs=runs)
    async with aclosing(stopped.run(run_input("hi"))) as events:
        await anext(events)
    await stopped.aclose()
    assert held.was_cut_off
    assert blocks(memory) == [["hi", "I thi", "[This answer broke off: it was stopped]"]]
    assert [run.outcome for run in runs.runs] == [UsageOutcome.STOPPED]


async def test_whoever_is_cancelled_while_reading_ends_the_run() -> None:
    held, memory = Held(), Forgetful()
    stopped = agent(Does(lambda run: held({})), memory)
    listening = reader(stopped, run_input("hi"))
    await held.began.wait()
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await stopped.aclose()
    assert held.was_cut_off
    assert blocks(memory) == [["hi", "[This answer broke off: it was stopped]"]]


async def test_closing_an_agent_ends_its_runs_and_leaves_no_reader_waiting() -> None:
    held, memory, runs = Held(), Forgetful(), RunsKept()
    works = Does(lambda run: held({}))
    closed = agent(works, memory, runs=runs)
    listening = [reader(closed, run_input("hi", user=user)) for user in ("U1", "U2")]
    await held.began.wait()
    async with asyncio.timeout(5):
        await closed.aclose()
        heard = await asyncio.gather(*listening)
    assert heard == [[Broken(reason=CUT_OFF)]] * 2
    assert works.is_closed
    assert len(runs.runs) == len(memory.blocks) == 2
    await closed.aclose()


async def test_an_agent_that_cancels_itself_leaves_no_reader_waiting() -> None:
    async def work(run: BuiltinRun) -> None:
        raise asyncio.CancelledError

    assert await hear(agent(Does(work), Forgetful()), run_input("hi")) == [Broken(reason=CUT_OFF)]


async def test_an_agent_is_not_far_ahead_of_a_reader_that_is_slow() -> None:
    written = 0

    async def work(run: BuiltinRun) -> None:
        nonlocal written
        for _ in range(10 * WAITING_EVENTS):
            await run.write("x", "m")
            written += 1

    async with aclosing(agent(Does(work), Forgetful()).run(run_input("hi"))) as events:
        await anext(events)
        for _ in range(3 * WAITING_EVENTS):
            await asyncio.sleep(0)  # the agent may go on as it likes
        assert written <= WAITING_EVENTS + 1
        assert sum([1 async for _ in events]) == 10 * WAITING_EVENTS  # the end is among them


@pytest.mark.req("AGENT-05")
async def test_the_next_run_of_a_session_waits_until_the_one_before_is_stored() -> None:
    """Also for one that was stopped, and whose tool takes a moment to end."""
    memory, order = Forgetful(), []
    may_end, began = asyncio.Event(), asyncio.Event()

    async def work(run: BuiltinRun) -> None:
        order.append(f"begins, {len(memory.blocks)} remembered")
        began.set()
        if len(order) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await may_end.wait()

    works = agent(Does(work), memory)
    first = works.run(run_input("one"))
    listening = asyncio.create_task(anext(first))
    await began.wait()
    listening.cancel()
    await asyncio.wait({listening})
    second, elsewhere = reader(works, run_input("two")), reader(works, run_input("x", user="U2"))
    await elsewhere  # nobody else waits
    assert order == ["begins, 0 remembered", "begins, 0 remembered"]
    may_end.set()
    await second
    assert order[-1] == "begins, 2 remembered"


async def test_two_runs_of_one_session_at_once_are_both_remembered_whole(database: Database) -> None:
    memory, both = remembering(database, "helper"), asyncio.Barrier(2)

    async def work(run: BuiltinRun) -> None:
        await run.write("one, ", "m")
        await both.wait()
        await run.write("two", "m")

    works = agent(Does(work), memory)
    await asyncio.gather(hear(works, run_input("a", id="1")), hear(works, run_input("b", id="2")))
    told = [message.text for message in await memory.get_messages(HERE)]
    assert sorted((told[:2], told[2:])) == [["a", "one, two"], ["b", "one, two"]]


async def test_a_database_that_comes_back_gets_the_run_and_only_then_is_it_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swarm_agents.builtin.recording.AGAIN_SECONDS", 0.0)
    memory = Stubborn(3)
    with capture_logs() as logs:
        events = await hear(agent(Does(greets), memory), run_input("hi"))
    assert events[-1] == Finished()
    assert blocks(memory) == [["hi", "hello"]]
    assert [log["action"] for log in logs] == ["agent_record"] * 3


async def test_a_database_that_stays_away_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_agents.builtin.recording.RECORD_SECONDS", 0.05)
    with capture_logs() as logs:
        events = await hear(agent(Does(greets), Stubborn(10**9)), run_input("hi"))
    assert (texts(events), events[-1]) == (["hello"], Finished())
    assert logs[-1]["event"] == "A run could not be remembered."


@pytest.mark.req("AGENT-05", "AGENT-07")
async def test_what_cannot_be_remembered_is_noted_down_and_what_cannot_be_noted_down_is_remembered() -> None:
    class NoMemory(Forgetful):
        async def add_run(self, *args: object, **kwargs: object) -> None:
            raise ValueError("a mistake of ours")

    class NoBook(RunsKept):
        async def note(self, run: ModelUsageRecord) -> None:
            raise ValueError("a mistake of ours")

    memory, runs = Forgetful(), RunsKept()
    with capture_logs() as logs:
        assert (await hear(agent(Does(greets), NoMemory(), runs=runs), run_input("hi")))[-1] == Finished()
        assert (await hear(agent(Does(greets), memory, runs=NoBook()), run_input("hi")))[-1] == Finished()
    assert (len(runs.runs), blocks(memory)) == (1, [["hi", "hello"]])
    assert [log["event"] for log in logs] == ["A run could not be remembered.", "A run could not be noted down."]


async def test_the_end_of_the_coordinator_does_not_wait_long_for_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_agents.builtin.agent.CLOSING_SECONDS", 0.05)
    memory = Stubborn(10**9)
    works = agent(Does(greets), memory)
    listening = reader(works, run_input("hi"))
    await memory.tried.wait()
    async with asyncio.timeout(5):
        await works.aclose()
        assert (await listening)[-1] == Finished()  # it had all been said


async def test_a_session_is_compacted_after_a_run_and_closing_does_not_wait_for_it() -> None:
    began = asyncio.Event()

    class Compacts(Forgetful):
        async def compact_session(self, session_id: str) -> bool:
            began.set()
            await asyncio.Event().wait()
            return True

    works = agent(Does(greets), Compacts())
    await hear(works, run_input("hi"))
    async with asyncio.timeout(5):
        await began.wait()
        assert (await hear(works, run_input("again")))[-1] == Finished()  # nobody is held up
        await works.aclose()
    assert not [task for task in asyncio.all_tasks() if task.get_name() in ("compact a session", "store a run")]


async def test_a_compaction_that_fails_is_logged_by_its_kind_alone() -> None:
    class Fails(Forgetful):
        async def compact_session(self, session_id: str) -> bool:
            raise ValueError("what people said")

    works = agent(Does(greets), Fails())
    with capture_logs() as logs:
        await hear(works, run_input("hi"))
        await asyncio.sleep(0)
        await works.aclose()
    assert [(log["action"], log["error"]) for log in logs] == [("session_compact", "ValueError")]


async def test_a_whole_answer_is_all_of_its_messages() -> None:
    async def work(run: BuiltinRun) -> None:
        await run.write_whole("Let me see.", "1")
        await run.write_whole("Done.", "2")

    assert await agent(Does(work), Forgetful()).invoke(run_input("hi")) == Finished(result="Let me see.\n\nDone.")


async def test_a_whole_answer_that_takes_too_long_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_agents.builtin.agent.INVOKE_SECONDS", 0.05)
    held = Held()
    works = agent(Does(lambda run: held({})), Forgetful())
    assert await works.invoke(run_input("hi")) == Broken(reason="it did not answer within 0.05 s")
    await works.aclose()
    assert held.was_cut_off


async def test_a_caller_of_another_door_is_noted_by_name() -> None:
    runs = RunsKept()
    asked = replace(run_input("hi"), origin=Origin(door=Door.AGUI, client="0b1c", client_name="web"))
    await hear(agent(Does(greets), Forgetful(), runs=runs), asked)
    assert (runs.runs[0].requester, runs.runs[0].session_id) == ("web", f"agui:0b1c:{asked.conversation_id}")
