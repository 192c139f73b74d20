"""A small working day, in the middle of which something is killed: what is said, who is watched, and when it is over.

The twin, the coordinator, a lead, a worker and an agent that answers live are processes. Whatever of them ends is
started again as a supervisor does it: with the same command, and without a look at what was left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import signal
import sys
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx2
import psycopg

from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from swarm_lab.bench.agents import Part, question
from swarm_lab.bench.storm import Asked, Log, Seen, judge
from swarm_lab.bench.streaming_agent import Order
from tests.crash.kill_plan import Point, Victim
from tests.crash.kill_verdict import (
    Message,
    Rows,
    attempts,
    faults_of_marks,
    faults_of_posts,
    faults_of_stream,
    is_disowned,
    is_whole,
    wants_retry,
)
from tests.support.kill_point import Kill, KillPoint, Kind
from tests.support.postgres import Server
from tests.support.processes import Process
from tests.support.stage import Stage
from tests.support.truth import Truth
from tests.support.twin_client import ANSWERED, TwinClient

POET, CLERK = "poet", "clerk"
"""They answer live; what the clerk does must not be done twice."""

LEAD, WORKER = "lea", "wim"
POEM, DEED, MORE = 350, 60, 40
"""So long are, in deltas, an answer of two or three messages, one of the clerk, and one that is asked for last."""

LEASE_SECONDS = 6
PATIENCE_SECONDS = 150.0
LOOK_SECONDS = 0.2
RETRY_SECONDS = 60
BY_ITSELF = "the coordinator ended by itself"

WITH_ALL = {"SWARM_LEASE_SECONDS": str(LEASE_SECONDS)}


@dataclass(kw_only=True)
class House:
    """What lasts from point to point: the processes, and what the agents have done so far."""

    engine: str
    stage: Stage
    rows: Rows
    kill: KillPoint  # of the coordinator
    server: Server | None = None  # the database, where it is one
    server_kill: KillPoint | None = None
    agents: dict[str, Process] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    streaming_port: int = 0
    calls: dict[tuple[Victim, Kind], int] = field(default_factory=dict)  # that a scene makes, nobody disturbing it
    start_calls: dict[Kind, int] = field(default_factory=dict)  # that a start makes
    said: int = 0  # messages have running numbers
    truth: Truth = field(default_factory=Truth)

    async def open(self, http: httpx2.AsyncClient) -> None:
        """Start everything."""
        stage = self.stage
        await stage.start_twin(rates=False)
        agent = stage.processes.start("streams", sys.executable, "-m", "swarm_lab.bench.streaming_agent", env={})
        self.streaming_port = int((await agent.says(r"^port (\d+)"))[1])
        url = f"http://127.0.0.1:{self.streaming_port}/"
        remote = f"{POET}: {{url: {url!r}, on_restart: rerun}}\n    {CLERK}: {{url: {url!r}, on_restart: ask}}"
        slack = "slack: {pace: false, stop_button_after_seconds: 0.3}"
        (stage.processes.folder / "swarm.yaml").write_text(
            f"{slack}\nagents:\n  default: {LEAD}\n  remote:\n    {remote}\n"
        )
        self.kill.disarm()
        await stage.start_coordinator()
        self.start_calls = self.kill.counts
        operator = stage.visitor(http)
        for name, role in ((LEAD, "lead"), (WORKER, "worker")):
            self.tokens[name] = (await operator.post("/agents", {"name": name, "role": role}))["token"]
            self.start_agent(name)
        await stage.until_online(http, POET, CLERK, LEAD, WORKER)

    def start_agent(self, name: str) -> None:
        workers = (WORKER,) if name == LEAD else ()
        part = Part(port=self.stage.port, token=self.tokens[name], workers=workers, hands=3)
        self.agents[name] = self.stage.processes.fork(name, "tests.crash.kill_agent", env=part.environment)


@dataclass(kw_only=True)
class Scene:
    """What is said around one point, and what becomes of it."""

    house: House
    http: httpx2.AsyncClient
    point: Point | None
    chance: random.Random
    log: Log = field(default_factory=Log)
    asked: list[Asked] = field(default_factory=list)
    orders: dict[str, Order] = field(default_factory=dict)  # by the name of the message that asks for it
    threads: dict[tuple[str, str], list[Message]] = field(default_factory=dict)
    pressed: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # Retry, by message
    ends: list[str] = field(default_factory=list)  # of processes, in order
    since: int = 0  # attempts of the twin to tell of earlier events have no higher number
    advanced_at: float = 0.0

    @property
    def stage(self) -> Stage:
        return self.house.stage

    @property
    def twin(self) -> TwinClient:
        return self.stage.person(self.http)

    # What is said

    async def play(self) -> None:
        """Say everything, let die who is to die, and wait until all is over. Raises AssertionError."""
        self.log.last_seq = await self.twin.now()
        deliveries = (await self.twin.ask("GET", "deliveries"))["deliveries"]
        self.since = deliveries[-1]["seq"] if deliveries else 0
        self._arm(self.point)
        watching = asyncio.create_task(self._watch())
        try:
            await self._talk()
            await self._until_over(watching)
            await self._look()  # once more: what is seen was looked at before what is left to do
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self.house.said += len(self.asked)

    async def _talk(self) -> None:
        """Seven messages, in an order of chance as far as they do not answer each other, within a second or two."""
        first = [
            self._ask("general", mention=True),
            self._ask("random", mention=True, delegate=True),
            self._ask("@swarm"),
            self._order("random", f"swarm#{POET}", deltas=self.chance.randint(POEM, 2 * POEM), per_second=1_000),
            self._order("general", f"swarm#{CLERK}", deltas=DEED, per_second=200),
            self._order("general", "@swarm", deltas=120, per_second=300),
        ]
        self.chance.shuffle(first)
        for step in first:
            await step
            await asyncio.sleep(self.chance.random() * 0.15)
        plain = [asked for asked in self.asked if asked.name.startswith("m") and not asked.channel.startswith("D")]
        await self._ask(plain[0].channel, mention=True, thread=plain[0])

    async def _say_more(self) -> bool:
        """Ask for another answer below the longest one once that is there; an agent is given what waits together."""
        (poem,) = [asked for asked in self.asked if (o := self.orders.get(asked.name)) and o.deltas >= POEM]
        if not self._has_end(poem) or any(order.deltas == MORE for order in self.orders.values()):
            return False
        await self._order(poem.channel, f"swarm#{POET}", deltas=MORE, per_second=400, thread=poem)
        return True

    async def _ask(
        self, channel: str, *, mention: bool = False, delegate: bool = False, thread: Asked | None = None
    ) -> None:
        number = self.house.said + len(self.asked)
        text = question(number, delegate=delegate)
        await self._say(f"m{number}", channel, f"@swarm {text}" if mention else text, thread)

    async def _order(
        self, channel: str, whom: str, *, deltas: int, per_second: float, thread: Asked | None = None
    ) -> None:
        number = self.house.said + len(self.asked)
        order = Order(stream=number, deltas=deltas, per_second=per_second)
        self.orders[f"s{number}"] = order
        await self._say(f"s{number}", channel, f"{whom} {order}", thread)

    async def _say(self, name: str, channel: str, text: str, thread: Asked | None) -> None:
        said = {"user": "alice", "channel": channel, "text": text, "thread_ts": thread.thread_ts if thread else None}
        answer = await self.twin.ask("POST", "messages", json=said)
        root = thread.thread_ts if thread else answer["ts"]
        self.asked.append(Asked(name=name, channel=answer["channel"], ts=answer["ts"], thread_ts=root))

    # Who dies

    def _arm(self, point: Point | None) -> None:
        house = self.house
        house.kill.disarm()
        if house.server_kill:
            house.server_kill.disarm()
        if point:
            number = 1 + int(point.share * house.calls[point.victim, point.kind])
            how = signal.SIGSTOP if point.victim is Victim.SERVER else signal.SIGKILL
            armed = house.server_kill if point.victim is Victim.BACKEND else house.kill
            assert armed
            armed.arm(Kill(kind=point.kind, number=number, moment=point.moment, signal=how))
            self.ends.append(f"armed: call {number}")

    @property
    def has_fired(self) -> bool:
        """Whether the point was reached."""
        return any(end.startswith("killed") for end in self.ends)

    async def _watch(self) -> None:
        """What ends is started again."""
        while True:
            await self._watch_database()
            if not self.stage.coordinator.alive:
                await self._restart()
            for name, agent in self.house.agents.items():
                if not agent.alive:
                    self.ends.append(f"{name} ended by itself")
                    await asyncio.to_thread(self.house.start_agent, name)
            await asyncio.sleep(0.01)

    async def _restart(self) -> None:
        house, fired = self.house, self.house.kill.fired
        self.ends.append("killed: the coordinator" if fired else BY_ITSELF)
        point = self.point
        if fired and point and point.victim is Victim.BOTH and house.server:
            await asyncio.to_thread(house.server.crash)
            await asyncio.to_thread(house.server.start)
        house.kill.disarm()
        if fired and point and point.again and sum(end.startswith("killed") for end in self.ends) == 1:
            calls = house.start_calls[point.again.kind]
            again = point.again
            number = 1 + int(again.share * (calls + house.calls[again.victim, again.kind] / 4))
            house.kill.arm(Kill(kind=again.kind, number=number, moment=again.moment))
            self.ends.append(f"armed once more: call {number}")
        if not fired:
            await asyncio.sleep(0.5)
        await asyncio.to_thread(self.stage.launch_coordinator)

    async def _watch_database(self) -> None:
        house, point = self.house, self.point
        if not (house.server and house.server_kill and point):
            return
        if point.victim is Victim.SERVER and house.kill.fired:
            self.ends.append("killed: the database's server")
            await asyncio.to_thread(house.server.crash)
            await asyncio.to_thread(house.server.start)
            house.kill.disarm()
            self.stage.thaw_coordinator()
        if house.server_kill.fired:
            self.ends.append("killed: a process of the database")
            house.server_kill.disarm()
            await asyncio.sleep(0.5)
            if await asyncio.to_thread(lambda: house.server and house.server.is_down):
                await asyncio.to_thread(house.server.start)

    # When it is over

    async def _until_over(self, watching: asyncio.Task[None]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not await self._is_over():
            if watching.done():
                watching.result()
            if time.monotonic() > deadline:
                raise AssertionError(f"not over within {PATIENCE_SECONDS:g} s")
            await asyncio.sleep(LOOK_SECONDS)

    async def _is_over(self) -> bool:
        """Whether everything that was said has its end, and nothing is left to do; pushes on what may be pushed."""
        if not await self._is_ready():
            return False
        await self._repeat_events()
        await self._look()
        await self._press_retry()
        if await self._say_more() or not all(self._has_end(asked) for asked in self.asked):
            return False
        with contextlib.suppress(psycopg.OperationalError):  # it recovers
            return not self.house.rows.open()
        return False

    async def _look(self) -> None:
        """See what people see, and what was called since the last look."""
        self.log.read(await self.twin.calls(since=self.log.last_seq))
        for asked in self.asked:
            if asked.ts == asked.thread_ts:
                place = {"channel": asked.channel, "thread_ts": asked.ts}
                found = (await self.twin.ask("GET", "messages", params=place))["messages"]
                self.threads[asked.channel, asked.ts] = found

    async def _is_ready(self) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            answer = await self.http.get(f"{self.stage.base}/readyz")
            return answer.status_code == httpx2.codes.OK
        return False

    def _thread(self, asked: Asked) -> list[Message]:
        return self.threads.get((asked.channel, asked.thread_ts), [])

    def _has_end(self, asked: Asked) -> bool:
        names = [
            reaction["name"]
            for message in self._thread(asked)
            if message["ts"] == asked.ts
            for reaction in message["reactions"]
        ]
        if asked.name not in self.orders:
            return "x" in names or (ANSWERED in names and self.log.answered(asked) > 0)
        shown = attempts(self._thread(asked), self.orders[asked.name])
        return ANSWERED in names and bool(shown) and is_whole(shown[-1], self.orders[asked.name])

    async def _repeat_events(self) -> None:
        """Slack repeats what was not acknowledged after a minute, and after five more; our minutes are shorter."""
        found = (await self.twin.ask("GET", "deliveries", params={"since": self.since}))["deliveries"]
        ours = {asked.ts for asked in self.asked}
        acked: dict[tuple[str, str], bool] = {}
        for attempt in found:
            if attempt["ts"] in ours and attempt["kind"] in ("message", "app_mention"):
                key = attempt["ts"], attempt["kind"]
                acked[key] = acked.get(key, False) or attempt["acked"]
        if not all(acked.values()) and time.monotonic() > self.advanced_at + 3:
            self.advanced_at = time.monotonic()
            await self.twin.advance(RETRY_SECONDS)

    async def _press_retry(self) -> None:
        """Where an agent may not be run again without being asked, somebody wants it."""
        for name, order in self.orders.items():
            (asked,) = [asked for asked in self.asked if asked.name == name]
            thread = self._thread(asked)
            shown = attempts(thread, order)
            if order.deltas != DEED or (shown and is_whole(shown[-1], order) and not is_disowned(shown[-1])):
                continue
            for message in wants_retry(thread)[-1:]:
                press = {"user": "alice", "channel": asked.channel, "ts": message["ts"], "action_id": RETRY_RUN_ACTION}
                answer = await self.twin.ask("POST", "actions", json=press)
                self.pressed[name] += bool(answer["ok"])

    @property
    def beginnings(self) -> int:
        """How many answers people saw begin that do not count."""
        return sum(
            max(0, len(attempts(self._thread(asked), self.orders[asked.name])) - 1)
            for asked in self.asked
            if asked.name in self.orders
        )

    # What is wrong

    async def faults(self) -> list[str]:
        """Everything that is not as it must be."""
        found: list[str] = []
        plain = [asked for asked in self.asked if asked.name not in self.orders]
        messages = {message["ts"]: message for thread in self.threads.values() for message in thread}
        seen = {(asked.channel, asked.ts): Seen.of(messages[asked.ts]) for asked in self.asked}
        for (channel, _), thread in self.threads.items():
            seen |= {(channel, message["ts"]): Seen.of(message) for message in thread}
        found += [
            f"{figure.what}: {figure.value:g}"
            for figure in judge(plain, self.log, seen)
            if figure.value and figure.what != "texts posted twice"
        ]
        tables = self.house.rows.tables()
        found += faults_of_posts(self.log.texts, self.threads, tables.rows["deliveries"])
        runs = (await self.http.get(f"http://127.0.0.1:{self.house.streaming_port}/sent")).json()
        for asked in self.asked:
            found += faults_of_marks(asked, messages)
            if order := self.orders.get(asked.name):
                found += faults_of_stream(self._thread(asked), order)
                begun = len(runs.get(str(order.stream), []))
                if order.deltas == DEED and begun > 1 + self.pressed[asked.name]:
                    found.append(f"{asked.name}: its agent ran {begun} times, people wanted {self.pressed[asked.name]}")
        self.house.truth = Truth()
        self.house.truth.check(tables)
        return found

    def keep_evidence(self, folder: Path, why: str) -> None:
        """Put down everything that tells what has happened."""
        folder.mkdir(parents=True, exist_ok=True)
        told = {
            "why": why,
            "point": str(self.point),
            "ends": self.ends,
            "asked": [asdict(asked) for asked in self.asked],
            "orders": {name: str(order) for name, order in self.orders.items()},
            "pressed": self.pressed,
        }
        (folder / "scene.json").write_text(json.dumps(told, indent=1))
        threads = {" ".join(where): thread for where, thread in self.threads.items()}
        (folder / "threads.json").write_text(json.dumps(threads, indent=1, ensure_ascii=False))
        with contextlib.suppress(Exception):
            tables = self.house.rows.tables()
            (folder / "open.json").write_text(json.dumps(self.house.rows.open(), indent=1, default=str))
            (folder / "history.json").write_text(json.dumps(tables.timeline, indent=1, default=str))
            (folder / "tables.json").write_text(json.dumps(tables.rows, indent=1, default=str))
        for log in self.stage.processes.folder.glob("*.log"):
            shutil.copy(log, folder)
