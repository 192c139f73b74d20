"""The twin's page with windows of several people and an unmodified Bolt app."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, Page, expect
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from tests.browser import browser
from tests.world import APP_TOKEN, PATIENCE_SECONDS, World, new_world

GENERAL, RANDOM = "C0GENERAL", "C00RANDOM"
ALICE, BOB, SWARM = "U000ALICE", "U00000BOB", "U000SWARM"


@dataclass
class Scene:
    """A twin, a browser, and an app whose listeners a test adds before it connects."""

    world: World
    context: BrowserContext
    app: AsyncApp
    heard: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)

    @property
    def client(self) -> AsyncWebClient:
        return self.world.client()

    async def window(self, person: str, place: str = GENERAL) -> Page:
        """Opens a window of a person at a place."""
        page = await self.context.new_page()
        await page.goto(f"{self.world.base}?as={person}#{place}")
        await page.wait_for_selector("body[data-ready]")
        return page

    async def next_heard(self) -> Any:
        """Returns the next item that a listener of the app put into `heard`."""
        return await asyncio.wait_for(self.heard.get(), PATIENCE_SECONDS)

    async def hear(self, body: dict[str, Any]) -> None:
        await self.heard.put(body)

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connects the app over Socket Mode."""
        handler = AsyncSocketModeHandler(self.app, APP_TOKEN)
        await handler.connect_async()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            await handler.close_async()  # type: ignore[no-untyped-call]


@contextlib.asynccontextmanager
async def scene(*, width: int = 1280, height: int = 800) -> AsyncIterator[Scene]:
    async with new_world() as world, browser(width=width, height=height) as context:
        yield Scene(world=world, context=context, app=AsyncApp(client=world.client(), process_before_response=True))


async def say(page: Page, text: str, box: str = "#text") -> None:
    await page.fill(box, text)
    await page.press(box, "Enter")
    await expect(page.locator(box)).to_have_value("")


async def picture(page: Page, name: str) -> None:
    """Saves a screenshot if SWARM_TEST_PICTURES names a folder."""
    if folder := os.environ.get("SWARM_TEST_PICTURES"):
        await page.screenshot(path=str(Path(folder) / f"{name}.png"), animations="disabled")


async def open_pages_are(count: int, world: World) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while world.twin.feed.open_pages != count:
            await asyncio.sleep(0.02)
