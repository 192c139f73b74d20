"""A conversation over the coordinator's door, as somebody at a terminal has it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import FOREVER, HELLO, PATIENCE_SECONDS, Place, Scripted, Step
from packages.swarm_agents.tests.contract.chat.terminal import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    ENTER,
    NEW_LINE,
    pasted,
    terminal,
)
from swarm.domain.answers.events import Failed, Finished, RunInput, TextDelta, ToolEnded, ToolStarted
from swarm.domain.model.language_models import Door
from swarm.domain.model.sessions import MessageRole, SessionMessage
from tests.support.memories import memory_of

pytestmark = [pytest.mark.req("AGENT-10"), pytest.mark.xdist_group("processes")]

SESSION = "cli:01900000-0000-7000-8000-000000000001"


@pytest.mark.req("AGENT-05")
async def test_a_conversation_streams_stops_goes_on_and_says_how_to_come_back(
    assistant: Scripted, env: Mapping[str, str], tmp_path: Path
) -> None:
    go_on = asyncio.Event()

    def script(run_input: RunInput) -> Sequence[Step]:
        match run_input.messages[0].text:
            case "look":
                begin = (TextDelta(text="First I **search**", message_id="1"), ToolStarted(id="t", name="web_search"))
                end = (ToolEnded(id="t"), TextDelta(text="Found\n\n- one\n- two", message_id="2"), Finished())
                return (*begin, go_on, *end)
            case "endless":
                return (TextDelta(text="so far so ", message_id="1"), FOREVER)
            case "fail":
                return (Failed(message="The model is overloaded right now."),)
            case _:
                return HELLO

    assistant.script = script
    async with terminal(env=env, cwd=tmp_path) as person:
        await person.asks()
        assert "assistant (the coordinator at http://127.0.0.1" in person.seen

        person.type("look" + ENTER)
        await person.says("First I search")  # Markdown, and before the end
        await person.says("⚙ web_search …")
        assert "Found" not in person.seen
        go_on.set()
        await person.says("✓ web_search")
        await person.says("• two")

        person.forget()
        person.type("endless" + ENTER)
        await person.says("so far so")
        person.type("typed " + CTRL_C + "meanwhile" + ENTER)
        await person.says("stopped")
        await asyncio.wait_for((await assistant.began(2)).over.wait(), PATIENCE_SECONDS)  # it was stopped there as well
        await person.says("Hello you")
        assert (await assistant.began(3)).input.messages[0].text == "typed meanwhile"

        person.forget()
        person.type("fail" + ENTER)
        await person.says("The model is overloaded right now.")

        person.forget()
        person.type("one" + NEW_LINE + "two" + ALT_ENTER + pasted("three\nfour") + ENTER)
        await person.says("Hello you[^❯]*❯ ")
        assert (await assistant.began(5)).input.messages[0].text == "one\ntwo\nthree\nfour"

        person.forget()
        person.type("never sent" + CTRL_C)  # on a line, which Ctrl-C clears
        person.type("/new" + ENTER)
        await person.says("A new session")
        person.type("in the new one" + ENTER)
        await person.says("Hello you[^❯]*❯ ")
        person.forget()
        person.type(CTRL_C)
        await person.says("again or Ctrl-D to leave")
        person.type(CTRL_C)
        assert await person.exit_code() == 0
        turns = [ran.input for ran in assistant.ran]
        await person.says(f"swarm chat --resume {turns[-1].conversation_id}")
    first, *others, last = [run_input.conversation_id for run_input in turns]
    assert first.startswith("cli:")
    assert set(others) == {first}
    assert last != first
    assert turns[0].origin.door is Door.CLI
    assert turns[0].client_context == {"source": "cli"}
    history = tmp_path / "home" / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+look" in history.read_text()


async def test_a_session_is_found_again_shown_and_gone_on_with(
    here: Place, assistant: Scripted, env: Mapping[str, str], tmp_path: Path
) -> None:
    memory = await memory_of(here.world.database, "assistant")
    await memory.add_run(
        SESSION,
        "r1",
        [
            SessionMessage(role=MessageRole.USER, text="What is\na lease?"),
            SessionMessage(role=MessageRole.TOOL_USE, call_id="1", tool="search"),
            SessionMessage(role=MessageRole.TOOL_RESULT, call_id="1", tool="search", text="found"),
            SessionMessage(role=MessageRole.ASSISTANT, text="A **right** to work.\x1b[2J"),
        ],
    )
    async with terminal("--resume", env=env, cwd=tmp_path) as person:
        await person.says("/help lists")
        person.type("/help" + ENTER)  # before the session is shown, and long before a line is read
        shown = await person.says("A right to work.")
        assert "✓ search" in shown
        await person.says("Alt-Enter")
        assert "assistant (" in shown  # the session's agent, and not the first one
        for command, answer in (
            ("/sessions", "What is a lease\\?"),
            ("/history", "A right to work."),
            ("/usage", "Nothing was used"),
            ("/resume 7", "no such session"),
            ("/resume 1", "A right to work."),
            ("/nonsense", "There is no command /nonsense. /help lists"),
            ("/help", "Alt-Enter"),
        ):
            person.forget()
            person.type(command + ENTER)
            await person.says(answer)
        assert assistant.ran == []
        person.type("and then?" + ENTER)
        await person.says("Hello you")
        assert assistant.ran[0].input.conversation_id == SESSION
        person.type(CTRL_D)
        assert await person.exit_code() == 0
