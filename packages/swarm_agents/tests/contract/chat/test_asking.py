"""What the agent's run waits for is asked in the terminal: to approve a tool call, and to fill in a form."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from packages.swarm_agents.tests.contract.agui_api.scene import Scripted, Step
from packages.swarm_agents.tests.contract.chat.terminal import CTRL_C, ENTER, terminal
from swarm.domain.answers.events import Asked, Finished, Interrupted, RunInput, TextDelta
from swarm.domain.model.requests import FieldType, FormField, HumanDecision, ToolRequest, options
from swarm_agents.cli.chat.asking import Questions
from tests.support.processes import Processes, processes_in

pytestmark = [pytest.mark.req("HITL-02", "HITL-04", "AGENT-10"), pytest.mark.xdist_group("processes")]

_D = HumanDecision
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CALL = Asked(
    id="c1",
    prompt="I would like to use erase, which needs your approval.",
    reason="tool_call",
    tool=ToolRequest(name="erase", arguments={"path": "a"}, schema=SCHEMA),
    decisions=(_D.APPROVE, _D.EDIT, _D.REJECT, _D.APPROVE_THREAD, _D.APPROVE_ALWAYS),
    raw={"toolCall": {"id": "c1", "name": "erase", "arguments": '{"path": "a"}'}},
)
FORM = Asked(
    id="f1",
    prompt="Where to?",
    fields=(
        FormField(name="place", type=FieldType.SELECT, options=options("here", "there"), required=True),
        FormField(name="count", type=FieldType.INTEGER, default=2),
        FormField(name="tags", type=FieldType.MULTISELECT, options=options("x", "y")),
        FormField(name="sure", type=FieldType.BOOLEAN, default=True),
        FormField(name="word", secret=True),
    ),
)


class Typed:
    """A line on which these texts are typed. An empty text takes the default; "^C" is Ctrl-C."""

    def __init__(self, *texts: str) -> None:
        self._texts = iter(texts)
        self.prompts: list[str] = []

    async def ask(self, prompt: str, default: str = "", *, is_secret: bool = False) -> str:
        self.prompts.append(f"{prompt}{default}{'*' if is_secret else ''}")
        text = next(self._texts)
        if text == "^C":
            raise KeyboardInterrupt
        return text or default


async def decided(*texts: str, asked: Sequence[Asked] = (CALL,)) -> tuple[list[Any], Typed, str]:
    typed = Typed(*texts)
    console = Console(width=100, record=True, file=io.StringIO())
    found = await Questions(typed, console).decide(asked)
    return [(one.decision, one.values, one.arguments) for one in found], typed, console.export_text()


async def test_a_call_is_shown_and_approved() -> None:
    found, typed, shown = await decided("A")
    assert found == [(_D.APPROVE, {"approved": True}, None)]
    assert typed.prompts == ["[a]pprove, [e]dit, [r]eject: "]
    assert 'Tool: erase\n{\n  "path": "a"\n}' in shown


async def test_what_is_no_decision_is_asked_again() -> None:
    found, _, shown = await decided("", "x", "r")
    assert [one[0] for one in found] == [_D.REJECT]
    assert found[0][1]["approved"] is False
    assert shown.count("Enter a, e, r.") == 2


async def test_arguments_are_changed_until_they_fit() -> None:
    edited = {"path": "b"}
    found, typed, shown = await decided("e", "{", "[]", '{"path": 1}', '{"path": "b"}')
    assert found == [(_D.EDIT, {"approved": True, "editedArgs": edited}, edited)]
    assert typed.prompts[1] == 'arguments: {"path": "a"}'
    assert "This is not JSON" in shown
    assert "Enter a JSON object." in shown
    assert "is not of type 'string'" in shown


async def test_ctrl_c_rejects_this_and_all_questions_after_it() -> None:
    found, typed, _ = await decided("^C", asked=(CALL, CALL, FORM))
    assert [one[0] for one in found] == [_D.REJECT] * 3
    assert [one[1] and one[1]["approved"] for one in found] == [False, False, None]
    assert len(typed.prompts) == 1


async def test_a_form_is_filled_in_field_by_field() -> None:
    found, typed, shown = await decided("nowhere", "there", "", "x, y", "no", "secret", asked=(FORM,))
    values = {"place": "there", "count": 2, "tags": ["x", "y"], "sure": False, "word": "secret"}
    assert found == [(_D.ANSWER, values, None)]
    assert "Choose one of the options." in shown
    assert typed.prompts[1:] == [
        "place (here, there): nowhere",
        "count (optional): 2",
        "tags (some of x, y, separated by commas, optional): ",
        "sure (yes, no, optional): yes",
        "word (optional): *",
    ]


def asking(run_input: RunInput) -> Sequence[Step]:
    if run_input.decided:
        words = ", ".join(str(one.decision) for one in run_input.decided)
        return (TextDelta(text=f"decided: {words} {run_input.decided[0].arguments}", message_id="1"), Finished())
    return (Interrupted(asked=(CALL,)),)


async def test_a_conversation_goes_on_with_the_decision(
    assistant: Scripted, env: Mapping[str, str], tmp_path: Path
) -> None:
    assistant.script = asking
    async with terminal(env=env, cwd=tmp_path) as person:
        await person.asks()
        for keys, answer in (
            (("a",), "decided: approve None"),
            (("e", CTRL_C + '{"path": "b"}'), "decided: edit {'path': 'b'}"),
            (("r",), "decided: reject None"),
            ((CTRL_C,), "decided: reject None"),
        ):
            person.forget()
            person.type("erase a" + ENTER)
            await person.says('"path": "a"')
            await person.says(r"\[r\]eject:")
            for key in keys:
                person.forget()
                person.type(key if key == CTRL_C else key + ENTER)
                if key == "e":
                    await person.says("arguments: ")
            await person.says(answer.replace("{", r"\{"))
            await person.asks()
    assert [len(ran.input.decided) for ran in assistant.ran] == [0, 1] * 4


async def test_without_a_terminal_the_question_is_told_and_nothing_is_decided(
    assistant: Scripted, env: Mapping[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assistant.script = asking
    with processes_in(tmp_path_factory.mktemp("processes")) as processes:
        ended = await _once(processes, env, tmp_path)
    assert ended.code == 1
    assert 'It wants to call erase with {"path": "a"}.' in ended.err
    assert len(assistant.ran) == 1


async def _once(processes: Processes, env: Mapping[str, str], folder: Path) -> Any:
    return await processes.command("chat", "erase a", env=env, cwd=folder)
