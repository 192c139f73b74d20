"""A twin for each test, and a gateway to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from slack_twin.clock import still_clock
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from tests.contract.slack.scripted import ScriptedSlack
from tests.contract.slack.workspace import Workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    twin = build_twin(rates=False, clock=still_clock())
    async with running(twin) as url, aiohttp.ClientSession() as http:
        yield Workspace(twin, url, http)


@pytest.fixture
async def gateway(workspace: Workspace) -> AsyncIterator[Gateway]:
    gateway = workspace.gateway()
    yield gateway
    await gateway.close()


@pytest.fixture
def script() -> ScriptedSlack:
    return ScriptedSlack()


@pytest.fixture
async def scripted(script: ScriptedSlack) -> AsyncIterator[Gateway]:
    app = web.Application()
    app.router.add_route("*", "/api/{method}", script.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    gateway = Gateway("xoxb-1", base_url=f"http://{host}:{port}/api", pacing=Pacing(enforced=False))
    yield gateway
    await gateway.close()
    await runner.cleanup()
