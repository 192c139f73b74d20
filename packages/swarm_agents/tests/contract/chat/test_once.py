"""One question: as an argument, through a pipe, in an earlier session; over the coordinator's door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import Place, Scripted
from swarm.domain.answers.events import Finished, TextDelta, TextEnded, ToolEnded, ToolStarted
from swarm.domain.model.sessions import MessageRole, SessionMessage
from tests.support.memories import memory_of
from tests.support.processes import Ended, Processes, processes_in

pytestmark = [pytest.mark.req("AGENT-10"), pytest.mark.xdist_group("processes")]


@pytest.fixture
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with processes_in(tmp_path_factory.mktemp("processes")) as processes:
        yield processes


async def test_the_answer_to_a_question_about_what_is_piped_in_is_all_that_is_printed(
    here: Place, assistant: Scripted, env: Mapping[str, str], tmp_path: Path, processes: Processes
) -> None:
    memory = await memory_of(here.world.database, "assistant")
    await memory.add_run("cli:mine", "r", [SessionMessage(role=MessageRole.USER, text="before")])
    assistant.script = lambda run_input: (
        TextDelta(text="I *look*.", message_id="1"),
        TextEnded(message_id="1"),
        ToolStarted(id="t", name="search"),
        ToolEnded(id="t"),
        TextDelta(text="It is ", message_id="2"),
        TextDelta(text="fine.", message_id="2"),
        Finished(),
    )
    ended = await processes.command(
        "chat", "--resume", "cli:mine", "is", "this", "fine?", env=env, cwd=tmp_path, piped=b"+ a\xff line\n"
    )
    assert ended == Ended(code=0, out="I *look*.\n\nIt is fine.\n", err="")
    run_input = assistant.ran[0].input
    assert run_input.conversation_id == "cli:mine"
    assert run_input.messages[0].text == "is this fine?\n\n+ a\ufffd line"


async def test_without_an_answer_the_exit_code_is_1_and_the_reason_is_told(
    here: Place, assistant: Scripted, env: Mapping[str, str], tmp_path: Path, processes: Processes
) -> None:
    assistant.script = lambda run_input: (TextDelta(text="half of", message_id="1"), RuntimeError("secret"))
    ended = await processes.command("chat", "go", env=env, cwd=tmp_path)
    assert (ended.code, ended.out) == (1, "half of\n")
    assert ended.err.startswith("swarm: ")
    assert len(ended.err.splitlines()) == 1
    assert "secret" not in ended.err
    assert "agent_" not in ended.err  # warnings are in a file
