"""The labelled threads: a lead that follows the labels gets all of them, and each way to be wrong has its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Raises, Reply, Scripted, Told
from packages.swarm_runner.tests.conftest import fake
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.agents import Role
from swarm_agents.app.swarm_tools import TeamTools
from swarm_agents.builtin.assistant import Assistant
from swarm_agents.builtin.lead_evaluation import (
    LABELS,
    LabelledThread,
    LeadMove,
    ThreadSuite,
    evaluate_lead,
    load_threads,
    score,
)
from swarm_agents.builtin.run import BuiltinRun
from swarm_agents.cli.eval import lead as eval_lead
from swarm_agents.cli.eval import router as eval_router
from swarm_agents.models.usage import usage_of
from swarm_agents.router.evaluation import Forgets
from swarm_agents.toolbox.tool import Tool
from tests.support.logs import own_log
from tests.support.processes import free_port
from tests.support.providers import Call, Fails, Request, Say, openai_server
from tests.support.providers import Reply as WireReply

pytestmark = pytest.mark.req("AGENT-11")

SUITE = load_threads()


def lead(script: Scripted) -> Callable[[Sequence[Tool]], Callable[[BuiltinRun], Awaitable[None]]]:
    async def prompt(run_input: object, tools: object) -> str:
        return "You lead."

    def make(tools: Sequence[Tool]) -> Callable[[BuiltinRun], Awaitable[None]]:
        return Assistant(
            script.model,
            memory=Forgets(),
            tools=lambda: tools,
            prompt=prompt,
            usage_of=usage_of,
        ).answer

    return make


def thread_of(told: Told) -> LabelledThread:
    text = str(told.messages)
    return next(thread for thread in SUITE.threads if thread.say in text or repr(thread.say)[1:-1] in text)


def follows(told: Told) -> Reply:
    """What the label says, with a look at the team first."""
    thread = thread_of(told)
    if thread.workers:
        if not told.results:
            return Calls("list-agents")
        if len(told.results) > 1:
            return "They do it."
        if len(thread.workers) == 1:
            return Calls("inbox-delegate", {"agent": thread.workers[0], "task": "It."})
        return [Calls("create-task", {"agent": name, "title": "It", "description": "It."}) for name in thread.workers]
    return "Which one do you mean?" if thread.expected is LeadMove.ASK else "It is so."


async def test_a_lead_that_follows_the_labels_gets_every_thread() -> None:
    script = Scripted(decide=follows)
    judged = await evaluate_lead(lead(script), TeamTools().of(Role.LEAD), SUITE)
    assert [(one.thread.id, one.got, one.text) for one in judged if not one.is_right] == []
    assert [one.thread for one in judged] == list(SUITE.threads)
    found = score(judged)
    assert (found.right, found.routing, found.delegation) == (100, 100, 100)
    assert all(sum(one.expected is label for one in SUITE.threads) >= 4 for label in LABELS)


@pytest.mark.parametrize(
    ("replies", "got", "routed"),
    [
        (["I think it is 5."], LeadMove.ANSWER, False),
        (["Shall I?"], LeadMove.ASK, False),
        (["Meinst du „die Daten von gestern?“"], LeadMove.ASK, False),
        ([Calls("inbox-delegate", {"agent": "b", "task": "It."}), "b does it."], LeadMove.WRONG_WORKER, True),
        (
            [[Calls("create-task", {"agent": "a", "title": "It", "description": "It."}, id=str(n)) for n in range(2)],
             "a does it twice."],
            LeadMove.WRONG_WORKER,
            True,
        ),
        ([Calls("inbox-delegate", {"agent": "nobody", "task": "It."}), "I could not."], LeadMove.ANSWER, False),
        ([Calls("inbox-delegate", {"agent": "away", "task": "It."}), "I could not."], LeadMove.ANSWER, False),
        ([Raises(ModelHTTPError(503, "scripted"))], LeadMove.ERROR, False),
        ([Calls("inbox-delegate", {"agent": "A ", "task": "It."}), "a does it."], LeadMove.DELEGATE, True),
    ],
)  # fmt: skip
async def test_each_way_to_be_wrong(replies: list[Reply], got: LeadMove, routed: bool) -> None:
    team: dict[str, dict[str, str]] = {"a": {}, "b": {}, "away": {"status": "offline"}}
    thread = LabelledThread(id="x 1", category="x", say="do it", expected=LeadMove.DELEGATE, workers=("a",))
    suite = ThreadSuite(team=team, threads=(thread,))
    (judged,) = await evaluate_lead(lead(Scripted(*replies)), TeamTools().of(Role.LEAD), suite)
    assert (judged.got, judged.is_right, judged.is_routed) == (got, got is LeadMove.DELEGATE, routed)
    assert score([judged]).delegation == (100 if judged.is_right else 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("team: {a: {}}\nthreads: {x: [{say: hi, delegate: bob}]}", "names 'bob'"),
        ("team: {a: {}}\nthreads: {x: [{say: hi, expect: sing}]}", "x > 1 > expect"),
        ("team: {a: {}}\nthreads: {x: [{say: hi, expect: delegate}]}", "x 1 needs one label"),
        ("team: {a: {}}\nthreads: {x: [{say: hi, expect: answer, delegate: a}]}", "x 1 needs one label"),
        ("team: {a: {}}\nthreads: {x: [{say: hi}]}", "x 1 needs one label"),
        ("team: {a: {}}\nthreads: {x: [{say: hi, expekt: ask}]}", "threads > x > 1 > expekt"),
        ("team: {a: {}}\nthreads: {x: [{say: , expect: ask}]}", "threads > x > 1 > say"),
        ("team: {a: {}}\nthreads: {x: [{say: hi, before: [{lead: Hi.}], expect: ask}]}", "before > 1 > lead"),
        ("team: {a: {}}\nthreads: {x: [{say: hi, delegate: [a, a]}]}", "x 1 names a worker twice"),
        ("team: {a: {status: offline}}\nthreads: {x: [{say: hi, delegate: a}]}", "names 'a', which is not"),
        ("team: {a: {status: of}}\nthreads: {}", "team > a > status"),
        ("team: {Anna: {}}\nthreads: {}", "team > Anna"),
        ("", "the file: Input should be a valid dictionary"),
        pytest.param("[" * 3000, "recursion", id="deep"),
        ("team: {a: {}}\nthreads: {}", "it contains no threads"),
        ("[", "line 1"),
        ("threads: {}", "team"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_problem(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load_threads(path)
    assert str(path) in raised.value.message
    assert problem in raised.value.message


def _analyst(request: Request) -> WireReply:
    """Delegates everything to the analyst."""
    if not request.tools:
        return Say("OK")
    return Say("The analyst does it.") if request.results else Call(
        "inbox-delegate", {"agent": "analyst", "task": "It."}
    )  # fmt: skip


async def _evaluated(
    monkeypatch: pytest.MonkeyPatch, folder: Path, model: Callable[[Request], WireReply] = _analyst, **options: Any
) -> tuple[int, list[Request]]:
    """Runs the command against a provider."""
    async with openai_server(model) as server:
        monkeypatch.chdir(folder)
        given = {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.base_url}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        with own_log():
            code = await asyncio.to_thread(eval_lead, **options)  # it has a loop of its own
    return code, server.requests


async def test_the_command_evaluates_the_real_prompt_and_tools_and_judges_by_the_threshold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = "agents: {builtin: {boss: {kind: assistant, tools: [swarm], instructions: Prefer the analyst.}}}"
    (tmp_path / "swarm.yaml").write_text(yaml)
    code, requests = await _evaluated(monkeypatch, tmp_path, category=["one worker"], as_json=True, at_least=90)
    whole = json.loads(capsys.readouterr().out)
    assert code == 1
    assert whole["score"]["routing"] == 100
    assert whole["score"]["delegation"] == pytest.approx(100 * 3 / 8)
    assert {one["got"] for one in whole["threads"]} == {"delegate", "wrong worker"}
    asked = requests[-1]
    assert "You are the lead of a small team" in asked.system
    assert "Prefer the analyst." in asked.system
    assert {"list-agents", "inbox-delegate", "create-task", "slack-read-thread", "send-message"} <= set(asked.tools)
    code, _ = await _evaluated(monkeypatch, tmp_path, category=["one worker"], at_least=30)
    table, beside = capsys.readouterr()
    assert beside.splitlines()[0] == "asking openai:gpt-5-mini: 8 examples"
    assert code == 0
    assert "one worker 3: “Please write a release note" in table
    assert "analyst instead of writer" in table
    assert "3 of 8 right (37.5 %), 100.0 % routed, 37.5 % of the delegations" in table


async def test_a_model_that_fails_in_every_thread_fails_the_command_and_no_file_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWARM_DATABASE_URL", f"sqlite:///{tmp_path}/swarm.db")
    threads = tmp_path / "own.yaml"
    threads.write_text("team: {a: {}}\nthreads: {x: [{say: hi, expect: answer}, {say: ho, expect: ask}]}")
    code, _ = await _evaluated(
        monkeypatch, tmp_path, lambda request: Fails(400) if request.tools else Say("OK"), threads=threads
    )
    shown = capsys.readouterr().out
    assert code == 1
    assert "0 of 2 right (0.0 %), 0.0 % routed, " in shown
    assert list(tmp_path.iterdir()) == [threads]


@pytest.mark.parametrize("command", [eval_lead, eval_router])
async def test_a_model_that_cannot_be_reached_ends_the_command_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: Callable[[], int]
) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    for name, value in {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": nowhere}.items():
        monkeypatch.setenv(name, value)
    with own_log(), pytest.raises(ConfigurationError, match="The model openai:gpt-5-mini cannot be reached") as raised:
        await asyncio.to_thread(command)
    assert "OPENAI_BASE_URL" in (raised.value.hint or "")
    assert capsys.readouterr() == ("", "")


async def test_an_agent_that_does_not_lead_is_no_subject(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'bob' is no built-in lead"):
        await _evaluated(monkeypatch, tmp_path, agent="bob")


@pytest.mark.req("RUN-10")
async def test_a_coding_cli_is_evaluated_in_the_same_threads_by_its_real_door(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKER", "ada")
    file = tmp_path / "own.yaml"
    file.write_text(
        "team: {ada: {}, bob: {}, eve: {status: offline}}\n"
        "threads:\n"
        "  one: [{say: COUNT it, delegate: ada}, {say: COUNT that, delegate: bob}]\n"
        "  two: [{say: by TOOL, expect: answer}, {say: it, before: [{user: hi}, {assistant: hello}], expect: ask}]\n"
    )
    lead: dict[str, Any] = {"provider": fake("leads"), "env": ["WORKER"], "threads": file, "as_json": True}
    with own_log():
        assert await asyncio.to_thread(eval_lead, **lead, at_least=75) == 0
        found = json.loads(capsys.readouterr().out)["threads"]
        assert [(one["got"], one["workers"]) for one in found] == [
            ("delegate", ["ada"]), ("wrong worker", ["ada"]), ("answer", []), ("ask", [])
        ]  # fmt: skip
        assert [one["text"] for one in found] == [*["I have passed it on."] * 2, "By a tool.", "Which one?"]
        monkeypatch.setenv("WORKER", "eve")
        assert await asyncio.to_thread(eval_lead, **lead, at_least=75) == 1  # its delegations are refused
        assert {one["got"] for one in json.loads(capsys.readouterr().out)["threads"][:2]} == {"error"}
        for wrong in ({"agent": "boss", "provider": "claude"}, {"env": ["WORKER"]}, {"provider": "clade"}):
            with pytest.raises(ConfigurationError):
                await asyncio.to_thread(eval_lead, **wrong)
