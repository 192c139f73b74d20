"""What the assistant remembers of a conversation, in a real database."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from packages.swarm_agents.tests.agents.builtin.making import (
    Made,
    RunsKept,
    assistant,
    hear,
    remembering,
    run_input,
    texts,
)
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Scripted
from swarm.domain.answers.events import Failed, Finished, InputMessage, Speaker
from swarm.domain.model.sessions import MessageRole, SessionMessage, SessionScope
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.bridge.database import Database

pytestmark = pytest.mark.req("AGENT-04", "AGENT-05")


async def test_after_a_restart_the_model_is_told_all_of_the_session_with_its_tools(database_url: str) -> None:
    search = Made("search")
    async with Database(database_url) as before:
        script = Scripted(["Let me see.", Calls("search", {"q": "x"}, id="c1")], "Found.")
        await hear(assistant(script.model, remembering(before), search.tool), run_input("find x"))
    async with Database(database_url) as after:
        script = Scripted("You asked for x.")
        helper = assistant(script.model, remembering(after), search.tool)
        assert texts(await hear(helper, run_input("what did I ask?", thread="200.2"))) == ["You asked for x."]
    assert script.told[0].shape == [
        "user: find x",
        "model: Let me see. | call search",
        "user: result search",
        "model: Found.",
        "user: what did I ask?",
    ]


async def test_people_and_channels_and_agents_are_remembered_apart(db: Database) -> None:
    script = Scripted(decide=lambda told: f"{len(told.messages)}")
    one, two = (assistant(script.model, remembering(db, name)) for name in ("one", "two"))
    assert texts(await hear(one, run_input("hi"))) == ["1"]
    assert texts(await hear(one, run_input("hi", user="U2"))) == ["1"]
    assert texts(await hear(two, run_input("hi"))) == ["1"]
    assert texts(await hear(one, run_input("hi"))) == ["3"]


async def test_in_the_session_of_a_thread_everybody_is_told_apart(db: Database) -> None:
    script = Scripted("Noted.", "Ann likes tea, Bob coffee.")
    helper = assistant(script.model, remembering(db), scope=SessionScope.THREAD)
    await hear(helper, run_input("I like tea."))
    bob = InputMessage(id="2", speaker=Speaker.USER, text="I like coffee.", author="Bob")
    ann = InputMessage(id="3", speaker=Speaker.USER, text="And what do I like?", author="Ann")
    await hear(helper, run_input(bob, ann, user="U2"))
    assert script.told[1].said == ["Ann: I like tea.", "Bob: I like coffee.\n\nAnn: And what do I like?"]
    told = await remembering(db).get_messages("slack:C1:100.1")
    assert [(message.author, message.text) for message in told if message.role is MessageRole.USER] == [
        ("Ann", "I like tea."),
        ("Bob", "I like coffee."),
        ("Ann", "And what do I like?"),
    ]


async def test_in_the_session_of_a_thread_what_was_not_said_to_the_agent_is_told_and_nothing_twice(
    db: Database,
) -> None:
    script = Scripted("Tea.", "Both of them.")
    helper = assistant(script.model, remembering(db), scope=SessionScope.THREAD)
    await hear(helper, run_input("What does Bob like?", history=[("Bob", "I like tea.")]))
    history = [("Bob", "I like tea."), ("Ann", "What does Bob like?"), ("assistant", "Tea."), ("Cid", "Me too.")]
    await hear(helper, run_input("And who likes tea?", history=history))
    first, second = (told.said[-1].splitlines()[2:-3] for told in script.told)
    assert first == ["Bob: I like tea."]
    assert second == ["Bob: I like tea.", "Cid: Me too."]
    assert [told.said[-1].splitlines()[-1] for told in script.told] == [
        "Ann: What does Bob like?",
        "Ann: And who likes tea?",
    ]


async def test_a_run_that_broke_off_is_remembered_as_such_by_the_next(db: Database) -> None:
    script = Scripted(decide=lambda told: "Here you are." if told.said[-1] == "again" else "")
    helper = assistant(script.model, remembering(db))
    failed = (await hear(helper, run_input("first")))[-1]
    assert isinstance(failed, Failed)
    assert (await hear(helper, run_input("again")))[-1] == Finished()
    assert script.told[-1].shape == [
        "user: first",
        f"model: [This answer broke off: {failed.message}]",
        "user: again",
    ]


async def test_a_conversation_goes_on_after_its_older_part_was_summarised(db: Database) -> None:
    async def summarise(session_id: str, messages: Sequence[SessionMessage]) -> str:
        return f"{len(messages)} messages about ships"

    memory, also = (
        DatabaseMemory(db, "assistant", summarise, compaction_threshold=3, keep_recent_messages=1) for _ in range(2)
    )
    script = Scripted(decide=lambda told: f"answer {len(told.said)}")
    helper = assistant(script.model, memory)
    for number in range(3):
        await hear(helper, run_input(f"question {number}"))
        await also.compact_session("slack:C1:U1")  # as the agent itself does, somewhen after the run
    shape = script.told[-1].shape
    assert shape[0].startswith("user: 3 messages about ships | [The conversation continues.]")
    assert shape[1].startswith("model: answer")
    assert shape[-1] == "user: question 2"


async def test_a_database_that_is_away_at_the_beginning_is_told_to_people(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_agents.builtin.recording.RECORD_SECONDS", 0.05)
    async with Database(sqlite_url) as gone:
        memory = remembering(gone)
    script = Scripted()
    runs = RunsKept()
    (end,) = await hear(assistant(script.model, memory, runs=runs), run_input("hi"))
    assert isinstance(end, Failed)
    assert script.requests == 0
