"""Ten answers grow at once by edits, under Slack's limits, and three people watch one of them in a browser."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from playwright.async_api import Page
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.domain.answers.calls import AnswerTarget, Growth
from swarm.domain.answers.events import Finished, TextDelta
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.live import LiveStage, _always, _NoRecord
from swarm.slack.outgoing.pacing import Pacing
from tests.contract.live_scene import Events
from tests.contract.slack.answers import place
from tests.contract.slack.workspace import Workspace
from tests.support.browser import browser

pytestmark = [pytest.mark.req("STREAM-15"), pytest.mark.long, pytest.mark.browser]

PEOPLE = ("alice", "bob", "carol")
ANSWERS = 10
EDIT_SECONDS = 1.5 * ANSWERS
LINES = 6
SECONDS_A_LINE = 8.0


@asynccontextmanager
async def limited() -> AsyncIterator[tuple[Workspace, Gateway]]:
    """A twin with Slack's limits, and a gateway that keeps them."""
    twin = build_twin()
    async with running(twin) as url, aiohttp.ClientSession() as http:
        workspace = Workspace(twin, url, http)
        gateway = workspace.gateway(pacing=Pacing())
        yield workspace, gateway
        await gateway.close()


async def lines() -> Events:
    for number in range(LINES):
        yield TextDelta(text=f"This is line {number}.\n\n", message_id="1")
        await asyncio.sleep(SECONDS_A_LINE)
    yield Finished()


async def watched(page: Page, seen: list[float]) -> None:
    """When each line is there."""
    for number in range(LINES):
        await page.locator("#thread", has_text=f"This is line {number}.").wait_for(timeout=120_000)
        seen.append(time.monotonic())


async def test_all_see_it_grow_within_one_edit_of_each_other_and_nothing_is_refused() -> None:
    async with limited() as (workspace, gateway), browser() as context:
        roots = [await workspace.say(f"@swarm question {number}") for number in range(ANSWERS)]
        stage = LiveStage(gateway.streams)
        pages = [await context.new_page() for _ in PEOPLE]
        for page, person in zip(pages, PEOPLE, strict=True):
            await page.goto(f"{workspace.url}?user={person}")
            await page.wait_for_selector("body[data-ready]")
            await page.locator("#log article", has_text="question 0").click()
            await page.keyboard.press("Enter")
        showing = [asyncio.create_task(shown(stage, place(root, growth=Growth.EDITS))) for root in roots]
        seen: list[list[float]] = [[] for _ in PEOPLE]
        await asyncio.gather(*(watched(page, times) for page, times in zip(pages, seen, strict=True)))
        await asyncio.gather(*showing)
        calls = await workspace.all_calls()
    assert [call["error"] for call in calls if not call["ok"]] == []
    apart = [max(moments) - min(moments) for moments in zip(*seen, strict=True)]
    sys.stdout.write(f"people see a line within {max(apart):.2f} s of each other\n")  # with -s
    assert all(seconds < EDIT_SECONDS for seconds in apart)
    grown = len({round(moment) for moment in seen[1]})
    assert grown >= 3, "bob, who did not ask, sees it grow"


@pytest.mark.parametrize("channels", [1, 10])
async def test_twenty_answers_that_begin_at_once_show_their_first_text_within_slacks_limits(channels: int) -> None:
    """How soon they do is recorded: of one channel, Slack takes a post a second after the first three."""
    async with limited() as (workspace, gateway):
        names = ["general", *(f"room{number}" for number in range(1, channels))]
        await workspace.seed(channels=[{"name": name} for name in names[1:]])
        ids = {one.name: one.id for one in workspace.twin.workspace.directory.channels.values()}
        told = [(name, await workspace.say("Hello.", channel=name)) for name in names for _ in range(20 // channels)]
        stage, began = LiveStage(gateway.streams), time.monotonic()
        showing = [asyncio.create_task(shown(stage, place(root, channel=ids[name]))) for name, root in told]
        first: dict[str, float] = {}
        while len(first) < len(told):
            for call in await workspace.all_calls():
                if call["ok"] and call["method"] in ("chat.startStream", "chat.postMessage"):
                    first.setdefault(call["args"]["thread_ts"], round(time.monotonic() - began, 2))
            await asyncio.sleep(0.05)
        for task in showing:
            task.cancel()
        await asyncio.gather(*showing, return_exceptions=True)
        assert [call["error"] for call in await workspace.all_calls() if not call["ok"]] == []
    sys.stdout.write(f"first text after {sorted(first.values())} s\n")


async def shown(stage: LiveStage, where: AnswerTarget) -> None:
    answer = stage.answer(where, mentionable=(), record=_NoRecord(), may_call=_always)
    await answer.show(lines())
