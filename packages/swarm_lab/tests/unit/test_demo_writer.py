"""The demo's writer: what it says, and in which events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ag_ui.core import BaseEvent, ResumeEntry, RunAgentInput, UserMessage

from swarm_lab.demo import settings_file
from swarm_lab.demo.agents import streamer as writer
from swarm_lab.demo.agents.streamer import QUESTION, Writer, overview, report
from swarm_lab.demo.repository import counted, listed


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with five lines of Python, a binary, and what tools keep."""
    monkeypatch.setattr(writer, "TOOL_SECONDS", 0.0)
    monkeypatch.setattr(writer, "WORD_SECONDS", 0.0)
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / ".cache").mkdir()
    (root / "src" / "main.py").write_text("pass\n" * 5)
    (root / "README.md").write_text("hello\n")
    (root / "src" / "icon.png").write_bytes(b"\x89PNG\0\0\n\n")
    (root / ".cache" / "old.py").write_text("pass\n" * 100)
    return root


def asked(text: str, *, thread: str = "t1", **more: Any) -> RunAgentInput:
    message = UserMessage(id="1", role="user", content=text)
    return RunAgentInput(
        thread_id=thread, run_id="r1", state={}, messages=[message], tools=[], context=[], forwarded_props={}, **more
    )


async def run(who: Writer, request: RunAgentInput) -> list[BaseEvent]:
    return [event async for event in who.run(request)]


def text_of(events: list[BaseEvent]) -> str:
    return "".join(getattr(event, "delta", "") for event in events)


def kinds(events: list[BaseEvent]) -> list[str]:
    return [event.type.value for event in events]


async def test_it_tells_of_a_plan_and_two_tools_and_then_of_what_it_has_counted(root: Path) -> None:
    events = await run(Writer(str(root)), asked("swarm#writer tell me about this repository"))
    assert kinds(events)[0] == "RUN_STARTED"
    assert kinds(events)[-1] == "RUN_FINISHED"
    assert kinds(events).count("STATE_SNAPSHOT") == 4
    assert [getattr(event, "tool_call_name", None) for event in events if event.type == "TOOL_CALL_START"] == [
        "list_files",
        "count_lines",
    ]
    assert "| `.py` | 1 | 5 |" in text_of(events)
    assert "2 text files with 6 lines" in text_of(events)


@pytest.mark.parametrize("size", ["empty", "small", "large"])
def test_a_report_is_longer_than_a_message_whatever_there_is_to_tell(root: Path, size: str) -> None:
    found = [] if size == "empty" else counted(root, listed(root)) * (1 if size == "small" else 500)
    assert 12_000 < len(report("repo", found)) < 40_000
    assert "repo" in overview("repo", found)


async def test_it_fails_once_in_each_conversation(root: Path) -> None:
    who = Writer(str(root))
    assert kinds(await run(who, asked("fail")))[-1] == "RUN_ERROR"
    assert kinds(await run(who, asked("fail", thread="t2")))[-1] == "RUN_ERROR"
    assert kinds(await run(who, asked("fail")))[-1] == "RUN_FINISHED"


async def test_it_asks_and_hears_the_answer_from_a_form(root: Path) -> None:
    who = Writer(str(root))
    *_, last = await run(who, asked("ask me something"))
    (interrupt,) = last.outcome.interrupts  # type: ignore[attr-defined]
    assert interrupt.message == QUESTION
    answer = ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload={"part": "tests"})
    assert "“tests”" in text_of(await run(who, asked("", resume=[answer])))


def write(folder: Path) -> Path:
    """Writes the settings of a demo for a folder."""
    demo = settings_file.plan({"SWARM_HOME": str(folder / "home"), "SWARM_CONFIG": str(folder / "swarm.yaml")})
    settings_file.write(replace(demo, own_servers=folder / "own.json"), is_scripted=True)
    return folder / "home" / "swarm.yaml"


def test_the_settings_of_the_folder_stay_beside_the_writer(tmp_path: Path) -> None:
    own = tmp_path / "swarm.yaml"
    assert set(yaml.safe_load(write(tmp_path).read_text())["agents"]["remote"]) == {"writer"}
    own.write_text("log: {level: debug}\nagents: {default: lea, remote: {docs: {url: 'http://docs'}}}\n")
    found = yaml.safe_load(write(tmp_path).read_text())
    assert found["log"] == {"level": "debug"}
    assert found["agents"]["default"] == "lea"
    assert set(found["agents"]["remote"]) == {"docs", "writer"}


@pytest.mark.parametrize("text", ["- a list", "agents: [a]", "agents: {remote: x}", "a: [", "agents:"])
def test_settings_that_nothing_can_be_added_to_are_named(tmp_path: Path, text: str) -> None:
    own = tmp_path / "swarm.yaml"
    own.write_text(text)
    with pytest.raises(settings_file.Unusable, match=r"swarm\.yaml"):
        write(tmp_path)
