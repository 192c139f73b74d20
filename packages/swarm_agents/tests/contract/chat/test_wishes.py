"""What the command line means, and which sessions there are."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from swarm.__main__ import command
from swarm.config import Settings, load
from swarm.domain.model.language_models import ModelUsage
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.store.bridge.database import Database
from swarm.store.builtin import session_lists
from swarm.store.builtin.session_lists import ListedSession
from swarm_agents.cli.chat.conversation import LOG_BYTES, LOG_FILE, in_figures, in_short, quiet
from swarm_agents.cli.chat.opening import ChatArguments, new_session_id, parse_arguments
from tests.support.logs import own_log
from tests.support.memories import memory_of

pytestmark = pytest.mark.req("AGENT-10")


@pytest.mark.parametrize(
    ("arguments", "means"),
    [
        ([], ["chat"]),
        (["slack"], ["up"]),
        (["--slack"], ["up"]),
        (["slack", "manifest"], ["slack", "manifest"]),
        (["--resume"], ["chat", "--resume"]),
        (["--help"], ["--help"]),
        (["--version"], ["--version"]),
        (["up"], ["up"]),
        (["chat", "hi"], ["chat", "hi"]),
    ],
)
def test_python_m_swarm_opens_the_chat_and_with_slack_the_coordinator(arguments: list[str], means: list[str]) -> None:
    assert command(arguments) == means


def test_after_resume_the_first_word_may_be_a_session() -> None:
    id = new_session_id()
    bare = id.removeprefix("cli:")
    assert parse_arguments([], resume=False, agent=None) == ChatArguments()
    assert parse_arguments(["what", "is it?"], resume=False, agent="a") == ChatArguments(
        question="what is it?", agent="a"
    )
    assert parse_arguments(["and", "then?"], resume=True, agent=None) == ChatArguments(
        question="and then?", resume=True
    )
    assert parse_arguments([id, "and"], resume=True, agent=None) == ChatArguments(
        question="and", resume=True, session_id=id
    )
    assert parse_arguments([bare], resume=True, agent=None) == ChatArguments(resume=True, session_id=id)
    assert parse_arguments([bare], resume=False, agent=None) == ChatArguments(question=bare)


@pytest.mark.req("AGENT-05")
async def test_sessions_of_terminals_are_listed_the_last_used_first_each_with_its_first_question(
    database: Database,
) -> None:
    async def say(agent: str, session: str, *texts: str) -> None:
        messages = [SessionMessage(role=MessageRole.USER, text=text) for text in texts]
        answer = SessionMessage(role=MessageRole.ASSISTANT, text="answer")
        memory = await memory_of(database, agent)
        await memory.add_run(session, f"run {texts}", [*messages, answer])

    async def listed(agent: str | None = None, limit: int = 9) -> list[tuple[str, str, str]]:
        found = await database.read(session_lists.newest, "cli:", agent, limit)
        return [(each.agent, each.id, each.question) for each in found]

    await say("ada", "cli:1", "first", "second")
    await say("ada", "slack:C1:U1", "not in a terminal")
    await say("bob", "cli:2", "other")
    await say("bob", "cli:1", "same id")
    await say("ada", "cli:1", "again")
    await (await memory_of(database, "ada")).get_or_create_session("cli:empty")
    assert await listed() == [
        ("ada", "cli:empty", ""), ("ada", "cli:1", "first"), ("bob", "cli:1", "same id"), ("bob", "cli:2", "other"),
    ]  # fmt: skip
    assert await listed("ada", 1) == [("ada", "cli:empty", "")]
    named: list[ListedSession] = await database.read(session_lists.named, "cli:1", 9)
    assert [each.agent for each in named] == ["ada", "bob"]


def test_figures_and_questions_are_put_into_a_line() -> None:
    assert in_figures(0, ModelUsage()) == "Nothing was used yet."
    used = in_figures(2, ModelUsage(requests=3, input_tokens=10, output_tokens=5, cost_microdollars=1_500))
    assert "0.0015 US dollars" in used
    assert "not known" in in_figures(1, ModelUsage(cost_microdollars=None))
    assert in_short("one\n two\x1b[2J " + "x" * 100) == "one two[2J " + "x" * 48 + "…"


def test_warnings_go_to_a_file_that_does_not_grow_for_ever(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "home" / LOG_FILE
    settings = load({"SWARM_HOME": str(path.parent), "OPENAI_API_KEY": "sk-mine"}, folder=tmp_path, user_home=tmp_path)
    path.parent.mkdir()
    path.write_text("x" * (LOG_BYTES + 1))
    with own_log():
        _warns_quietly(settings, path, capfd)


def _warns_quietly(settings: Settings, path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with quiet(settings, verbose=False):
        structlog.get_logger("other").warning("It is odd, sk-mine.", action="odd")
        structlog.get_logger("other").info("It is not.", action="even")
    assert "odd" in path.read_text()
    assert len(path.read_text().splitlines()) == 1
    assert "sk-mine" not in path.read_text()
    assert capfd.readouterr().err == ""
    with quiet(settings, verbose=True):
        structlog.get_logger("another").info("It is not.", action="even")
    assert "even" in capfd.readouterr().err
