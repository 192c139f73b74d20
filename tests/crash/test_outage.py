"""An hour in which nobody hears Slack: what was said in it is served once, in order, nothing of it is forgotten.

The hour passes on the clocks of the twin and of the coordinators (``SWARM_TEST_CLOCK``). Judged by what the agent got
and by what people see in the twin.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from tests.crash.scene import inbox_message_of, lease_of
from tests.support.doors import Visitor
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import Processes, processes_in
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("OPS-08")

HTTP_SECONDS = 30
SERVED_SECONDS = 150.0
"""Slack takes fifty reactions a minute."""
READS = ("conversations.history", "conversations.replies", "conversations.list", "users.conversations")
STEP_SECONDS = 10.0
ATTEMPTS = 2 * 4
"""Slack tells of a mention in two events, and of each four times."""

RETRIES_MINUTES = 10
"""So long after an event Slack has given it up."""

DM = "@swarm"
PEOPLE = ("alice", "bob")


@dataclass
class Served:
    """What the agent was given: each message by its timestamp, with the words of its thread up to then."""

    order: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))  # by thread
    texts: dict[str, str] = field(default_factory=dict)
    contexts: dict[str, list[str]] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    def take(self, trigger: Mapping[str, Any]) -> None:
        thread = trigger["thread"]
        for inbox_message in trigger["inbox_messages"]:
            self.order[thread["channel"], thread["thread_ts"]].append(inbox_message["ts"])
            self.texts[inbox_message["ts"]] = inbox_message["text"]
            self.contexts[inbox_message["ts"]] = [message["text"] for message in trigger["thread_context"]]
            self.prompts[inbox_message["ts"]] = trigger["prompt"]

    @property
    def times(self) -> Counter[str]:
        return Counter(ts for served in self.order.values() for ts in served)


@dataclass
class Town:
    """A workspace, coordinators that share a database and a clock, and a lead that answers whatever it gets."""

    stages: list[Stage]
    clock: Path
    http: httpx2.AsyncClient
    twin: TwinClient
    served: Served = field(default_factory=Served)
    open: asyncio.Event = field(default_factory=asyncio.Event)  # the lead is at work
    ahead_seconds: float = 0.0
    token: str = ""

    async def passes(self, seconds: float) -> None:
        """Time goes by, for everybody."""
        self.ahead_seconds += seconds
        written = self.clock.with_suffix(".new")
        written.write_text(f"{self.ahead_seconds}")
        written.replace(self.clock)
        await self.twin.advance(seconds)

    async def says(self, text: str, *, user: str = "alice", channel: str = "general", **more: object) -> str:
        said = {"user": user, "channel": channel, "text": text, **more}
        return str((await self.twin.ask("POST", "messages", json=said))["ts"])

    async def edits(self, ts: str, text: str, *, user: str = "alice", channel: str = "general") -> None:
        await self.twin.ask("PATCH", "messages", json={"user": user, "channel": channel, "ts": ts, "text": text})

    async def deletes(self, ts: str, *, user: str = "alice", channel: str = "general") -> None:
        await self.twin.ask("DELETE", "messages", json={"user": user, "channel": channel, "ts": ts})

    async def serves(self, *timestamps: str) -> None:
        """Wait until these were given to the agent, and answered."""
        await wait_until(
            self._missing(timestamps), lambda missing: not missing, within_seconds=SERVED_SECONDS, what="all are served"
        )
        await wait_until(
            lambda: self.stages[0].backlog(self.http), lambda n: n == 0, within_seconds=SERVED_SECONDS, what="answered"
        )

    def _missing(self, timestamps: tuple[str, ...]) -> Any:
        async def look() -> list[str]:
            return [ts for ts in timestamps if ts not in self.served.answered]

        return look

    async def readiness(self, stage: Stage) -> Mapping[str, Any]:
        return dict((await self.http.get(f"{stage.base}/readyz")).json())

    async def figure(self, stage: Stage, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = (await stage.visitor(self.http).ask("GET", "/metrics")).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    async def caught_up(self) -> None:
        for stage in self.stages:
            await wait_until(
                lambda stage=stage: self.readiness(stage),  # type: ignore[misc]
                lambda ready: ready["ready"] and ready["gap_seconds"] == 0,
                within_seconds=SERVED_SECONDS,
                what="the gap is closed",
            )


async def _answers(town: Town, visitor: Visitor) -> None:
    """The lead: it takes what there is, as long as somebody is there to be asked."""
    while await town.open.wait():
        with contextlib.suppress(httpx2.HTTPError, MCPError, ExceptionGroup, AssertionError):  # it is down
            for trigger in await visitor.poll(wait_seconds=1, limit=1):
                town.served.take(trigger)
                words = " + ".join(inbox_message["text"] for inbox_message in trigger["inbox_messages"])
                await visitor.uses(
                    "slack-reply", lease_of(trigger), inbox_message_id=inbox_message_of(trigger), message=f"re: {words}"
                )
                town.served.answered |= {inbox_message["ts"] for inbox_message in trigger["inbox_messages"]}
                continue
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def town(processes: Processes, *stages: Stage, rates: bool = False) -> AsyncIterator[Town]:
    clock = processes.folder / "ahead"
    clock.write_text("0")
    for number, stage in enumerate(stages):
        stage.twin_port = stages[0].twin_port
        stage.settings |= {"SWARM_TEST_CLOCK": str(clock), "SWARM_HOME": str(processes.folder / f"home-{number}")}
        stage.settings["SWARM_SLACK_PACE"] = "on" if rates else "off"
    await stages[0].start_twin(rates=rates)
    for stage in stages:
        await stage.start_coordinator()
    async with http_client(timeout=HTTP_SECONDS) as http:
        there = Town(list(stages), clock, http, stages[0].person(http))
        there.open.set()
        there.token = await stages[0].register(http, "lea")
        agents = [asyncio.create_task(_answers(there, stage.visitor(http, there.token))) for stage in stages]
        try:
            yield there
        finally:
            for agent in agents:
                agent.cancel()
            await asyncio.gather(*agents, return_exceptions=True)


@dataclass
class Hour:
    """What people do in an hour, around threads and a direct message that there were before."""

    town: Town
    threads: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> channel, root
    wanted: list[str] = field(default_factory=list)  # what is to be served, by timestamp
    unwanted: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # how it is to read

    async def before(self) -> None:
        for name, channel in {"one": "general", "two": "random", "three": "general"}.items():
            self.threads[name] = channel, await self.town.says(f"@swarm {name}", channel=channel)
        self.threads["dm"] = DM, await self.town.says("hello", channel=DM)
        self.quiet = await self.town.says("the build is red", user="bob", channel="random")
        await self.town.serves(*(root for _, root in self.threads.values()))
        _, three = self.threads["three"]
        self.kept = await self.town.says("I have two cats", thread_ts=three)
        await self.town.serves(self.kept)
        self.gone = await self.town.says("my PIN is 1234", thread_ts=three)
        await self.town.serves(self.gone)

    async def passes(self, minutes: int) -> None:
        """Fifteen mentions and direct messages, twelve follow-ups, and more, evenly over so many minutes."""
        town, pause = self.town, (minutes - RETRIES_MINUTES) * 60 / 30
        for number in range(6):
            for channel in ("general", "random"):
                await self._wanted(f"@swarm question {number}", channel=channel, user=PEOPLE[number % 2])
                await town.passes(pause)
            for name, (channel, root) in self.threads.items():
                if number % 2 or name == "dm":
                    await self._wanted(f"and {name} {number}", channel=channel, thread_ts=root)
                    await town.passes(pause)
        self.late = await self._wanted("psst", channel=DM)
        self.asked = await self._wanted("@swarm who am I?", user="bob")
        self.asked_on = await self._wanted("I mean it", user="bob", thread_ts=self.asked)
        self.unwanted.append(await town.says("since noon", user="bob", channel="random", thread_ts=self.quiet))
        self.why = await self._wanted("@swarm why?", channel="random", thread_ts=self.quiet)
        self.please = await self._wanted("please", channel="random", thread_ts=self.quiet)
        self.unwanted.append(await town.says("nobody's business", channel="random"))
        await self._changes(pause)

    async def _changes(self, pause: float) -> None:
        town, (_, three) = self.town, self.threads["three"]
        typo = await self._wanted("@swarm helo")
        oops = await town.says("@swarm oops")
        both = await town.says("@swarm one thing")
        called = await town.says("so is the deploy", channel="random")
        shown = await self._wanted("for all to see", thread_ts=three, broadcast=True)
        listed = await self._wanted("my list", thread_ts=three, files=[{"name": "list.txt", "content": "milk"}])
        await town.passes(pause)
        await town.edits(typo, "@swarm hello")
        self.texts[typo] = "@swarm hello"
        await town.deletes(oops)
        for text in ("@swarm another thing", "@swarm a third thing"):
            await town.edits(both, text)
        await town.deletes(both)
        await town.edits(called, "@swarm so is the deploy", channel="random")
        self.wanted.append(called)
        await town.edits(self.kept, "I have three cats")
        await town.deletes(self.gone)
        self.unwanted += [oops, both]
        self.broadcast, self.listed = shown, listed
        for _ in range(RETRIES_MINUTES * 6):  # one repetition is planned when the one before has failed
            await town.passes(10)

    async def _wanted(self, text: str, **more: Any) -> str:
        ts = await self.town.says(text, **more)
        self.wanted.append(ts)
        self.texts[ts] = text
        return ts

    async def was_served(self) -> None:
        """Everything once, in order within each thread, and the threads whole."""
        served = self.town.served
        await self.town.serves(*self.wanted)
        await self.town.caught_up()
        assert {ts: n for ts, n in served.times.items() if n > 1} == {}
        assert [ts for ts in self.unwanted if ts in served.texts] == []
        for ts, text in self.texts.items():
            assert text.removeprefix("@swarm ") in served.texts[ts], (text, served.texts[ts])
        assert [order for order in served.order.values() if order != sorted(order)] == []
        assert {"the build is red", "since noon"} <= set(served.contexts[self.why])
        assert any("I mean it" in text for text in served.contexts[self.asked_on])
        for channel, root in self.threads.values():
            last = [ts for ts in self.wanted if ts in served.order[await self._channel(channel, root), root]][-1]
            said = [text for text in self.texts.values() if text.startswith("and ")]
            assert said
            assert last

    async def _channel(self, channel: str, root: str) -> str:
        (found,) = {place for place, ts in self.town.served.order if ts == root}
        return found

    async def is_remembered(self) -> None:
        """A follow-up after the outage is answered by somebody who knows what was said in it."""
        channel, root = self.threads["three"]
        after = await self.town.says("and now?", channel=channel, thread_ts=root)
        await self.town.serves(after)
        context = self.town.served.contexts[after]
        said = ["@swarm three", "I have three cats", "and three 1", "and three 3", "and three 5", "for all to see"]
        assert [text for text in said if not any(text.split("swarm ")[-1] in line for line in context)] == []
        assert not any("1234" in line for line in context)
        assert "1234" not in self.town.served.prompts[after]
        assert self.town.served.times[after] == 1


@contextlib.asynccontextmanager
async def town_on_sqlite(folder: Path, migrated: Path) -> AsyncIterator[Town]:
    """A town with one coordinator."""
    with processes_in(folder) as processes:
        stage = Stage(processes)
        home = folder / "home-0"
        home.mkdir(mode=0o700)
        shutil.copyfile(migrated, home / "swarm.db")
        async with town(processes, stage) as there:
            yield there


@pytest.mark.long
async def test_what_was_said_in_an_hour_without_a_coordinator_is_served_once_and_in_order(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    async with town_on_sqlite(tmp_path, migrated_sqlite) as there:
        hour = Hour(there)
        await hour.before()
        there.stages[0].kill_coordinator()
        await hour.passes(minutes=60)
        await there.stages[0].start_coordinator()
        await hour.was_served()
        await hour.is_remembered()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("deaf", [False, True], ids=["both down", "one down and one deaf"])
async def test_the_same_with_two_coordinators_on_postgresql(
    tmp_path: Path, postgres_server_url: str, migrated_postgres: str, deaf: bool
) -> None:
    with fresh_database(postgres_server_url, migrated_postgres) as url, processes_in(tmp_path) as processes:
        stages = [Stage(processes), Stage(processes)]
        for stage in stages:
            stage.use_postgres(url)
        async with town(processes, *stages, rates=True) as there:
            hour = Hour(there)
            await hour.before()
            first, second = stages
            first.kill_coordinator()
            there.open.clear()  # what goes on takes seconds, and must not seem to have taken minutes
            if deaf:
                await there.twin.fault("http_429", method="conversations.history", seconds=3600, times=1)
                await there.twin.fault("silent_socket")
            else:
                second.kill_coordinator()
            await hour.passes(minutes=60)
            if not deaf:
                await _killed_while_it_catches_up(there, first)
            for stage in stages if not deaf else [first]:
                await stage.start_coordinator()
            await there.passes(20 * 60)  # the look that Slack refused, when it was due, may be repeated by now
            there.open.set()
            await hour.was_served()
            await hour.is_remembered()


async def _killed_while_it_catches_up(there: Town, stage: Stage) -> None:
    """It dies with a part of what was missed; nobody has begun to work on that."""
    there.open.clear()
    await asyncio.sleep(1)  # polls that wait are over
    await stage.start_coordinator()
    await wait_until(lambda: stage.backlog(there.http), lambda n: n >= 3, what="it catches up")
    stage.kill_coordinator()
    assert "caught_up" not in stage.coordinator.output


@pytest.mark.long
@pytest.mark.parametrize("retry_after", [None, 10], ids=["at once", "after a 429"])
async def test_a_silent_socket_is_found_within_90_s_though_nobody_else_writes(
    tmp_path: Path, migrated_sqlite: Path, retry_after: int | None
) -> None:
    async with town_on_sqlite(tmp_path, migrated_sqlite) as there:
        (stage,) = there.stages
        root = await there.says("@swarm hello")
        await there.serves(root)
        await there.twin.fault("silent_socket")
        if retry_after:
            await there.twin.fault("http_429", method="conversations.history", seconds=retry_after, times=1)
        missed = await there.says("are you there?", thread_ts=root)
        began = there.ahead_seconds
        while missed not in there.served.answered and there.ahead_seconds - began < 200:
            await there.passes(2)
            await asyncio.sleep(0.2)
        assert there.ahead_seconds - began <= 90
        assert there.served.times[missed] == 1
        await there.caught_up()
        assert await there.figure(stage, "swarm_slack_deaf_total") == 1
        assert await there.figure(stage, "swarm_slack_missed_total") == 1
        assert "slack_deaf" in stage.coordinator.output


@pytest.mark.long
async def test_a_quiet_hour_costs_no_more_than_one_read_a_minute(tmp_path: Path, migrated_sqlite: Path) -> None:
    async with town_on_sqlite(tmp_path, migrated_sqlite) as there:
        (stage,) = there.stages
        await there.serves(await there.says("@swarm hello"))
        await there.caught_up()
        since = await there.twin.now()
        for _ in range(360):
            await there.passes(STEP_SECONDS)
            await asyncio.sleep(0.1)
        reads = [call for call in await there.twin.calls(since=since) if call["method"] in READS]
        assert 45 <= len(reads) <= 61, len(reads)
        moments = [call["at"] for call in reads]
        assert min(later - earlier for earlier, later in itertools.pairwise(moments)) >= 60 - STEP_SECONDS
        assert await there.figure(stage, "swarm_slack_deaf_total") == 0


@pytest.mark.long
async def test_what_could_not_be_stored_for_longer_than_slack_repeats_it_is_served_afterwards(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    async with town_on_sqlite(tmp_path, migrated_sqlite) as there:
        await there.serves(await there.says("@swarm hello"))
        with contextlib.closing(sqlite3.connect(tmp_path / "home-0" / "swarm.db", isolation_level=None)) as locker:
            locker.execute("BEGIN IMMEDIATE")
            missed = await there.says("@swarm are you there?")
            while len(await there.twin.attempts(missed)) < ATTEMPTS:
                await there.passes(20)
                await asyncio.sleep(0.1)
            await there.passes(4)
            await wait_until(
                lambda: there.readiness(there.stages[0]), lambda ready: not ready["ready"], what="/readyz tells it"
            )
            locker.execute("ROLLBACK")
        await there.serves(missed)
        assert await there.twin.told(missed) == {}
        assert there.served.times[missed] == 1
