"""The assistant in a terminal, with nothing scripted but the model: alone, beside a coordinator, and without model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from packages.swarm_agents.tests.contract.chat.terminal import ALT_ENTER, CTRL_C, CTRL_D, ENTER, environment, terminal
from tests.support.processes import Ended, Processes, free_port
from tests.support.providers import Fails, ProviderServer, Reply, Request, Say, Silent, openai_server
from tests.support.quick import quick
from tests.support.stage import Stage
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.req("AGENT-10")

MODULE = (sys.executable, "-m", "swarm")


def model(server: ProviderServer) -> dict[str, str]:
    return {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-mine", "OPENAI_BASE_URL": server.base_url}


def answer(request: Request) -> Reply:
    if request.last_text.startswith("count"):
        return [Say("One.\n\nTwo. "), Silent()]
    return Say(f"I know {len(request.texts)} questions: {' | '.join(request.texts)}")


@pytest.mark.long
@pytest.mark.req("AGENT-05")
async def test_an_answer_is_seen_while_it_is_made_can_be_stopped_and_is_remembered(tmp_path: Path) -> None:
    async with openai_server(answer) as server:
        env = environment(tmp_path, PORT=str(free_port()), **model(server))
        async with terminal(env=env, cwd=tmp_path) as person:
            await person.asks()
            asked_before = len(server.requests)
            person.type("count for ever" + ENTER)
            await person.says("Two.")
            person.type(CTRL_C)
            await person.says("stopped")
            await asyncio.wait_for(server.requests[asked_before].left.wait(), PATIENCE_SECONDS)
            person.forget()
            person.type("what did" + ALT_ENTER + "I ask?" + ENTER)
            await person.says("I know 2 questions: count for ever \\| what did")
            person.type("/usage" + ENTER)
            await person.says("Answers: 2")
            person.type(CTRL_D)
            await person.says("swarm chat --resume cli:")
            assert await person.exit_code() == 0
    log = (tmp_path / "home" / "chat.log").read_text()
    assert log == ""


@pytest.mark.parametrize("arguments", quick([["chat", "hi"], []]))
async def test_without_a_model_one_line_says_what_to_set(processes: Processes, arguments: list[str]) -> None:
    if arguments:
        ended = await processes.run(*MODULE, *arguments, env={"PORT": str(free_port())})
    else:
        env = environment(processes.folder, PORT=str(free_port()))
        async with terminal(env=env, cwd=processes.folder) as person:
            out = await person.says("swarm demo")
            ended = Ended(code=await person.exit_code(), out="", err=out.strip().rpartition("…")[2])
    assert ended.code == 1
    assert ended.out == ""
    assert len(ended.err.strip().splitlines()) == 1
    for word in ("LLM_MODEL", "OPENAI_API_KEY", "Ollama", "swarm demo"):
        assert word in ended.err


@pytest.mark.long
async def test_python_m_swarm_starts_the_slack_side_and_everything_else(processes: Processes) -> None:
    slack, manifest, nothing = await asyncio.gather(
        processes.run(*MODULE, "--slack", env={}),
        processes.run(*MODULE, "slack", "manifest", env={}),
        processes.run(*MODULE, env={}),
    )
    assert (slack.code, "SLACK_BOT_TOKEN" in slack.err) == (1, True)
    assert (manifest.code, "display_information" in manifest.out) == (0, True)
    assert (nothing.code, "not a terminal" in nothing.err) == (1, True)


@pytest.mark.long
@pytest.mark.req("AGENT-05", "AGENT-09")
async def test_a_session_goes_on_whether_a_coordinator_runs_or_not(processes: Processes) -> None:
    stage = Stage(processes)

    async def chat(*arguments: str, **more: str) -> str:
        ended = await processes.run(*MODULE, "chat", *arguments, env={**stage.environment, **more})
        assert (ended.code, ended.err) == (0, "")
        return ended.out

    async with openai_server(answer) as server:
        stage.settings |= model(server)
        assert await chat("first") == "I know 1 questions: first\n"
        await stage.start_twin()
        await stage.start_coordinator()
        assert await chat("--resume", "second", LLM_MODEL="") == "I know 2 questions: first | second\n"
        stage.kill_coordinator()
        assert await chat("--resume", "third") == "I know 3 questions: first | second | third\n"


@pytest.mark.long
@pytest.mark.req("AGENT-07")
async def test_a_wrong_key_ends_the_start_with_one_line(tmp_path: Path) -> None:
    async with openai_server(lambda _: Fails(401)) as server:
        env = environment(tmp_path, PORT=str(free_port()), **model(server))
        async with terminal(env=env, cwd=tmp_path) as person:
            await person.says("swarm: .*refuses the key from")
            assert await person.exit_code() == 1
            assert "❯" not in person.seen
