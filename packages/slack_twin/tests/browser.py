"""Debian's Chromium for tests, controlled by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, async_playwright, expect

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE_MILLISECONDS = 40_000
"""Drawing can be slow on a busy machine."""

START_MILLISECONDS = 120_000
"""Starting a browser can be even slower."""

expect.set_options(timeout=PATIENCE_MILLISECONDS)


@contextlib.asynccontextmanager
async def browser(*, width: int = 1280, height: int = 800) -> AsyncIterator[BrowserContext]:
    """Yields a browser with an empty profile. A script error fails the test; in CI, a missing browser does too."""
    if not Path(CHROMIUM).exists():
        why = f"NOT TESTED IN A BROWSER: no Chromium at {CHROMIUM} (set CHROMIUM to its path)"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    problems: list[str] = []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(FLAGS), timeout=START_MILLISECONDS
        )
        context = await chromium.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        context.on("weberror", lambda problem: problems.append(str(problem.error)))
        yield context
        await chromium.close()
    assert problems == []
