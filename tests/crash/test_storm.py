"""A storm: much at once, in disorder, while the coordinator is killed again and again: one answer for every message."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from tests.crash.scene import Scene, both_engines, inbox_message_of, lease_of
from tests.support.doors import Visitor
from tests.support.waiting import wait_until

THREADS, MESSAGES_EACH, CHANNELS, AGENTS, KILLS = 20, 3, ("general", "random"), 3, 3
SEED = 20_261_121


@both_engines
@pytest.mark.long
@pytest.mark.req("LOOP-01", "LOOP-04", "LOOP-06", "LOOP-08", "LOOP-12", "OPS-10")
async def test_in_a_storm_every_message_is_answered_exactly_once(scene: Scene) -> None:
    chance = random.Random(SEED)
    async with answering(scene):
        talking = asyncio.create_task(_talk(scene, chance))
        for _ in range(KILLS):
            await _some_more_posts(scene, chance.randint(2, 6))
            await scene.stage.restart_coordinator()
            await scene.twin.redeliver()
        roots = await talking
        await scene.twin.redeliver()
        asked = {f"q{thread}-{n}" for thread in range(THREADS) for n in range(MESSAGES_EACH)}
        await wait_until(lambda: _answered(scene, roots), lambda done: set(done) >= asked, within_seconds=60)
    await wait_until(lambda: _posts_to_come(scene), lambda count: count == 0, what="nothing more is to be said")
    assert await _answered(scene, roots) == Counter(asked)


async def _talk(scene: Scene, chance: random.Random) -> dict[str, str]:
    """Say everything, some of it told twice and out of order; the channel of each thread."""
    for event in ("app_mention", "message"):
        await scene.twin.fault("duplicate", event=event, times=10)
        await scene.twin.fault("reorder", event=event, times=10, seconds=1)
    roots = {}
    for thread in range(THREADS):
        channel = CHANNELS[thread % len(CHANNELS)]
        roots[await scene.twin.say(f"@swarm q{thread}-0", channel=channel)] = channel
    rest = [(thread, n) for thread in range(THREADS) for n in range(1, MESSAGES_EACH)]
    chance.shuffle(rest)
    for thread, n in rest:
        root = list(roots)[thread]
        await scene.twin.say(f"@swarm q{thread}-{n}", channel=roots[root], thread=root)
    return roots


@asynccontextmanager
async def answering(scene: Scene) -> AsyncIterator[None]:
    """Runs of the lead that poll and answer, as a team of processes with one token would, whatever becomes of it."""
    runs = [asyncio.create_task(_answer(scene.lea)) for _ in range(AGENTS)]
    try:
        yield
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


async def _answer(lea: Visitor) -> None:
    while True:
        try:
            triggers = await lea.poll(wait_seconds=1, limit=2)
        except httpx2.HTTPError:  # it has been killed just now
            await asyncio.sleep(0.05)
            continue
        for trigger in triggers:
            await _reply(lea, trigger)


async def _reply(lea: Visitor, trigger: Mapping[str, Any]) -> None:
    """Answer with the words of the questions. Again and again, as a careful agent does that got no answer itself."""
    said = " ".join(inbox_message["text"].split()[-1] for inbox_message in trigger["inbox_messages"])
    arguments = {"inbox_message_id": inbox_message_of(trigger), "message": f"answer to {said}"}
    while True:
        try:
            result = await lea.tool("slack-reply", lease_of(trigger), **arguments)
        except (httpx2.HTTPError, MCPError, ExceptionGroup):
            await asyncio.sleep(0.05)
            continue
        assert not result.is_error, result.content
        return


async def _some_more_posts(scene: Scene, count: int) -> None:
    before = len(await scene.twin.calls("chat.postMessage", ok=True))
    await wait_until(lambda: scene.twin.calls("chat.postMessage", ok=True), lambda calls: len(calls) >= before + count)


async def _answered(scene: Scene, roots: Mapping[str, str]) -> Counter[str]:
    """How often each question was answered."""
    words: Counter[str] = Counter()
    for root, channel in roots.items():
        for answer in (await scene.twin.conversation(root, channel=channel)).answers:
            words.update(answer.removeprefix("answer to ").split())
    return words


async def _posts_to_come(scene: Scene) -> int:
    """Reactions may take longer: Slack allows fifty a minute."""
    operator = scene.stage.visitor(scene.http)
    open_ones = [await operator.get(f"/deliveries?status={status}") for status in ("queued", "sending", "unknown")]
    return sum(delivery["kind"] == "post" for some in open_ones for delivery in some["deliveries"])
