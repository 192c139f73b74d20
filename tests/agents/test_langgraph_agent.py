"""Real agents: LangGraph, served by `ag-ui-langgraph` in an environment of its own, for the proof.

The environment is made once and kept under ``~/.cache/swarm``; ``SWARM_LANGGRAPH_PYTHON`` names another one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from swarm.domain.answers.events import AgentEvent, Asked, Decided, Finished, Interrupted
from swarm.domain.model.requests import FieldType, FormField, HumanDecision, ToolRequest
from tests.agents.asking import run, run_input
from tests.support.deciding import decided

pytestmark = [pytest.mark.long, pytest.mark.req("HITL-01", "HITL-02", "HITL-03", "HITL-04", "HITL-05")]

FOLDER = Path(__file__).parents[1] / "langgraph"
D = HumanDecision

in_both_forms = pytest.mark.parametrize("form", ["event", "outcome"])


@functools.cache
def _python() -> str:
    """The interpreter with LangGraph."""
    if given := os.environ.get("SWARM_LANGGRAPH_PYTHON"):
        return given
    requirements = FOLDER / "requirements.txt"
    name = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:16]
    home = Path.home() / ".cache" / "swarm" / f"langgraph-{name}"
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        install = (str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements))
        for command in ((sys.executable, "-m", "venv", str(home)), install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"NOT TESTED WITH LANGGRAPH: it cannot be installed: {done.stderr[-300:]}")
        ready.touch()
    return str(python)


@pytest.fixture(scope="module")
def langgraph() -> Iterator[str]:
    """The address of the server."""
    command = (_python(), str(FOLDER / "server.py"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


class Conversation:
    """A new conversation with one of the agents."""

    def __init__(self, url: str, path: str, text: str = "hello") -> None:
        self._url, self._path, self._text = url, path, text
        self._id = f"c-{uuid4().hex}"

    async def run(self, *decided: Decided) -> list[AgentEvent]:
        said = replace(run_input(self._text, decided=decided), conversation_id=self._id)
        return await run(f"{self._url}/{self._path}", of=said)

    async def asked(self) -> tuple[Asked, ...]:
        end = (await self.run())[-1]
        assert isinstance(end, Interrupted)
        return end.asked

    async def result(self, *decided: Decided) -> str:
        end = (await self.run(*decided))[-1]
        assert isinstance(end, Finished)
        return end.result or ""

    async def ran(self) -> list[str]:
        async with httpx2.AsyncClient() as client:
            return [path for path in (await client.get(f"{self._url}/ran")).json() if path in self._text.split()]


@in_both_forms
@pytest.mark.parametrize("text", ["Berlin", "42", "true", '{"a": 1}'])
async def test_a_text_is_answered_with_a_text(form: str, text: str, langgraph: str) -> None:
    conversation = Conversation(langgraph, f"{form}/text")
    (asked,) = await conversation.asked()
    assert (asked.prompt, asked.fields, asked.tool) == ("Where?", (), None)
    assert await conversation.result(decided(asked, D.ANSWER, values={"answer": text})) == f"I got {text!r}"


@in_both_forms
async def test_a_dismissed_and_an_expired_question_are_told_apart_from_an_answer(form: str, langgraph: str) -> None:
    for decision in (D.REJECT, None):
        conversation = Conversation(langgraph, f"{form}/text")
        (asked,) = await conversation.asked()
        result = await conversation.result(decided(asked, decision))
        assert "'__agui_cancelled__': True" in result
        assert ("'reason': 'expired'" in result) is (form == "event" and decision is None)


@in_both_forms
async def test_an_object_with_a_schema_is_a_form(form: str, langgraph: str) -> None:
    conversation = Conversation(langgraph, f"{form}/object")
    (asked,) = await conversation.asked()
    assert asked.prompt == "How many?"
    assert asked.fields == (FormField(name="count", type=FieldType.INTEGER, required=True),)
    assert await conversation.result(decided(asked, D.ANSWER, values={"count": 3})) == "I got {'count': 3}"


@in_both_forms
async def test_two_questions_at_once_each_get_their_answer(form: str, langgraph: str) -> None:
    conversation = Conversation(langgraph, f"{form}/two")
    where, when = await conversation.asked()
    assert (where.prompt, when.prompt) == ("Where?", "When?")
    answers = [decided(one, D.ANSWER, values={"answer": text}) for one, text in ((when, "now"), (where, "here"))]
    assert await conversation.result(*answers) == "I got 'here', I got 'now'"


Told = Callable[[Asked], Decided]


@in_both_forms
@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(
    ("told", "is_run", "said"),
    [
        pytest.param(lambda asked: decided(asked, D.APPROVE), "{path}", "{path} is gone", id="approved"),
        pytest.param(lambda asked: decided(asked, D.APPROVE_THREAD), "{path}", "{path} is gone", id="in the thread"),
        pytest.param(
            lambda asked: decided(asked, D.EDIT, arguments={"path": asked.tool.arguments["path"] + "-old"}),
            "{path}-old",
            "{path}-old is gone",
            id="edited",
        ),
        pytest.param(lambda asked: decided(asked, D.REJECT), None, "A person has rejected this call.", id="rejected"),
        pytest.param(lambda asked: decided(asked, None), None, "Nobody decided in time.", id="expired"),
    ],
)
async def test_an_approval_decides_the_call(
    form: str, mode: str, told: Told, is_run: str | None, said: str, langgraph: str
) -> None:
    path = uuid4().hex
    conversation = Conversation(langgraph, f"{form}/{mode}", f"delete {path} {path}-old")
    first, second = await conversation.asked()
    assert first.tool is not None
    assert first.tool == ToolRequest(name="delete", arguments={"path": path}, schema=first.tool.schema)
    assert bool(first.tool.schema) is (mode == "per_call")
    assert "Tool execution requires approval" in first.prompt
    assert {D.APPROVE, D.EDIT, D.REJECT} <= set(first.decisions)
    result = await conversation.result(decided(second, D.REJECT), told(first))
    assert said.format(path=path) in result
    assert "A person has rejected this call." in result
    assert await conversation.ran() == ([is_run.format(path=path)] if is_run else [])
