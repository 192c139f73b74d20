"""The environment of a measurement: a new database, and real ``swarm up`` processes connected to one Slack twin.

Few settings differ from those of a new installation: one person may write any number of messages and, in some
measurements, the twin has no rate limits and the coordinator does not pace its calls.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from swarm_lab.bench import slack as slacks
from swarm_lab.bench.agents import Answer, Connection, Part
from swarm_lab.bench.figures import BenchError, Circumstances, Figure, Lag, lag_on
from swarm_lab.bench.plans import Plan, SharedPlan
from swarm_lab.bench.slack import Slack
from swarm_lab.programs import Program, free_port

UNPACED: Final = {"SWARM_SLACK_PACE": "off"}
"""The setting for a Slack without limits."""

_SETTINGS: Final = ("SWARM_", "SLACK_", "LLM_", "PORT")
_READY_SECONDS: Final = 120
_QUIET_SECONDS: Final = 30
_QUIET_SHARE: Final = 0.15
_LOOK_SECONDS: Final = 0.5
_REGISTERING: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Scratch:
    """A folder and a database for one measurement."""

    folder: Path
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a measured process, without this machine's settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        return {**kept, "SWARM_DATABASE_URL": self.url, "HOME": str(self.folder)}

    async def start(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Program:
        """Starts ``swarm`` with these arguments, with this environment in addition to ours."""
        env, log = {**self.environment, **(environment or {})}, self.folder / f"{name}.log"
        return await Program.start(name, ["swarm", *arguments], env=env, log=log, cwd=self.folder)

    def through(self, pooler: str) -> dict[str, str]:
        """Returns the setting that makes a coordinator use the pooler for this database; none without a pooler."""
        if not pooler:
            return {}
        return {"SWARM_DATABASE_POOLER_URL": urlunsplit(urlsplit(pooler)._replace(path=urlsplit(self.url).path))}


@asynccontextmanager
async def scratch(database: str) -> AsyncIterator[Scratch]:
    """Creates a database with the current schema: ``sqlite``, or a new one on the server of a PostgreSQL URL.

    Raises BenchError on failure. The database is removed afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="swarm-bench-", ignore_cleanup_errors=True) as name:
        folder, made = Path(name), f"swarm_bench_{secrets.token_hex(4)}"
        is_sqlite = database == "sqlite"
        url = (
            f"sqlite:///{folder / 'swarm.db'}"
            if is_sqlite
            else urlunsplit(urlsplit(database)._replace(path=f"/{made}"))
        )
        if not is_sqlite:
            await asyncio.to_thread(_run, database, f"CREATE DATABASE {made}")
        try:
            place = Scratch(folder=folder, url=url)
            await _migrate(place)
            yield place
        finally:
            if not is_sqlite:
                await asyncio.to_thread(_run, database, f"DROP DATABASE {made} WITH (FORCE)")


def _run(url: str, statement: str) -> int | None:
    """Runs a statement. Returns the number in its result, if it has one."""
    import psycopg

    try:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return int(row[0]) if row else None
    except psycopg.Error as error:
        raise BenchError(f"PostgreSQL cannot do '{statement}': {error}") from error


async def _migrate(place: Scratch) -> None:
    program = await place.start("migration", "db", "upgrade")
    await program.process.ended.wait()
    await program.stop()
    if program.process.code:
        raise BenchError(f"the database could not be migrated. {program.last_lines()}")


class _Coordinator:
    ready_seconds = 0.0  # from the start to the first ``/readyz`` with status 200
    ready_cpu_seconds = 0.0  # processor time until then

    def __init__(self, place: Scratch, name: str, operator_token: str, environment: Mapping[str, str]) -> None:
        """A coordinator on a free port, with this environment in addition to the database's."""
        self.port = free_port()
        self._place = place
        self._name = name
        self._operator_token = operator_token
        ours = {"SWARM_HOME": str(place.folder / name), "SWARM_OPERATOR_TOKEN": operator_token, "PORT": str(self.port)}
        ours["SWARM_MESSAGES_PER_MINUTE"] = "0"  # one person writes many messages
        self._environment = {**environment, **ours}
        self._spent_cpu_seconds = 0.0  # by killed processes

    async def start(self) -> None:
        """Starts it. Does not wait until it is ready."""
        self._program = await self._place.start(self._name, "up", environment=self._environment)
        self._started_at = time.perf_counter()

    async def restart(self) -> None:
        """Kills the process with SIGKILL and starts a new one on the same port. Returns when the new one is ready."""
        self._spent_cpu_seconds = self.cpu_seconds()
        await self._program.kill()
        await self.start()
        await self.until_ready()

    async def until_ready(self) -> None:
        """Waits for ``/readyz``. Raises Died if the process has ended."""
        while (waited := time.perf_counter() - self._started_at) < _READY_SECONDS:
            self._program.check()
            try:
                answer = await self.get("/readyz")
            except BenchError:
                answer = None  # not listening yet
            if answer and answer.status == 200:
                self.ready_seconds, self.ready_cpu_seconds = waited, self.cpu_seconds()
                return
            await asyncio.sleep(0.02)
        raise BenchError(f"the coordinator was not ready within {_READY_SECONDS} s. {self._program.last_lines()}")

    async def operator(self) -> Connection:
        """Opens a connection with the operator's token."""
        return await Connection.open(self.port, self._operator_token)

    async def get(self, path: str) -> Answer:
        """Makes one call with the operator's token."""
        operator = await self.operator()
        try:
            return await operator.call("GET", path)
        finally:
            operator.close()

    async def metrics(self) -> str:
        """Returns the metrics, in Prometheus's text format."""
        return (await self.get("/metrics")).body.decode()

    def memory_bytes(self) -> int:
        """Returns the current memory use."""
        return self._program.memory_bytes()

    def cpu_seconds(self) -> float:
        """Returns the processor time since the first start."""
        return self._spent_cpu_seconds + self._program.cpu_seconds()

    async def stop(self) -> None:
        """Ends the process with SIGTERM, then with SIGKILL."""
        await self._program.stop()


@dataclass(kw_only=True, slots=True)
class Window:
    """The costs of a timed part. They are complete at the end of the part."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0  # processor seconds of the coordinators
    others: float = 0.0  # cores used meanwhile by other programs
    deliveries_open: int | None = None  # at the end of the part

    def beside(self, found: Iterable[Figure], operations: int = 0) -> list[Figure]:
        """Returns the figures with the circumstances of the part, in which this number of ``operations`` was made."""
        circumstances = Circumstances(
            others=self.others,
            cpu_ms=1_000 * self.cpu_seconds / operations if operations else None,
            deliveries_open=self.deliveries_open,
        )
        return [replace(figure, beside=circumstances) for figure in found]


class Cluster:
    """Running coordinators. Agents are assigned to them in turn, as by a load balancer."""

    def __init__(self, members: Sequence[_Coordinator], place: Scratch, settled_at: float) -> None:
        self.members = members
        self.place = place
        self._settled_at = settled_at

    async def register(self, count: int, *, role: str = "lead", prefix: str = "agent") -> list[Part]:
        """Registers ``count`` agents, and has each poll once, so that all count as online.

        Returns the agents in order of name: ``prefix-0`` and so on.
        """
        agents: dict[int, Part] = {}
        numbers = iter(range(count))
        await asyncio.gather(*(self._register(numbers, role, prefix, agents) for _ in range(_REGISTERING)))
        return [agents[number] for number in range(count)]

    async def _register(self, numbers: Iterator[int], role: str, prefix: str, agents: dict[int, Part]) -> None:
        operator = await self.members[0].operator()
        for number in numbers:
            name = f"{prefix}-{number}"
            made = (await operator.call("POST", "/agents", {"name": name, "role": role})).json()
            port = self.members[number % len(self.members)].port
            agents[number] = Part(name=name, token=made["token"], port=port)
            connection = await Connection.open(port, made["token"])
            (await connection.call("GET", "/poll?wait_seconds=0&limit=1")).json()
            connection.close()
        operator.close()

    async def backlog(self) -> dict[str, int]:
        """Returns the open work, by kind."""
        backlog: dict[str, int] = (await self.members[0].get("/readyz")).json()["backlog"]
        return backlog

    async def lag(self) -> Lag:
        """Returns the lag of all coordinators' event loops since their start."""
        return lag_on("\n".join([await member.metrics() for member in self.members]))

    async def expired_leases(self) -> int:
        """Returns the number of leases that expired."""
        pages = [await member.metrics() for member in self.members]
        pattern = re.compile(r'^swarm_leases_ended_total\{how="expired"\} (\S+)', re.MULTILINE)
        return sum(int(float(count)) for page in pages for count in pattern.findall(page))

    async def deadlocks(self) -> int | None:
        """Returns the number of deadlocks in the database since its creation; None for SQLite, which has none."""
        if self.place.url.startswith("sqlite"):
            return None
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        return await asyncio.to_thread(_run, self.place.url, query)

    async def settled(self) -> None:
        """Waits until startup is over, and then for at most half a minute until all coordinators are idle."""
        await asyncio.sleep(max(0.0, self._settled_at - time.perf_counter()))
        for _ in range(int(_QUIET_SECONDS / _LOOK_SECONDS)):
            before = self.cpu_seconds()
            await asyncio.sleep(_LOOK_SECONDS)
            if self.cpu_seconds() - before < _QUIET_SHARE * _LOOK_SECONDS * len(self.members):
                return

    def memory_bytes(self) -> int:
        """Returns the current memory use of all coordinators."""
        return sum(member.memory_bytes() for member in self.members)

    def cpu_seconds(self) -> float:
        """Returns the processor time of all coordinators since their start."""
        return sum(member.cpu_seconds() for member in self.members)

    @asynccontextmanager
    async def window(self) -> AsyncIterator[Window]:
        """Measures the costs of the block. This process does not count as one of the other programs."""
        cpu = self.cpu_seconds()
        with other_programs(self.cpu_seconds) as window:
            yield window
        window.cpu_seconds = self.cpu_seconds() - cpu
        window.deliveries_open = (await self.backlog())["deliveries_open"]


@contextmanager
def other_programs(ours: Callable[[], float] = lambda: 0.0) -> Iterator[Window]:
    """Measures the duration of the block, and the processor time of all programs except this one and the measured ones.
    ``ours`` returns the processor seconds of the measured ones.
    """
    window, begun, before = Window(), time.perf_counter(), _busy_seconds() - ours()
    yield window
    window.seconds = time.perf_counter() - begun
    window.others = max(0.0, _busy_seconds() - ours() - before) / window.seconds


def _busy_seconds() -> float:
    """Returns the processor time used on the machine since its start, without that of this process."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    busy = sum(fields[:8]) - fields[3] - fields[4]  # without idle time and waiting for disks
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()


@asynccontextmanager
async def cluster(plan: Plan, environment: Mapping[str, str]) -> AsyncIterator[Cluster]:
    """Runs coordinators on a new database, then stops them and removes the database. ``environment`` contains Slack's
    address."""
    processes = plan.processes if isinstance(plan, SharedPlan) else 1
    if processes > 1 and plan.database == "sqlite":
        raise BenchError("several processes need a PostgreSQL: add --database postgresql://…")
    async with scratch(plan.database) as place:
        environment = {**environment, **place.through(plan.pooler if isinstance(plan, SharedPlan) else "")}
        token, members = secrets.token_urlsafe(16), list[_Coordinator]()
        try:
            for number in range(processes):
                member = _Coordinator(place, f"coordinator-{number}", token, environment)
                await member.start()
                members.append(member)
            settled_at = time.perf_counter() + plan.settle_seconds
            await asyncio.gather(*(member.until_ready() for member in members))
            yield Cluster(members, place, settled_at)
        finally:
            await asyncio.shield(asyncio.gather(*(member.stop() for member in members)))


@asynccontextmanager
async def stage(
    plan: Plan, settings: Mapping[str, str] | None = None, *, more_people: int = 0
) -> AsyncIterator[tuple[Slack, Cluster]]:
    """Runs a Slack twin without limits, and coordinators connected to it. ``settings`` are additional environment
    variables.

    The app receives each message once, without a second event ``app_mention``, so that a figure per event is also a
    figure per message. There are only eight channels, since the coordinator asks Slack for eight names at a time, and
    claims in other channels would wait for their names.
    """
    async with (
        slacks.opened(8, events=("message.channels",), more_people=more_people) as slack,
        cluster(plan, {**slack.environment, **(settings or {})}) as processes,
    ):
        await slack.connected(len(processes.members))
        yield slack, processes
