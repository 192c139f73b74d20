"""The plain driver, to which the other figures are compared: a program that writes the rows of an event, a claim and a
finish with sqlite3 (write-ahead log, FULL sync) or psycopg, one transaction after another.

*One by one* makes each step a transaction with its own commit; *grouped* makes one transaction for a step of a whole
group. The program checks nothing, wakes nobody, and no caller waits for its results.

``python -m swarm_lab.bench.loop.plain [sqlite|URL]`` runs it alone, on a new database.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from swarm.clock import new_id
from swarm.store.bridge.sqlite_driver import connect
from swarm_lab.bench.stage import other_programs, scratch

GROUP: Final = 64
_PAIRS: Final = 6_400
_TEAM: Final = "T0PLAIN"
_CHANNEL: Final = "C0PLAIN"

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """The result of one run."""

    events: float  # per second
    pairs: float  # per second; a pair is a claim and a finish
    pair_cpu_ms: float
    others: float  # cores used by other programs while pairs were measured, PostgreSQL included


Run = Callable[[int, int], Awaitable[Speed]]
"""Runs the plain driver with groups of a size, where 1 means one by one, for a number of pairs."""


class _Driver(Protocol):
    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def execute(self, statement: str, values: tuple[object, ...]) -> Any:
        """Runs a statement, in which ``?`` stands for a value. Returns the driver's cursor."""

    def analyse(self) -> None:
        """Updates the planner's statistics, as a database in use does by itself."""


class _Sqlite:
    def __init__(self, path: Path) -> None:
        self._connection = connect(path, busy_timeout_seconds=5)
        self.execute = self._connection.execute
        self.close = self._connection.close

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def analyse(self) -> None:
        """Does nothing, since SQLite collects no statistics by itself."""


class _Postgres:
    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url)
        self.commit = self._connection.commit
        self.close = self._connection.close

    def begin(self) -> None:
        """Does nothing, since psycopg begins a transaction with its first statement."""

    def execute(self, statement: str, values: tuple[object, ...]) -> Any:
        return self._connection.execute(_with_percents(statement), values)

    def analyse(self) -> None:
        self._connection.execute("ANALYZE")
        self._connection.commit()


@cache
def _with_percents(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


@contextmanager
def _connected(url: str) -> Iterator[_Driver]:
    path = url.removeprefix("sqlite:///")
    driver = _Postgres(url) if path == url else _Sqlite(Path(path))
    try:
        yield driver
    finally:
        driver.close()


@asynccontextmanager
async def plain_driver(database: str) -> AsyncIterator[Run]:
    """Creates a database for the plain driver, and removes it afterwards."""
    async with scratch(database) as place:

        async def run(group: int, pairs: int) -> Speed:
            return await asyncio.to_thread(_run, place.url, group, pairs)

        yield run


def _run(url: str, group: int, pairs: int) -> Speed:
    """Stores ``pairs`` messages for `GROUP` agents, then claims and finishes them."""
    with _connected(url) as driver:
        agents = _committed(driver, _register, range(GROUP))
        groups = list(_groups(list(itertools.islice(itertools.cycle(agents), pairs)), group))
        begun = time.perf_counter()
        for of_group in groups:
            _committed(driver, _store, of_group)
        stored = time.perf_counter() - begun
        driver.analyse()
        cpu = time.thread_time()
        with other_programs() as window:
            for of_group in groups:
                _committed(driver, _finish, _committed(driver, _claim, of_group))
            cpu = time.thread_time() - cpu
        return Speed(
            events=pairs / stored, pairs=pairs / window.seconds, pair_cpu_ms=1_000 * cpu / pairs, others=window.others
        )


def _groups(agents: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (agents[first : first + size] for first in range(0, len(agents), size))


def _committed(driver: _Driver, step: Callable[[_Driver, S], T], subjects: Sequence[S]) -> list[T]:
    """Performs the step for every subject in one transaction."""
    driver.begin()
    results = [step(driver, subject) for subject in subjects]
    driver.commit()
    return results


def _insert(table: str, columns: str, **constants: str) -> str:
    """Returns a statement with values for the columns, and constants for the others."""
    names = columns.split()
    return (
        f"INSERT INTO {table} ({', '.join([*names, *constants])}) "
        f"VALUES ({', '.join([*('?' for _ in names), *constants.values()])})"
    )


_AGENT: Final = _insert("agents", "id name created_at", role="'lead'", description="''", capabilities="'[]'")
_THREAD: Final = _insert(
    "threads", "id team channel thread_ts owner_id active_at created_at watermark_ts",
    channel_type="'channel'", epoch="1", context="'complete'", context_failures="0",
)  # fmt: skip
_MESSAGE: Final = _insert(
    "thread_messages", "team channel ts thread_ts text stored_at routed_at",
    author_id="'U0PLAIN'", author_kind="'user'", files="'[]'", standing="'member'",
)  # fmt: skip
_INBOX: Final = _insert(
    "inbox_messages", "id thread_id agent_id team channel ts reason order_key created_at",
    status="'unread'", matched_by="'address'", attempts="0", claims="0",
)  # fmt: skip
_HEAD: Final = _insert("queue_heads", "agent_id lane_id order_key")
_REACTION: Final = _insert(
    "deliveries", "id thread_id channel target_ts text mark idempotency_key due_at expires_at created_at",
    kind="'reaction'", status="'queued'", broadcast="FALSE", attempts="0",
)  # fmt: skip
_HISTORY: Final = _insert("history", "at subject thread_id change agent_id reason")
_NEXT: Final = (
    "SELECT m.id, m.thread_id, m.channel, m.ts FROM queue_heads h "
    "JOIN inbox_messages m ON m.agent_id = h.agent_id AND m.thread_id = h.lane_id "
    "WHERE h.agent_id = ? AND m.status = 'unread' AND m.delay_reason IS NULL ORDER BY h.order_key LIMIT 1"
)
_LEASE: Final = _insert(
    "leases", "token agent_id thread_id trigger_id created_at expires_at", kind="'work'", attempt="1", hold="FALSE"
)
_MEMBER: Final = _insert("lease_members", "token inbox_message_id")
_MARK_CLAIMED: Final = (
    "UPDATE inbox_messages SET status = 'claimed', claims = claims + 1, lease_token = ? "
    "WHERE id = ? AND status = 'unread'"
)
_NO_HEAD: Final = "DELETE FROM queue_heads WHERE agent_id = ? AND lane_id = ?"
_DISMISS: Final = (
    "UPDATE inbox_messages SET status = 'dismissed', resolved_at = ? "
    "WHERE id = ? AND lease_token = ? AND status = 'claimed'"
)
_END: Final = "UPDATE leases SET ended_at = ?, ended_as = 'finished' WHERE token = ? AND ended_at IS NULL"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Held:
    """A message under a lease."""

    token: str
    inbox_message_id: str
    thread_id: str
    agent_id: str
    channel: str
    ts: str


def _now() -> int:
    return time.time_ns() // 1_000


def _register(driver: _Driver, number: int) -> str:
    agent = new_id()
    driver.execute(_AGENT, (agent, f"plain-{agent}", _now()))
    return agent


def _store(driver: _Driver, agent: str) -> None:
    """Writes a message in a new thread, which names the agent."""
    thread, message, now, why = new_id(), new_id(), _now(), "it names the agent"
    ts = f"{now // 1_000_000}.{now % 1_000_000:06d}"
    driver.execute(_THREAD, (thread, _TEAM, _CHANNEL, ts, agent, now, now, ts))
    driver.execute(_MESSAGE, (_TEAM, _CHANNEL, ts, ts, "<@U0SWARM> swarm#agent-0 please look", now, now))
    driver.execute(_HISTORY, (now, f"{_CHANNEL}:{ts}", thread, "route.address", None, why))
    driver.execute(_HISTORY, (now, thread, thread, "thread.owner", agent, why))
    driver.execute(_INBOX, (message, thread, agent, _TEAM, _CHANNEL, ts, why, now, now))
    driver.execute(_HISTORY, (now, message, thread, "inbox.store", agent, why))
    driver.execute(_HEAD, (agent, thread, now))
    _react(driver, thread, _CHANNEL, ts, "eyes", "stored", now)


def _claim(driver: _Driver, agent: str) -> _Held:
    """Leases the agent's next message."""
    message, thread, channel, ts = driver.execute(_NEXT, (agent,)).fetchone()
    token, now = secrets.token_urlsafe(16), _now()
    driver.execute(_LEASE, (token, agent, thread, message, now, now + 60_000_000))
    driver.execute(_MARK_CLAIMED, (token, message))
    driver.execute(_MEMBER, (token, message))
    driver.execute(_HISTORY, (now, message, thread, "inbox.claim", agent, None))
    driver.execute(_NO_HEAD, (agent, thread))
    return _Held(token=token, inbox_message_id=message, thread_id=thread, agent_id=agent, channel=channel, ts=ts)


def _finish(driver: _Driver, held: _Held) -> None:
    """Dismisses the message and ends its lease."""
    now = _now()
    driver.execute(_DISMISS, (now, held.inbox_message_id, held.token))
    driver.execute(_HISTORY, (now, held.inbox_message_id, held.thread_id, "inbox.dismiss", held.agent_id, "measured"))
    _react(driver, held.thread_id, held.channel, held.ts, "white_check_mark", "end", now)
    driver.execute(_END, (now, held.token))


def _react(driver: _Driver, thread: str, channel: str, ts: str, emoji: str, mark: str, now: int) -> None:
    key, until = f"reaction:{_TEAM}:{channel}:{ts}:{emoji}", now + 60_000_000
    driver.execute(_REACTION, (new_id(), thread, channel, ts, emoji, mark, key, now, until, now))


async def _main(database: str) -> None:
    async with plain_driver(database) as run:
        for name, group in (("one by one", 1), (f"in groups of {GROUP}", GROUP)):
            speed = await run(group, _PAIRS)
            print(
                f"{name}: {speed.events:,.0f} events/s, {speed.pairs:,.0f} pairs/s, {speed.pair_cpu_ms:.3f} ms of "
                "processor time a pair"
            )


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:] or ["sqlite"]))
