"""A storm: much at once, in disorder, while the coordinator is killed again and again: one answer for every message."""

from __future__ import annotations

import asyncio
import random

import pytest

from swarm_lab.bench.storm import Asked
from tests.crash.scene import Scene, answering, ask, both_engines, until_answered, verdict
from tests.support.waiting import wait_until

THREADS, MESSAGES_EACH, CHANNELS, KILLS = 20, 3, ("general", "random"), 3
SEED = 20_261_121


@both_engines
@pytest.mark.long
@pytest.mark.req("LOOP-01", "LOOP-04", "LOOP-06", "LOOP-08", "LOOP-12", "OPS-10")
async def test_in_a_storm_every_message_is_answered_exactly_once(scene: Scene) -> None:
    chance, twin = random.Random(SEED), scene.twin
    async with answering(scene):
        talking = asyncio.create_task(_talk(scene, chance))
        for _ in range(KILLS):
            await _some_more_posts(scene, chance.randint(2, 6))
            await scene.stage.restart_coordinator()
            await twin.redeliver()
        asked = await talking
        await twin.redeliver()
        await until_answered(twin, asked, within_seconds=60)
    await wait_until(lambda: _posts_to_come(scene), lambda count: count == 0, what="nothing more is to be said")
    wrong = await verdict(twin, asked)
    assert wrong.keys() <= {"answered messages without exactly one ✅"}  # Slack allows fifty reactions a minute


async def _talk(scene: Scene, chance: random.Random) -> list[Asked]:
    """Say everything, some of it told twice and out of order."""
    for event in ("app_mention", "message"):
        await scene.twin.fault("duplicate", event=event, times=10)
        await scene.twin.fault("reorder", event=event, times=10, seconds=1)
    places = [(number, CHANNELS[number % len(CHANNELS)]) for number in range(THREADS)]
    roots = [await ask(scene.twin, number, channel, None) for number, channel in places]
    rest = list(range(THREADS, THREADS * MESSAGES_EACH))
    chance.shuffle(rest)
    return roots + [await ask(scene.twin, n, roots[n % THREADS].channel, roots[n % THREADS]) for n in rest]


async def _some_more_posts(scene: Scene, count: int) -> None:
    before = len(await scene.twin.calls("chat.postMessage", ok=True))
    await wait_until(lambda: scene.twin.calls("chat.postMessage", ok=True), lambda calls: len(calls) >= before + count)


async def _posts_to_come(scene: Scene) -> int:
    operator = scene.stage.visitor(scene.http)
    open_ones = [await operator.get(f"/deliveries?status={status}") for status in ("queued", "sending", "unknown")]
    return sum(delivery["kind"] == "post" for some in open_ones for delivery in some["deliveries"])
