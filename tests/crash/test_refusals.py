"""Everything that Slack may refuse about the app, at every method, while senders die: nothing is lost or doubled.

In one process, over the real gateway and the twin, with a clock that the test moves; and with real processes that are
killed. ``python -m pytest -m long tests/crash/test_refusals.py`` plays all of it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import aiohttp
import pytest
from slack_twin.clock import still_clock
from slack_twin.faults import FaultKind
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.clock import ManualClock
from swarm.domain.model.deliveries import (
    ACCESS_CODES,
    MISSING_SCOPE,
    PLACE_CODES,
    TOKEN_CODES,
    Answer,
    Delivery,
    DeliveryAccepted,
    DeliveryKind,
    Mark,
)
from swarm.domain.model.threads import ChannelType, Thread
from swarm.services.outbox.deliver import OutboxSender
from swarm.slack.outgoing.gateway import Gateway
from swarm.store import deliveries, reactions
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads
from swarm.store.threads.threads import NewThread
from tests.contract.slack.workspace import Workspace
from tests.crash.scene import Scene, both_engines
from tests.support.doors import OPERATOR_TOKEN
from tests.support.processes import until_ready
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = [pytest.mark.req("OPS-15"), pytest.mark.xdist_group("processes")]

REFUSED_SECONDS: Final = 40
STEP_SECONDS: Final = 5
TIMEOUT_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60

CODES = sorted(TOKEN_CODES | PLACE_CODES | ACCESS_CODES | {MISSING_SCOPE})
METHODS = [
    None, "chat.postMessage", "chat.update", "chat.delete", "reactions.add", "conversations.replies",
]  # fmt: skip
SOME = [("token_revoked", None), ("missing_scope", "chat.update"), ("not_in_channel", "chat.postMessage")]


class Dies(Exception):
    """The end of a process."""


class Mortal:
    """A gateway whose process dies at some calls, before them or after them."""

    def __init__(self, gateway: Gateway, deaths: list[str]) -> None:
        self._gateway = gateway
        self._deaths = deaths  # of the next calls: "before", "after", or "" for none

    def __getattr__(self, name: str) -> object:
        return getattr(self._gateway, name)

    async def deliver(self, delivery: Delivery) -> Answer:
        death = self._deaths.pop(0) if self._deaths else ""
        if death == "before":
            raise Dies
        answer = await self._gateway.deliver(delivery)
        if death == "after" and isinstance(answer, DeliveryAccepted):
            raise Dies
        if death == "after":
            self._deaths.insert(0, death)
        return answer


class Stage:
    """A thread of the twin, and what is to be sent there."""

    def __init__(self, world: World, clock: ManualClock, workspace: Workspace) -> None:
        self.world, self.clock, self.workspace = world, clock, workspace
        self.kills = self.seconds = 0

    async def begin(self) -> None:
        self.gateway = self.workspace.gateway(probe_seconds=0.05, timeout_seconds=TIMEOUT_SECONDS)
        self.root = await self.workspace.say("hello")
        await self.gateway.identify()

    def sender(self, deaths: list[str]) -> OutboxSender:
        mortal: Gateway = Mortal(self.gateway, deaths)  # type: ignore[assignment]
        return OutboxSender(self.world.database, mortal, "T0TWIN", http_timeout_seconds=TIMEOUT_SECONDS)

    async def is_over(self) -> bool:
        return not await self.world.rows("SELECT id FROM deliveries WHERE due_at IS NOT NULL")

    async def work(self, deaths: list[str]) -> None:
        """Processes that follow one another, until everything is sent."""
        while not await self.is_over():
            sender = self.sender(deaths)
            try:
                await sender.send_due()
            except Dies:
                self.kills += 1
                left = [*sender._lanes.values(), *sender._reactions.values(), *sender._choosing.values()]
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)
            self.later()

    def later(self) -> None:
        self.clock.advance(STEP_SECONDS)
        self.seconds += STEP_SECONDS


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    clock = ManualClock()
    twin = build_twin(rates=False, clock=still_clock())
    async with (
        running(twin) as url,
        aiohttp.ClientSession() as http,
        Database(database_url, clock=clock) as database,
    ):
        stage = Stage(World(database, clock), clock, Workspace(twin, url, http))
        await stage.begin()
        yield stage
        await stage.gateway.close()


def queue(tx: Transaction, root: str) -> None:
    """Two posts, one of which is changed, one that is deleted again, and the mark of an answer."""
    new = NewThread(
        channel="C0GENERAL", thread_ts=root, channel_type=ChannelType.CHANNEL, watermark_ts=root, known_whole=True
    )
    threads.open_all(tx, "T0TWIN", [new])
    thread = threads.at(tx, "T0TWIN", "C0GENERAL", root)
    assert isinstance(thread, Thread)
    one = deliveries.add(tx, DeliveryKind.POST, thread, text="one")
    deliveries.add(tx, DeliveryKind.POST, thread, text="two")
    deliveries.add(tx, DeliveryKind.UPDATE, thread, text="one, changed", updates_id=one)
    gone = deliveries.add(tx, DeliveryKind.POST, thread, text="gone")
    deliveries.add(tx, DeliveryKind.DELETE, thread, text="", updates_id=gone)
    reactions.react(tx, thread, root, "white_check_mark", Mark.END)


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("code", "method"),
    [
        pytest.param(code, method, marks=[] if (code, method) in SOME else [pytest.mark.long])
        for code, method in itertools.product(CODES, METHODS)
    ],
)
async def test_nothing_is_lost_or_doubled_whatever_is_refused(stage: Stage, code: str, method: str | None) -> None:
    faults, chance = stage.workspace.twin.faults, random.Random(f"{code} {method}")
    faults.plan(FaultKind.CUT_AFTER_ACCEPT, method="chat.postMessage")  # the first post is looked up
    await stage.world.database.write(queue, stage.root)
    deaths = chance.sample(["before", "after", "before", "after", "", "", "", ""], 8)
    if method != "conversations.replies":
        faults.clear()
    faults.plan(FaultKind.ERROR, method=method, error=code, times=1_000_000)
    working = asyncio.create_task(stage.work(deaths))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while stage.seconds < REFUSED_SECONDS and not working.done():
            if stage.gateway.refused_by:
                stage.later()
            await asyncio.sleep(0.02)
        faults.clear()
        while not working.done():
            await asyncio.sleep(0.02)
    await working
    seen = await stage.workspace.messages(stage.root)
    stays = ["gone"] if (code, method) == (MISSING_SCOPE, "chat.delete") else []  # it holds posts and updates
    assert [message["text"] for message in seen[1:]] == ["one, changed", "two", *stays]
    loses_marks = (code, method) == (MISSING_SCOPE, "reactions.add")
    assert (seen[0]["reactions"] != []) is not loses_marks
    left = await stage.world.rows("SELECT kind, error FROM deliveries WHERE status <> 'sent'")
    assert {row["kind"] for row in left} <= ({"reaction", "delete"} if code == MISSING_SCOPE else set())
    if folder := os.environ.get("SWARM_REFUSALS_LOG"):
        with open(folder, "a", encoding="utf-8") as log:
            log.write(f"{stage.world.database.dialect} {code} {method} kills={stage.kills}\n")


# Real processes


async def readiness(scene: Scene, query: str = "", token: str = OPERATOR_TOKEN) -> tuple[int, list[str]]:
    """The status of /readyz, and the codes of its troubles."""
    headers = {"Authorization": f"Bearer {token}"}
    answer = await scene.http.get(f"{scene.stage.base}/readyz{query}", headers=headers)
    return answer.status_code, [one["code"] for one in answer.json()["troubles"]]


async def answer_one(scene: Scene, text: str) -> str:
    """A message that the lead answers; its timestamp."""
    ts = await scene.twin.say(f"@swarm {text}")
    await scene.reply(await scene.trigger(ts), f"re {text}")
    return ts


async def test_answers_of_an_outage_of_the_token_are_posted_when_it_is_good_again(scene: Scene) -> None:
    await scene.answered_once(await answer_one(scene, "before"), "re before")
    await scene.twin.fault("error", error="token_revoked", times=1_000_000)
    asked = [await answer_one(scene, str(number)) for number in range(3)]
    assert await wait_until(lambda: readiness(scene), lambda seen: seen[0] == 503) == (503, ["token_revoked"])
    assert await readiness(scene, token="wrong") == (503, ["slack_token"])
    assert (await readiness(scene, "?for=traffic"))[0] == 200
    await scene.twin.clear_faults()
    for number, ts in enumerate(asked):
        await wait_until(partial(scene.twin.conversation, ts), lambda seen: bool(seen.answers), what=f"re {number}")
        assert (await scene.twin.conversation(ts)).answers == (f"re {number}",)
    await scene.settled()
    assert await readiness(scene) == (200, [])


@pytest.mark.long
@pytest.mark.timeout(3600)
@both_engines
async def test_kills_while_slack_refuses_lose_and_double_nothing(scene: Scene) -> None:
    """The fault changes with each kill; a start without a good token ends at once, so that ends before it."""
    chance = random.Random(33)
    asked: dict[str, str] = {}
    faults = [
        (code, method)
        for code in ["token_revoked", "invalid_auth", "not_in_channel", "team_access_not_granted", MISSING_SCOPE]
        for method in ["chat.postMessage", "reactions.add", "conversations.replies", None]
        if not (code == MISSING_SCOPE and method in (None, "reactions.add"))
    ]
    for number in range(int(os.environ.get("SWARM_REFUSALS_KILLS", "20"))):
        code, method = faults[number % len(faults)]
        await scene.twin.fault("error", error=code, times=1_000_000, **({"method": method} if method else {}))
        ts = await answer_one(scene, str(number))
        asked[ts] = f"re {number}"
        await asyncio.sleep(chance.random())  # the moment of the kill
        if method is None:
            await scene.twin.clear_faults()
        scene.stage.kill_coordinator()
        scene.stage.launch_coordinator()
        await until_ready(scene.stage.coordinator, f"{scene.stage.base}/readyz?for=traffic")
        if number % 4 == 3:
            await scene.twin.clear_faults()
    await scene.twin.clear_faults()
    await scene.settled(within_seconds=600)
    for ts, text in asked.items():
        seen = await scene.twin.conversation(ts)
        assert seen.answers == (text,), ts
        assert ("white_check_mark", ("swarm",)) in seen.reactions, ts
