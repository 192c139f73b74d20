"""Busy minutes in real time, as processes, under the twin's own limits: every answered message has its ✅ in the end.

The gate has the same against a clock that a test moves, in `tests/contract/slack/test_busy_minutes.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swarm.domain.model.deliveries import END_MARK_SECONDS
from swarm_lab.bench.agents import question
from tests.crash.conftest import HTTP_SECONDS, LEAD
from tests.crash.scene import Scene, answering
from tests.support.http import client as http_client
from tests.support.processes import processes_in
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED

PEOPLE = ("alice", "bob", "carol")


@pytest.fixture
async def busy(tmp_path: Path, migrated_sqlite: Path) -> AsyncIterator[Scene]:
    """A twin that keeps Slack's limits, and a coordinator that knows them."""
    with processes_in(tmp_path) as processes:
        stage = Stage(processes)
        stage.use_sqlite(migrated_sqlite)
        async with http_client(timeout=HTTP_SECONDS) as http:
            await stage.start_twin(rates=True)
            await stage.start_coordinator()
            token = await stage.register(http, LEAD)
            yield Scene(stage=stage, http=http, twin=stage.person(http), lea=stage.visitor(http, token))
            stage.processes.show_logs()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.req("LOOP-14", "OPS-10")
async def test_every_answered_message_of_busy_minutes_has_its_check_mark(busy: Scene) -> None:
    """40 messages a minute for five minutes, then 50 in six seconds: Slack has calls for ✅ of each, not for 👀 too."""
    async with answering(busy):
        roots = await _says(busy, 200, every_seconds=1.5)
        await _all_marked(busy, roots)
        roots += await _says(busy, 50, every_seconds=0.12)
        await _all_marked(busy, roots)
    calls = await busy.twin.calls("reactions.add")
    assert Counter(call["error"] for call in calls if not call["ok"]) == Counter(), "within Slack's limits"
    given = Counter((call["args"]["timestamp"], call["args"]["name"]) for call in calls)
    assert set(given.values()) == {1}, "none is given twice"


async def _says(busy: Scene, count: int, *, every_seconds: float) -> list[str]:
    """Say so much at this pace, whatever a call takes."""
    loop = asyncio.get_running_loop()
    began, roots = loop.time(), list[str]()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number * every_seconds - loop.time()))
        roots.append(
            await busy.twin.say(f"@swarm {question(number, delegate=False)}", user=PEOPLE[number % len(PEOPLE)])
        )
    return roots


async def _all_marked(busy: Scene, roots: list[str]) -> None:
    """Wait until each has an answer and its ✅; looking costs the twin something, so not all the time."""
    without = roots
    async with asyncio.timeout(END_MARK_SECONDS):
        while without:
            await asyncio.sleep(1)
            seen = await busy.twin.messages()
            answered = {message["thread_ts"] for message in seen if message["kind"] == "bot"}
            marked = {message["ts"] for message in seen for mark in message["reactions"] if mark["name"] == ANSWERED}
            without = [ts for ts in roots if ts not in answered or ts not in marked]
