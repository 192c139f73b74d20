"""web-browse with a real Chromium, which speaks the protocol that the browser at AWS speaks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from websockets.asyncio.client import connect

from swarm_agents.built_in_tools.agentcore.page import Cdp, NotOpened, PageText, read_page
from tests.support.browser import CHROMIUM, FLAGS
from tests.support.idle_time import time_passes

pytestmark = [pytest.mark.req("TOOL-04"), pytest.mark.browser]

PAGE = """<!doctype html><title>A &amp; B</title><style>.no {display: none}</style>
<p>Hello <b>world</b></p><p class=no>hidden</p><a href="/other">Other page</a><p id=late></p>
<script>
  Object.defineProperty(document, "title", {get: () => { throw new Error("no") }});
  String.prototype.slice = () => "caught";
  alert("Do you want this?");
  // With three under way a page is not quiet, however long they take; with two it may pass for quiet.
  for (const one of "abc")
    fetch("/data?" + one).then(answer => answer.text()).then(text => { late.innerText = text });
</script>"""
GOES_ON = "<script>location.replace('/page')</script>"


@contextlib.asynccontextmanager
async def site(asked_for_never: asyncio.Event) -> AsyncIterator[str]:
    async def data(_: web.Request) -> web.Response:
        await asyncio.sleep(0.05)  # later than the page has loaded
        return web.Response(text="fetched \N{GRINNING FACE}")

    async def never(_: web.Request) -> web.Response:
        asked_for_never.set()
        await asyncio.Event().wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/page", _html(PAGE))
    app.router.add_get("/on", _html(GOES_ON))
    app.router.add_get("/slow", _html("<p>so far</p><img src=/never>"))
    app.router.add_get("/missing", _html("<p>not here</p>", 404))
    app.router.add_get("/data", data)
    app.router.add_get("/never", never)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    assert listening._server is not None
    try:
        yield f"http://127.0.0.1:{listening._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    finally:
        await runner.cleanup()


def _html(text: str, status: int = 200) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html", status=status)

    return page


@contextlib.asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[str]:
    """The address of its automation endpoint."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"NOT TESTED IN A BROWSER: no Chromium at {CHROMIUM} (set CHROMIUM to its path)")
    process = await asyncio.create_subprocess_exec(
        *(CHROMIUM, *FLAGS, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}"),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"listening on ws" not in (line := await process.stderr.readline()):
                assert line, "Chromium ended"
        yield line.decode().split(" on ")[1].strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.communicate()


async def read(endpoint: str, url: str, *, load_seconds: float = 60, settle_seconds: float = 20) -> PageText:
    async with connect(endpoint, max_size=None, proxy=None) as socket:
        return await read_page(Cdp(socket), url, load_seconds=load_seconds, settle_seconds=settle_seconds)


@pytest.mark.long
async def test_a_real_browser_reads_pages_as_they_are_seen(tmp_path: Path) -> None:
    asked_for_never = asyncio.Event()
    async with chromium(tmp_path) as endpoint, site(asked_for_never) as address:
        page = await read(endpoint, f"{address}/page")
        assert (page.title, page.address, page.status, page.is_loaded) == ("A & B", f"{address}/page", 200, True)
        assert "Hello world" in page.text
        assert "fetched \N{GRINNING FACE}" in page.text
        assert "hidden" not in page.text
        assert page.links == (("Other page", f"{address}/other"),)

        followed = await read(endpoint, f"{address}/on")
        assert followed.address == f"{address}/page"
        assert "Hello world" in followed.text

        missing = await read(endpoint, f"{address}/missing", settle_seconds=0.1)
        assert (missing.status, missing.text) == (404, "not here")

        reading = asyncio.create_task(read(endpoint, f"{address}/slow", load_seconds=600))
        await asked_for_never.wait()
        time_passes(600)
        slow = await reading
        assert (slow.text, slow.is_loaded) == ("so far", False)

        with pytest.raises(NotOpened, match="net::ERR_"):
            await read(endpoint, "http://127.0.0.1:9/")
