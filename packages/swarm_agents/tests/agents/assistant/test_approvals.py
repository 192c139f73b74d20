"""Assistants ask people before they call certain tools, and go on with the decision, in any process, once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packages.swarm_agents.tests.agents.builtin.making import (
    NUMBERS,
    Forgetful,
    Held,
    Made,
    assistant,
    hear,
    remembering,
    run_input,
    texts,
)
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Scripted
from swarm.domain.answers.events import (
    AgentEvent,
    Asked,
    Broken,
    Decided,
    Finished,
    Interrupted,
    Origin,
    RunInput,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.errors import Unavailable
from swarm.domain.model.requests import HumanDecision
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.store.bridge.database import Database
from swarm_agents.built_in_tools.shell import shell_tool
from swarm_agents.builtin.agent import NOT_ASKED
from swarm_agents.toolbox.approval_rules import ApprovalRules
from swarm_agents.toolbox.tool import ToolAnswer, failed

pytestmark = pytest.mark.req("HITL-04")

ASKS = ApprovalRules(patterns=("erase",))
SESSION = "slack:C1:U1"
_D = HumanDecision


def eraser(answer: Any = "erased", **more: Any) -> Made:
    return Made("erase", answer, parameters={"type": "object", "properties": {"path": {"type": "string"}}}, **more)


async def waiting(db: Database, *tools: Made, calls: list[Calls] | None = None, **kwargs: Any) -> tuple[Asked, ...]:
    """A run that ends with questions, in a process of its own."""
    script = Scripted(["I will.", *(calls or [Calls("erase", {"path": "a"}, id="c1")])])
    helper = assistant(script.model, remembering(db), *(tool.tool for tool in tools), approvals=ASKS, **kwargs)
    return asked_at(await hear(helper, run_input("erase a", id="m1")))


def asked_at(events: list[AgentEvent]) -> tuple[Asked, ...]:
    end = events[-1]
    assert isinstance(end, Interrupted), end
    return end.asked


def decision(asked: Asked, decided: HumanDecision | None, **more: Any) -> Decided:
    return Decided(interrupt_id=asked.id, values={}, raw=asked.raw, decision=decided, **more)


def going_on(*decided: Decided, **more: Any) -> RunInput:
    return replace(run_input(**more), decided=decided)


async def went_on(db: Database, run: RunInput, *tools: Made, script: Scripted | None = None) -> list[AgentEvent]:
    """The next run, in another process: nothing but the database is left of the first."""
    model = (script or Scripted("Done.")).model
    return await hear(assistant(model, remembering(db), *(tool.tool for tool in tools), approvals=ASKS), run)


@pytest.mark.req("HITL-01")
async def test_a_call_that_needs_approval_is_asked_for_and_not_made(db: Database) -> None:
    erase = eraser()
    (asked,) = await waiting(db, erase)
    assert not erase.calls
    assert (asked.id, asked.reason) == ("c1", "tool_call")
    assert asked.tool
    assert (asked.tool.name, asked.tool.arguments) == ("erase", {"path": "a"})
    assert asked.tool.schema == erase.tool.parameters
    assert asked.raw == {"toolCall": {"id": "c1", "name": "erase", "arguments": '{"path": "a"}'}}
    assert asked.decisions == (_D.APPROVE, _D.EDIT, _D.REJECT, _D.APPROVE_THREAD, _D.APPROVE_ALWAYS)
    assert "erase" in asked.prompt


@pytest.mark.parametrize("approval", [_D.APPROVE, _D.APPROVE_THREAD, _D.APPROVE_ALWAYS])
async def test_an_approved_call_is_made_in_another_process_and_the_model_goes_on(
    db: Database, approval: HumanDecision
) -> None:
    (asked,) = await waiting(db, eraser())
    erase, script = eraser(), Scripted("It is gone.")
    events = await went_on(db, going_on(decision(asked, approval)), erase, script=script)
    assert erase.calls == [{"path": "a"}]
    assert texts(events) == ["It is gone."]
    assert events[-1] == Finished()
    assert [event for event in events if isinstance(event, ToolStarted | ToolEnded)] == [
        ToolStarted(id="c1", name="erase"),
        ToolEnded(id="c1"),
    ]
    assert script.told[0].said == ["erase a"]
    assert script.told[0].results == ["erased"]


async def test_the_session_reads_as_if_nobody_had_been_asked(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    await went_on(db, going_on(decision(asked, _D.APPROVE)), eraser())
    found = await remembering(db).get_messages(SESSION)
    kinds = [(message.role, message.text) for message in found]
    assert kinds == [
        (MessageRole.USER, "erase a"),
        (MessageRole.ASSISTANT, "I will."),
        (MessageRole.TOOL_USE, ""),
        (MessageRole.TOOL_RESULT, "erased"),
        (MessageRole.ASSISTANT, "Done."),
    ]
    assert len(await remembering(db).get_originals(SESSION)) == len(found)


async def test_a_person_may_change_the_arguments(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    erase, script = eraser(), Scripted("Done.")
    await went_on(db, going_on(decision(asked, _D.EDIT, arguments={"path": "b"})), erase, script=script)
    assert erase.calls == [{"path": "b"}]
    assert script.told[0].results == ['[A person changed the arguments to {"path": "b"}]\nerased']


async def test_changed_arguments_that_do_not_fit_are_not_used(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    erase, script = eraser(), Scripted("Hm.")
    await went_on(db, going_on(decision(asked, _D.EDIT, arguments={"path": {}})), erase, script=script)
    assert not erase.calls
    assert "a person gave instead do not fit: path:" in script.told[0].results[0]


@pytest.mark.parametrize(
    ("decided", "more", "words"),
    [
        (_D.REJECT, {}, "a person has rejected"),
        (None, {"expired": True}, "Nobody decided in time"),
        (None, {}, "nobody has decided"),
        (_D.ANSWER, {}, "nobody has decided"),
    ],
)
async def test_what_is_not_approved_is_not_called_and_the_model_reads_why(
    db: Database, decided: HumanDecision | None, more: Mapping[str, Any], words: str
) -> None:
    (asked,) = await waiting(db, eraser())
    erase, script = eraser(), Scripted("I see.")
    events = await went_on(db, going_on(decision(asked, decided, **more)), erase, script=script)
    assert not erase.calls
    assert words in script.told[0].results[0]
    assert texts(events) == ["I see."]


async def test_a_rejection_comes_with_its_reason(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    script = Scripted("I see.")
    rejected = replace(decision(asked, _D.REJECT), values={"approved": False, "reason": "It is in use."})
    await went_on(db, going_on(rejected), eraser(), script=script)
    assert script.told[0].results[0].endswith("The reason: It is in use.")


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "name": "erase", "arguments": '{"path": "b"}'},
        {"id": "c1", "name": "other", "arguments": '{"path": "a"}'},
        {"id": "c1", "name": "erase", "arguments": "not JSON"},
        None,
    ],
)
async def test_a_decision_about_another_call_approves_nothing(db: Database, call: Mapping[str, Any] | None) -> None:
    (asked,) = await waiting(db, eraser())
    erase, script = eraser(), Scripted("Hm.")
    decided = replace(decision(asked, _D.APPROVE), raw={"toolCall": call} if call else {})
    await went_on(db, going_on(decided), erase, script=script)
    assert not erase.calls
    assert "about other arguments" in script.told[0].results[0]


async def test_a_decision_about_an_unknown_call_does_nothing_and_the_model_is_told(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    erase, script = eraser(), Scripted("Sorry.")
    events = await went_on(db, going_on(replace(decision(asked, _D.APPROVE), interrupt_id="x")), erase, script=script)
    assert not erase.calls
    assert "does not wait" in script.told[0].said[-1]
    assert texts(events) == ["Sorry."]


async def test_calls_of_one_turn_are_made_once_each_the_waiting_ones_after_the_approval(db: Database) -> None:
    look, erase = Made("look"), eraser()
    calls = [Calls("erase", {"path": "a"}, id="c1"), Calls("look", id="c2"), Calls("erase", {"path": "b"}, id="c3")]
    first, second = await waiting(db, look, erase, calls=calls)
    assert (len(look.calls), len(erase.calls)) == (1, 0)
    script = Scripted("Done.")
    decided = (decision(first, _D.APPROVE), decision(second, _D.REJECT))
    await went_on(db, going_on(*decided), look, erase, script=script)
    assert (len(look.calls), erase.calls) == (1, [{"path": "a"}])
    assert [result.split(":")[0] for result in script.told[0].results] == ["done", "erased", "It was not called"]


async def test_a_call_without_a_decision_is_asked_for_again(db: Database) -> None:
    calls = [Calls("erase", {"path": "a"}, id="c1"), Calls("erase", {"path": "b"}, id="c2")]
    first, second = await waiting(db, eraser(), calls=calls)
    erase, silent = eraser(), Scripted()
    (again,) = asked_at(await went_on(db, going_on(decision(first, _D.APPROVE)), erase, script=silent))
    assert (again, erase.calls, silent.requests) == (second, [{"path": "a"}], 0)
    await went_on(db, going_on(decision(again, _D.APPROVE)), erase)
    assert erase.calls == [{"path": "a"}, {"path": "b"}]


@pytest.mark.req("HITL-05")
async def test_a_run_that_goes_on_may_ask_again(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    erase = eraser()
    more = Scripted([Calls("erase", {"path": "a"}, id="c1")])  # the same id and arguments as before
    (again,) = asked_at(await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=more))
    assert again.id != asked.id
    assert len(erase.calls) == 1
    await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=Scripted())  # the old one once more
    assert len(erase.calls) == 1
    script = Scripted("Twice.")
    await went_on(db, going_on(decision(again, _D.APPROVE)), erase, script=script)
    assert len(erase.calls) == 2
    assert script.told[0].results == ["erased", "erased"]


async def test_a_run_that_is_repeated_does_not_call_the_tool_again(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    erase = eraser()
    failing = Scripted(decide=lambda told: 1 / 0)  # type: ignore[arg-type,return-value]
    events = await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=failing)
    assert isinstance(events[-1], Broken)
    script = Scripted("Done.")
    await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=script)
    assert len(erase.calls) == 1
    assert script.told[0].results == ["erased"]


@pytest.mark.req("HITL-06")
async def test_a_call_that_was_cut_off_may_have_run_and_is_not_made_again(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    held = Held()
    helper = assistant(Scripted().model, remembering(db), eraser(held).tool, approvals=ASKS)
    cut_off = asyncio.create_task(hear(helper, going_on(decision(asked, _D.APPROVE))))
    await asyncio.wait_for(held.began.wait(), 5)
    await helper.aclose()
    await cut_off
    erase, script = eraser(), Scripted("Perhaps.")
    await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=script)
    assert not erase.calls
    assert "may or may not have been carried out" in script.told[0].results[0]


async def test_two_processes_with_one_decision_call_the_tool_once(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    erase = eraser()
    decided = decision(asked, _D.APPROVE)
    await asyncio.gather(*(went_on(db, going_on(decided), erase) for _ in range(4)))
    assert len(erase.calls) == 1


async def test_a_message_in_place_of_a_decision_closes_the_calls(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    erase, script = eraser(), Scripted("Left alone.", "Too late.")
    events = await went_on(db, run_input("no, leave it", id="m2"), erase, script=script)
    assert texts(events) == ["Left alone."]
    assert "wrote something else" in script.told[0].results[0]
    assert script.told[0].said[-1] == "no, leave it"
    await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=script)
    assert not erase.calls


async def test_a_message_in_another_thread_closes_nothing(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    other = run_input("hello", id="m2", thread="200.1", conversation="C1:200.1")
    await went_on(db, other, eraser(), script=Scripted("Hello."))
    erase, script = eraser(), Scripted("Done.")
    await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=script)
    assert len(erase.calls) == 1
    assert (script.told[0].said, script.told[0].results) == (["hello", "erase a"], ["erased"])


async def test_strangers_are_refused_and_nobody_is_asked(db: Database) -> None:
    erase, script = eraser(), Scripted([Calls("erase", {"path": "a"})], "A member has to ask.")
    run = run_input("erase a")
    stranger = replace(run, origin=replace(run.origin, by_strangers=True))
    events = await went_on(db, stranger, erase, script=script)
    assert events[-1] == Finished()
    assert not erase.calls


async def test_arguments_that_do_not_fit_are_the_models_to_correct(db: Database) -> None:
    add = Made("erase", parameters=NUMBERS)
    script = Scripted([Calls("erase", {"a": 1})], "Sorry.")
    assert (await went_on(db, run_input("hi"), add, script=script))[-1] == Finished()
    assert "b is missing" in script.told[1].results[0]


async def test_nobody_is_asked_for_a_call_that_the_tool_refuses_anyway(db: Database) -> None:
    erase, script = eraser(), Scripted([Calls("erase", {"path": "/etc"}), Calls("erase", {"path": "a"})], "Sorry.")

    async def refuse(arguments: Mapping[str, Any]) -> ToolAnswer | None:
        return failed("/etc leads outside.") if arguments["path"] == "/etc" else None

    erase.tool = replace(erase.tool, refuse=refuse)
    (asked,) = asked_at(await went_on(db, run_input("erase all"), erase, script=script))
    assert asked.tool
    assert asked.tool.arguments == {"path": "a"}
    results = [one for one in await remembering(db).get_messages(SESSION) if one.role is MessageRole.TOOL_RESULT]
    assert [(one.text, one.failed) for one in results] == [("/etc leads outside.", True)]
    assert not erase.calls


async def test_nobody_is_asked_for_a_command_in_a_folder_that_is_refused(db: Database, tmp_path: Path) -> None:
    shell = shell_tool(tmp_path, ["ls"], env={})
    assert shell
    given = {"command": "ls", "working_directory": ".."}
    script = Scripted(Calls(shell.name, given), "I cannot.")
    rules = ApprovalRules(patterns=(shell.name,))
    events = await hear(assistant(script.model, remembering(db), shell, approvals=rules), run_input("read it"))
    assert events[-1] == Finished()
    assert script.told[-1].results == [(await shell.call(given)).text]


async def test_arguments_that_nobody_could_read_are_refused(db: Database) -> None:
    script = Scripted([Calls("erase", {"path": "a" * 300_000})], "Sorry.")
    assert (await went_on(db, run_input("hi"), eraser(), script=script))[-1] == Finished()
    assert "too long to be shown" in script.told[1].results[0]


async def test_open_questions_are_found_without_the_process_that_asked(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    helper = assistant(Scripted().model, remembering(db), approvals=ASKS)
    origin = Origin(channel="C1", thread_ts="100.1", user_id="U1")
    (found,) = await helper.open_questions(origin, "C1:100.1")
    assert (found.id, found.raw, found.decisions) == (asked.id, asked.raw, asked.decisions)
    assert await helper.open_questions(origin, "C1:200.1") == ()
    await went_on(db, going_on(decision(asked, _D.REJECT)), eraser())
    assert await helper.open_questions(origin, "C1:100.1") == ()


async def test_what_could_not_be_stored_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Forgetful):
        async def add_run(self, *args: Any, **kwargs: Any) -> None:
            raise Unavailable("gone")

    monkeypatch.setattr("swarm_agents.builtin.recording.RECORD_SECONDS", 0.05)
    script = Scripted([Calls("erase", {"path": "a"})])
    events = await hear(assistant(script.model, Lost(), eraser().tool, approvals=ASKS), run_input("hi"))
    assert events[-1] == Broken(reason=NOT_ASKED)


@pytest.mark.req("HITL-04")
async def test_nothing_of_a_deleted_message_waits_or_is_kept(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    memory = remembering(db)
    turn = await memory.waiting_turn(SESSION, "C1:100.1")
    assert turn
    assert await memory.settle_calls(SESSION, "another run", [_result(asked)]) == frozenset()
    await memory.add_run(SESSION, "r9", [SessionMessage(role=MessageRole.ASSISTANT, text="x")], continues="gone")
    assert "x" not in [message.text for message in await memory.get_originals(SESSION)]


def _result(asked: Asked) -> SessionMessage:
    return SessionMessage(role=MessageRole.TOOL_RESULT, call_id=asked.id, tool="erase", text="?")


async def test_a_summary_in_between_loses_no_waiting_call(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    memory = remembering(db)
    from swarm.services.builtin.sessions import DatabaseMemory

    async def summary(session_id: str, messages: Any) -> str:
        return "They talked."

    short = DatabaseMemory(db, "assistant", summary, compaction_threshold=2, keep_recent_messages=0)
    assert await short.compact_session(SESSION)
    assert [message.text for message in await memory.get_messages(SESSION)] == ["They talked."]
    erase, script = eraser(), Scripted("Done.")
    await went_on(db, going_on(decision(asked, _D.APPROVE)), erase, script=script)
    assert len(erase.calls) == 1
    assert script.told[0].results == ["erased"]
    assert [message.text for message in await memory.get_messages(SESSION)][-1] == "Done."


async def test_a_tool_that_is_gone_is_not_called(db: Database) -> None:
    (asked,) = await waiting(db, eraser())
    script = Scripted("Hm.")
    await went_on(db, going_on(decision(asked, _D.APPROVE)), Made("other", ToolAnswer(text="")), script=script)
    assert "not available any more" in script.told[0].results[0]
