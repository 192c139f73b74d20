"""A plain command, played by the shell."""

from __future__ import annotations

import os

import pytest

from packages.swarm_runner.tests.doors.conftest import Desk, text_in, turn_of
from swarm_runner.doors.command import CommandDoor, Screen
from swarm_runner.port import LogLine, SessionMissing, StartFailed, TextAdded, TurnOutcome
from tests.support.every import every


def shell(script: str, *words: str) -> CommandDoor:
    """The door of a script."""
    return CommandDoor(["sh", "-c", script, *words])


@pytest.mark.parametrize(
    "door",
    [shell("cat"), shell('printf %s "$0"; cat', "{prompt}")],
    ids=["by standard input", "by an argument"],
)
async def test_each_turn_gets_the_whole_prompt(desk: Desk, door: CommandDoor) -> None:
    session = await desk.open(door)
    for prompt in ("First.", "Zweitens: ö."):
        events, ended = await turn_of(session, prompt)
        assert text_in(events) == f"You are a worker.\n\n{prompt}"
        assert ended.outcome is TurnOutcome.DONE
    assert session.id is None


async def test_a_command_may_reach_the_coordinator(desk: Desk) -> None:
    script = 'cat > /dev/null; echo "$SWARM_MCP_URL $SWARM_MCP_AUTHORIZATION $SWARM_LEASE"; pwd'
    events, _ = await turn_of(await desk.open(shell(script)))
    assert text_in(events) == f"http://127.0.0.1:9/mcp Bearer t l\n{desk.folder}\n"


@pytest.mark.req("RUN-09")
async def test_people_see_the_last_state_of_a_terminal_and_no_escape_sequences(desk: Desk) -> None:
    events, _ = await turn_of(await desk.open(shell(r"printf '10 %%\r\033[2K\033[1m100 %%\033[0m\033]0;title\a\n'")))
    assert text_in(events) == "100 %\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 3", "the command ended with exit code 3"), ("kill -9 $$", "the command was killed")],
)
async def test_a_command_that_fails(desk: Desk, script: str, reason: str) -> None:
    events, ended = await turn_of(await desk.open(shell(f"echo Half; cat > /dev/null; {script}")))
    assert (text_in(events), ended.outcome, ended.reason) == ("Half\n", TurnOutcome.FAILED, reason)


async def test_standard_error_is_logged(desk: Desk) -> None:
    # The output is open until the log has been read, as the end of the output ends the turn.
    go = desk.folder / "go"
    os.mkfifo(go)
    session = await desk.open(shell("cat > /dev/null; echo luck >&2; read _ < go"))
    events, _ = await turn_of(session, seen=lambda event: isinstance(event, LogLine) and go.write_text("\n"))
    assert [event.text for event in events if isinstance(event, LogLine)] == ["luck\n"]
    assert text_in(events) == ""


async def test_a_character_may_arrive_in_pieces_and_half_a_character_is_shown_as_such(desk: Desk) -> None:
    go = desk.folder / "go"
    os.mkfifo(go)
    session = await desk.open(shell(r"cat > /dev/null; printf '\303'; read _ < go; printf '\266\303'"))
    begun: list[object] = []

    def go_on(event: object) -> None:
        if isinstance(event, TextAdded) and not begun:
            begun.append(event)
            go.write_text("\n")

    events, _ = await turn_of(session, seen=go_on)
    assert text_in(events) == "ö\N{REPLACEMENT CHARACTER}"


async def test_a_cancelled_command_ends_and_the_next_turn_is_a_new_one(desk: Desk) -> None:
    session = await desk.open(shell("read first; read second; read third; echo $third; [ $third = Go. ] && sleep 3600"))

    async def cancel(event: object) -> None:
        if isinstance(event, TextAdded):
            await session.cancel()

    assert (await turn_of(session, "Go.\n", seen=cancel))[1].outcome is TurnOutcome.CANCELLED
    assert (await turn_of(session, "Again.\n"))[1].outcome is TurnOutcome.FAILED


async def test_what_cannot_be_opened(desk: Desk) -> None:
    with pytest.raises(SessionMissing):
        await desk.open(shell("cat"), resume="s-1")
    with pytest.raises(StartFailed, match="'no-such-command' does not exist"):
        await desk.open(CommandDoor(["no-such-command"]))
    session = await desk.open(shell("cat"), wrap=("no-such-sandbox", "--"))
    _, ended = await turn_of(session)
    assert ended.outcome is TurnOutcome.FAILED
    assert "the command cannot be started: No such file" in ended.reason


SCREENS = {
    "a\x1b[31mred\x1b[0m \x1b]8;;https://example.org\x1b\\link\x1b]8;;\x07\n": "ared link\n",
    "\x9b1mbold\x9d0;title\x9c\x1bP1$r\x1b\\\x1b(B\x1b7.\n": "bold.\n",
    "10%\r 50%\r100%\n": "100%\n",
    "Loading\r\x1b[KDone\r\n\r\nNext": "Done\n\nNext",
    "Loading\r\x1b[2K\n.": "\n.",
    "n\x08no\x07\tyes \x1b[": "no\tyes ",
    "# ä 😀 [0m ]8;;\n": "# ä 😀 [0m ]8;;\n",
    "x" * 2000 + "\x1b[1my" * 300 + "\n": "x" * 2000 + "y" * 300 + "\n",
    "".join(f"{n} of 500\r" for n in range(501)): "500 of 500",
}


@pytest.mark.req("RUN-09")
@every("size", [1, 3, 700, 100_000])
@every("number", range(len(SCREENS)))
def test_of_the_output_of_a_terminal_the_last_state_is_shown_however_it_arrives(number: int, size: int) -> None:
    text, shown = list(SCREENS.items())[number]
    screen = Screen()
    parts = [screen.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*parts, screen.feed("", is_last=True)]) == shown


@pytest.mark.req("RUN-09")
def test_a_long_line_is_shown_before_it_ends_and_a_progress_without_end_needs_little_memory() -> None:
    screen = Screen()
    assert "".join(screen.feed("word ") for _ in range(1000)).startswith("word " * 900)
    for number in range(100_000):
        assert screen.feed(f"\r{number} %") == screen.feed("")
        assert len(screen._line) < 500
