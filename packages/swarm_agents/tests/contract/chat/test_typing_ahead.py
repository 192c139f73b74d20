"""Keys typed while no line is read, or while something is printed above the line, at a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.output import DummyOutput

from swarm_agents.cli.chat.keys import Line, interruptible, kept_back
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.req("AGENT-10")


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """The person's end of a terminal, and the program's."""
    master, slave = os.openpty()
    yield master, slave
    os.close(slave)
    os.close(master)


def arrived(fd: int, keys: bytes) -> None:
    assert select.select([fd], [], [], PATIENCE_SECONDS)[0], f"{keys!r} did not arrive"


async def test_an_enter_typed_while_something_is_printed_above_the_line_sends_it(
    ends: tuple[int, int], tmp_path: Path
) -> None:
    person, program = ends
    with kept_back(program), open(program, closefd=False) as stdin:
        line = Line(tmp_path / "history", {}, stdin, DummyOutput())
        os.write(person, b"ahead")
        reading = asyncio.create_task(line.read())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line._session.default_buffer.text != "ahead":
                await asyncio.sleep(0)
            async with in_terminal():
                os.write(person, b"\r")
                arrived(program, b"\r")
            assert await reading == "ahead"


def test_ctrl_c_stops_an_answer_and_keeps_what_was_typed_ahead(ends: tuple[int, int]) -> None:
    person, program = ends
    with kept_back(program), interruptible(program):
        os.write(person, b"one\rtw\x03o\r")
        received = b""
        while not received.endswith(b"o\r"):
            arrived(program, b"two")
            received += os.read(program, 100)
    assert received == b"one\rtwo\r"
