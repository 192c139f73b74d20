"""A socket that falls silent, with slack_sdk and Bolt against the twin: it is replaced, what it missed is served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from swarm.domain.model.agents import Role
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import NO_GROUPS
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.services.intake import event_watchdog as hearing_module
from swarm.services.intake.backfill import Backfill
from swarm.services.intake.catch_up import CatchUp
from swarm.services.intake.event_watchdog import EventWatchdog
from swarm.services.intake.ingest import Ingest
from swarm.services.speaking.participants import Rosters, Standings
from swarm.services.use_cases import Services
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.names import Names
from swarm.store.bridge.database import Database
from tests.contract.slack.test_door import eventually
from tests.contract.slack.workspace import Workspace

pytestmark = pytest.mark.req("OPS-08")


@asynccontextmanager
async def coordinator(
    gateway: Gateway, workspace: Workspace, database: Database, *, http: bool = False
) -> AsyncIterator[Services]:
    """What takes Slack's events in, and what reads those that were missed, with a minute's silence in a moment."""
    me, operating_policy, names = await gateway.identify(), OperatingPolicy(), Names(gateway)
    standings = Standings(database, names, me, operating_policy)
    ingest = Ingest(
        database, Rosters(database, operating_policy, kept_seconds=0), me, operating_policy, standings, NO_GROUPS
    )
    hearing = EventWatchdog(database, gateway, me, silence_seconds=0.3)
    door = SlackEntryPoint(
        gateway,
        ingest.handle,
        hearing=hearing,
        backoff_seconds=0.01,
        app_token=None if http else workspace.app.app_token,
        signing_secret=workspace.app.signing_secret,
    )
    await door.start()
    works = [hearing.run(door), CatchUp(database, gateway, me, ingest.handle).run()]
    works.append(Backfill(database, gateway, me, operating_policy, standings, ingest.handle).run())
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield Services.over(database, names, me, operating_policy, gateway.files)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await door.close()
        await names.close()


@pytest.fixture(autouse=True)
def in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"TICK_SECONDS": 0.05, "NOTE_SECONDS": 0.1, "LATE_SECONDS": 0.1}.items():
        monkeypatch.setattr(hearing_module, name, seconds)


async def test_a_silent_socket_is_replaced_and_what_it_missed_is_served_once(
    gateway: Gateway, workspace: Workspace, sqlite_url: str
) -> None:
    async with Database(sqlite_url) as database, coordinator(gateway, workspace, database) as services:
        lead = (await services.agents.register("lead", Role.LEAD)).agent

        async def new_texts() -> list[str]:
            triggers = await services.polls.poll(lead, wait_seconds=1, limit=20)
            await services.work.finish(lead, [one.lease_token for one in triggers], FinishOutcome.DISMISSED, "read")
            return [message.text for trigger in triggers for message in trigger.inbox_messages]

        root = await workspace.say("@swarm hello")
        assert await eventually(new_texts) == ["@swarm hello"]
        await workspace.fault("silent_socket")
        follow_up = await workspace.say("are you still there?", thread_ts=root)
        typo = await workspace.say("@swarm helo", user="bob")
        oops = await workspace.say("@swarm oops", user="bob")
        await workspace.say("good morning", channel="@swarm")
        await workspace.edit(typo, "@swarm hello", user="bob")
        await workspace.delete(oops, user="bob")
        got: list[str] = []
        while len(got) < 3:
            got += await eventually(new_texts)
        assert sorted(got) == ["@swarm hello", "are you still there?", "good morning"]
        await workspace.say("and now?", thread_ts=root)  # the new connection hears
        assert await eventually(new_texts) == ["and now?"]
        assert follow_up


async def test_what_a_proxy_keeps_from_us_is_found_and_served_over_http_too(
    gateway: Gateway, workspace: Workspace, sqlite_url: str
) -> None:
    async with (
        Database(sqlite_url) as database,
        coordinator(gateway, workspace, database, http=True) as services,
    ):
        lead = (await services.agents.register("lead", Role.LEAD)).agent
        clock = workspace.twin.clock
        clock.advance(max(0.0, time.time() - clock.now()))  # it is after the start by Slack's clock as well
        await workspace.say("@swarm hello")  # and nobody tells us of it
        (trigger,) = await eventually(lambda: services.polls.poll(lead, wait_seconds=1, limit=20))
        assert [message.text for message in trigger.inbox_messages] == ["@swarm hello"]
