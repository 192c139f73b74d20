"""Several coordinators on one PostgreSQL, behind a load balancer, while the elected one is killed, stopped, suspended.

Judged by what people see in the twin and by the twin's log of calls. All three are connected to Slack, which tells each
event to one of them; a mention in a channel is two events, so two coordinators hear of the same message.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx2
import psycopg
import pytest
from mcp import MCPError

from swarm.services.ground.locks import TERM_SECONDS
from swarm.slack.outgoing.pacing import POSTS_PER_CHANNEL
from tests.crash.scene import inbox_message_of, lease_of
from tests.support.balancer import Balancer, balancing
from tests.support.doors import Visitor, error_of
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import processes_in
from tests.support.stage import Stage, stages_at
from tests.support.twin_client import ANSWERED, STORED, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("OPS-03"), pytest.mark.long, pytest.mark.timeout(300)]

COORDINATORS = 3
CHANNELS = ("general", "random")
HTTP_SECONDS = 30
PATIENCE_SECONDS = 90.0
LONG_SECONDS = 600
UNAVAILABLE = 503
JITTER = 1.0
"""Posts that left a second apart may arrive at the same moment, on a busy machine."""


@dataclass
class Team:
    """Coordinators that share a twin, a database and a balancer, and a lead whose runs know only the balancer."""

    stages: list[Stage]
    database_url: str
    balancer: Balancer
    http: httpx2.AsyncClient
    twin: TwinClient
    lea: Visitor
    since: int  # calls of earlier tests have no higher number
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)  # question -> channel and root

    def elected(self) -> Stage:
        """The one in office, as the database has it."""
        with psycopg.connect(self.database_url, autocommit=True) as database:
            row = database.execute(
                "SELECT holder FROM locks WHERE kind = 'office' AND expires_at > extract(epoch FROM now()) * 1e6"
            )
            ((holder,),) = row.fetchall()
        (found,) = [stage for stage in self.stages if f":{stage.port} " in holder]
        return found

    async def succeeds(self, predecessor: Stage, within_seconds: float) -> Stage:
        """Whoever is elected after somebody."""

        async def look() -> Stage | None:
            try:
                return self.elected()
            except ValueError:  # nobody is, at the moment
                return None

        found = await wait_until(
            look,
            lambda now: now is not None and now is not predecessor,
            within_seconds=within_seconds,
            what="somebody takes over",
        )
        assert found
        return found

    def balance(self) -> None:
        """What a health check does: connections go to those that run."""
        for stage in self.stages:
            if stage.port in self.balancer.backends and not stage.coordinator.alive:
                self.balancer.drop(stage.port)

    async def ask(self, count: int, *, channels: Sequence[str] = CHANNELS) -> None:
        """So many more questions, each in a thread of its own."""
        for number in range(len(self.asked), len(self.asked) + count):
            channel = channels[number % len(channels)]
            root = await self.twin.say(f"@swarm q{number}", channel=channel)
            self.asked[f"q{number}"] = (channel, root)

    async def answers(self) -> Counter[str]:
        """How often each question was answered."""
        found: Counter[str] = Counter()
        for channel, root in self.asked.values():
            found.update((await self.twin.conversation(root, channel=channel)).answers)
        return found

    async def everything_is_answered_once(self) -> None:
        want = Counter({f"answer to {question}": 1 for question in self.asked})
        await wait_until(self.answers, lambda seen: not want - seen, within_seconds=PATIENCE_SECONDS, what="answers")
        await wait_until(self._open_posts, lambda n: n == 0, within_seconds=PATIENCE_SECONDS, what="no post is open")
        assert await self.answers() == want
        posted = [call for call in await self.post_calls() if call["ok"]]
        assert sorted(call["args"]["text"] for call in posted) == sorted(want)

    async def post_calls(self) -> list[dict[str, Any]]:
        """The calls that posted, or tried to post, since the test began."""
        return await self.twin.calls("chat.postMessage", since=self.since)

    async def more_posts(self, count: int) -> None:
        """Wait for so many posts from now on."""
        before = len(await self.post_calls())
        await wait_until(
            self.post_calls,
            lambda calls: len(calls) >= before + count,
            within_seconds=PATIENCE_SECONDS,
            what=f"{count} more posts",
        )

    async def _open_posts(self) -> int:
        with psycopg.connect(self.database_url, autocommit=True) as database:
            found = database.execute("SELECT count(*) FROM deliveries WHERE kind = 'post' AND due_at IS NOT NULL")
            ((count,),) = found.fetchall()
        return int(count)


@dataclass
class House:
    """The processes, which last for all these tests; whoever has been killed is started again for the next one."""

    stages: list[Stage]
    database_url: str
    lea: str = ""  # the lead's token

    async def open(self, http: httpx2.AsyncClient) -> None:
        first = self.stages[0]
        if not self.lea:
            await first.start_twin(rates=True)
        for stage in self.stages:
            if not (self.lea and stage.coordinator.alive):
                stage.launch_coordinator()
        await asyncio.gather(*(stage.until_ready() for stage in self.stages))
        self.lea = self.lea or await first.register(http, "lea")
        await first.person(http).clear_faults()
        await first.visitor(http, self.lea).poll()  # from now on it counts as online


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, postgres_server_url: str, migrated_postgres: str
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("coordinators")
    with fresh_database(postgres_server_url, migrated_postgres) as url, processes_in(folder) as processes:
        yield House(stages_at(processes, COORDINATORS, url), url)


@pytest.fixture
async def team(house: House) -> AsyncIterator[Team]:
    async with (
        http_client(timeout=HTTP_SECONDS, limits=httpx2.Limits(max_keepalive_connections=0)) as http,
        balancing([stage.port for stage in house.stages]) as balancer,
    ):
        await house.open(http)
        first = house.stages[0]
        twin = first.person(http)
        lea = Visitor(base=balancer.base, token=house.lea, http=http)
        yield Team(house.stages, house.database_url, balancer, http, twin, lea, since=await twin.now())
        first.processes.show_logs()


@contextlib.asynccontextmanager
async def runs(lea: Visitor, count: int = 3) -> AsyncIterator[None]:
    """Runs of the lead that poll and answer, whatever becomes of a call."""
    tasks = [asyncio.create_task(_answer(lea)) for _ in range(count)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(how, asyncio.CancelledError) for how in ended), ended


async def _answer(lea: Visitor) -> None:
    while True:
        try:
            answer = await lea.ask("GET", "/poll?wait_seconds=2&limit=1")
        except httpx2.HTTPError:
            continue
        if answer.status_code != UNAVAILABLE:
            for trigger in answer.json()["triggers"]:
                await _reply(lea, trigger)


async def _reply(lea: Visitor, trigger: Mapping[str, Any]) -> None:
    """Answer with the last word of the question. Again and again, as a careful agent does that got no answer itself."""
    (inbox_message,) = trigger["inbox_messages"]
    arguments = {
        "inbox_message_id": inbox_message_of(trigger),
        "message": f"answer to {inbox_message['text'].split()[-1]}",
    }
    while True:
        try:
            result = await lea.tool("slack-reply", lease_of(trigger), **arguments)
        except (httpx2.HTTPError, MCPError, ExceptionGroup):
            continue
        if not result.is_error:
            return
        assert error_of(result)["code"] in ("unavailable", "outcome_unknown"), result.content


async def test_whoever_stores_a_message_the_agent_hears_of_it_at_any_door_and_the_elected_one_answers(
    team: Team,
) -> None:
    for number, stage in enumerate(team.stages):
        at_this_door = stage.visitor(team.http, team.lea.token)
        waits = asyncio.create_task(at_this_door.poll(wait_seconds=25, limit=1))
        for event in ("message", "app_mention"):
            await team.twin.fault("duplicate", event=event)  # so that everybody hears of it
        await team.ask(1, channels=["general"])
        (trigger,) = await waits
        assert trigger["inbox_messages"][0]["text"].endswith(f"q{number}")
        await _reply(at_this_door, trigger)
        _, root = team.asked[f"q{number}"]
        seen = await team.twin.until(root, lambda seen: len(seen.emoji) > 1, within_seconds=PATIENCE_SECONDS)
        assert sorted(seen.reactions) == [(STORED, ("swarm",)), (ANSWERED, ("swarm",))]
    await team.everything_is_answered_once()
    assert await team.lea.poll() == []


async def test_when_the_elected_one_is_killed_at_work_another_goes_on_within_the_lease(team: Team) -> None:
    async with runs(team.lea):
        await team.ask(12)
        await team.more_posts(4)
        killed = team.elected()
        killed.kill_coordinator()
        team.balance()
        await team.succeeds(killed, within_seconds=TERM_SECONDS + 10)
        await team.ask(4)
        await team.twin.redeliver()
        await team.everything_is_answered_once()
    await _the_pace_was_kept(team)


async def test_killed_between_a_post_and_its_mark_its_successor_does_not_post_again(team: Team) -> None:
    await team.twin.fault("delay", method="chat.postMessage", seconds=LONG_SECONDS)  # performed, but not answered
    async with runs(team.lea, 1):
        await team.ask(1)
        await wait_until(team.answers, within_seconds=PATIENCE_SECONDS)
        killed = team.elected()
        killed.kill_coordinator()
        team.balance()
        await team.succeeds(killed, within_seconds=TERM_SECONDS + 10)
        await team.everything_is_answered_once()
    assert len(await team.post_calls()) == 1


async def test_when_the_elected_one_shuts_down_another_goes_on_at_once_and_at_the_same_pace(team: Team) -> None:
    async with runs(team.lea):
        await team.ask(14, channels=["general"])
        await team.more_posts(4)
        left = team.elected()
        left.coordinator.send(signal.SIGTERM)
        await team.succeeds(left, within_seconds=TERM_SECONDS / 2)
        await left.coordinator.exit_code(within_seconds=HTTP_SECONDS)
        team.balance()
        await team.twin.redeliver()
        await team.everything_is_answered_once()
    await _the_pace_was_kept(team)


async def test_an_elected_one_that_was_suspended_for_longer_than_its_lease_doubles_nothing(team: Team) -> None:
    async with runs(team.lea):
        await team.ask(12)
        await team.more_posts(3)
        suspended = team.elected()
        suspended.freeze_coordinator()
        team.balancer.drop(suspended.port)
        successor = await team.succeeds(suspended, within_seconds=2 * TERM_SECONDS)
        await team.more_posts(2)  # it does the other's work
        suspended.thaw_coordinator()
        await suspended.coordinator.says("deposed")
        await team.ask(6)
        await team.twin.redeliver()
        await team.everything_is_answered_once()
        assert team.elected() is successor
    await _the_pace_was_kept(team)


async def _the_pace_was_kept(team: Team) -> None:
    """Slack had to refuse no post, and no channel saw more than one process alone may send."""
    calls = await team.post_calls()
    assert [call for call in calls if not call["ok"]] == []
    moments: defaultdict[str, list[float]] = defaultdict(list)
    for call in calls:
        moments[call["args"]["channel"]].append(call["at"])
    for at in moments.values():
        for first, last in itertools.combinations(range(len(at)), 2):
            allowed = POSTS_PER_CHANNEL.burst + POSTS_PER_CHANNEL.per_second * (at[last] - at[first])
            assert last - first + 1 <= allowed + JITTER, at


@pytest.mark.req("SEC-01")
@pytest.mark.parametrize("end", ["rotate", "revoke"])
async def test_a_token_that_ends_at_one_coordinator_ends_at_the_others(team: Team, end: str) -> None:
    first, second, _ = team.stages
    operator = first.visitor(team.http)
    name = f"walter-{end}"
    worker = await operator.post("/agents", {"name": name, "role": "worker"})
    waiting = [
        asyncio.create_task(stage.visitor(team.http, worker["token"]).ask("GET", "/poll?wait_seconds=30"))
        for stage in team.stages
    ]
    for stage in team.stages:
        await wait_until(
            partial(_polls_waiting, stage.visitor(team.http)), lambda n: n == 1, within_seconds=20, what="a poll waits"
        )
    path, method = (f"/agents/{name}/rotate", "POST") if end == "rotate" else (f"/agents/{name}", "DELETE")
    ended = await operator.ask(method, path)
    await team.twin.say(f"@swarm swarm#{name} are you there?")
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {401}
    assert (await second.visitor(team.http, worker["token"]).ask("GET", "/me")).status_code == 401
    if end == "rotate":
        walter = second.visitor(team.http, ended.json()["token"])
        trigger = await walter.only(wait_seconds=20)
        assert trigger["attempt"] == 1
        await _reply(walter, trigger)


async def _polls_waiting(operator: Visitor) -> float:
    figures = (await operator.ask("GET", "/metrics")).text.splitlines()
    return sum(float(line.split()[1]) for line in figures if line.startswith("swarm_polls_waiting "))
