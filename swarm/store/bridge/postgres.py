"""Runs calls on PostgreSQL with eight threads, each with its own connection.

Every call is one short transaction: READ COMMITTED for writes, a read-only snapshot for reads. Calls with the same
function form a set: while one set runs, the next calls of its function wait, and then share one transaction (`gather`).
Other calls do not share a transaction, because a group would hold the row locks of unrelated callers.

Who may act: any number of processes; row locks and unique indexes keep them apart. Guarantee: a result means a
confirmed commit. Wakeups reach this process right after the commit and other processes through NOTIFY, which PostgreSQL
sends with the commit (`swarm.store.bridge.postgres_driver`). On failure: a deadlock or a serialization failure is
retried, up to `MAX_RUNS` runs. A set waits at most `SET_LOCK_SECONDS` for a lock; after this and any other error, each
of its calls runs alone, so that one locked row does not delay the others. If a connection breaks before COMMIT is sent,
nothing has changed: the call runs once more on a new connection, then fails with `Unavailable`. If a connection breaks
during COMMIT, the outcome is unknown: the call fails with `OutcomeUnknown`, and its topics are bumped in case it
succeeded.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue

import psycopg
import structlog
from psycopg import errors

from swarm.clock import new_id
from swarm.domain.errors import ConfigurationError, OutcomeUnknown, Unavailable
from swarm.store.bridge import clock_changes
from swarm.store.bridge.clock_changes import ClockWatch
from swarm.store.bridge.engine import (
    Deliver,
    Died,
    HandOver,
    HandOverFailed,
    PostgresUrl,
    QueryJob,
    SetFunction,
    gather,
    run_together,
    start_thread,
)
from swarm.store.bridge.postgres_driver import Listener, PostgresConnection, PostgresSession
from swarm.store.bridge.transaction import ConstraintViolated, Dialect, Moment, Transaction, caused_by

MAX_CONNECTIONS = 8
MAX_RUNS = 5
RERUN_SECONDS = 0.02
CONNECT_TIMEOUT_SECONDS = 5

UNHEARD_SECONDS = 10
"""A connection is closed if the server acknowledges nothing for this time, even at the TCP level."""

SUSPENDED_SECONDS = 10
"""A process that is suspended during a transaction keeps its locks for this time."""

LOCK_TIMEOUT_SECONDS = 5

SET_LOCK_SECONDS = 0.1
"""How long a set waits for a lock before its calls run alone."""

MAX_SET = 256
"""The maximum number of calls in one transaction. A larger set would delay its first result."""

_log = structlog.get_logger(__name__)


class _PostgresTransaction(Transaction):
    """A transaction on a session. Its time is the time of its BEGIN by the server's clock."""

    dialect = "postgresql"
    driver_error = psycopg.Error


class _Queue:
    """The waiting calls. The calls of one function that form sets are run by one worker at a time."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[QueryJob | SetFunction | None] = SimpleQueue()
        self._sets: dict[SetFunction, deque[QueryJob]] = {}  # a function is present while a worker serves it
        self._last_sizes: dict[SetFunction, int] = {}
        self._lock = threading.Lock()

    def put(self, job: QueryJob) -> None:
        if job.is_alone:
            self._ready.put(job)
            return
        with self._lock:
            waiting = self._sets.get(job.fn)
            if waiting is not None:
                waiting.append(job)
                return
            self._sets[job.fn] = deque([job])
        self._ready.put(job.fn)

    def get(self) -> QueryJob | SetFunction | None:
        """Waits for a call, a function with waiting calls, or None at the end of the queue."""
        while (entry := self._ready.get()) is None:
            self._ready.put(None)  # for the other workers, after everything that a set has queued in the meantime
            if self._ready.qsize() <= 1:
                return None
        return entry

    def take(self, fn: SetFunction) -> list[QueryJob]:
        """Returns the waiting calls of a function. Briefly waits for the callers of its last set."""
        waiting = self._sets[fn]
        gather(lambda: len(waiting), self._last_sizes.get(fn, 0))
        with self._lock:
            taken = [waiting.popleft() for _ in range(min(len(waiting), MAX_SET))]
        self._last_sizes[fn] = len(taken)
        return taken

    def done(self, fn: SetFunction) -> None:
        """Queues the function again if more calls wait. Until then, no other worker takes them."""
        with self._lock:
            if not self._sets[fn]:
                del self._sets[fn]
                return
        self._ready.put(fn)

    def put_alone(self, job: QueryJob) -> None:
        """Queues a call to run in a set of its own."""
        self._ready.put(job)

    def end(self) -> None:
        """Ends the queue for all workers, after its calls."""
        self._ready.put(None)


class PostgresEngine:
    """The engine for the migrated database at ``url``."""

    dialect: Dialect = "postgresql"

    def __init__(
        self,
        url: PostgresUrl,
        deliver: Deliver,
        bump: Callable[[str], None],
        bump_all: Callable[[], None],
        hand_over: HandOver,
        watch: ClockWatch,
        *,
        died: Died,
        pooler: PostgresUrl | None = None,
    ) -> None:
        self._died = died
        self._url = url
        self._pooler = pooler
        self._deliver = deliver
        self._bump = bump
        self._bump_all = bump_all
        self._hand_over = hand_over
        self._watch = watch
        self._origin = new_id()  # marks notifications from this process, which its listener skips
        self._queue = _Queue()
        self._listener: Listener | None = None
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        self._refuse_pooler()
        self._listener = Listener(
            partial(self._connect, self._url), self._origin, self._bump, self._bump_all, self._died
        )
        self._listener.start()
        for number in range(MAX_CONNECTIONS):
            worker = Worker(self._session, self._queue, self._deliver, self._origin, self._watch, self._hand_over)
            self._threads.append(start_thread(f"swarm-postgres-{number}", worker.serve, self._died))

    def write(self, call: QueryJob) -> None:
        self._queue.put(call)

    def read(self, call: QueryJob) -> None:
        self._queue.put(call)

    def scrub(self, *, rewrite: bool) -> bool:
        return True

    def close(self) -> None:
        if self._listener is not None:
            self._listener.stop()
            self._listener = None
        self._queue.end()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _refuse_pooler(self) -> None:
        """Raises ConfigurationError if ``url`` leads through a pooler that gives each transaction another connection:
        one connection shows another's server process, or its own changes, while both are open.
        """
        with self._connect(self._url) as one, self._connect(self._url) as other:
            before = _server_process(one)
            other.execute("BEGIN")
            if _server_process(other) != before and _server_process(one) == before:
                return
        raise ConfigurationError(
            f"database.url (SWARM_DATABASE_URL) is {self._url}, which is a pooler: its connections share sessions of "
            "PostgreSQL.",
            hint="Name PostgreSQL's own address there, and the pooler's in database.pooler_url "
            "(SWARM_DATABASE_POOLER_URL).",
        )

    def _session(self) -> PostgresSession:
        """Returns a session for queries, through the pooler if there is one. Raises `Unavailable` with the reason.

        A pooler gives each transaction another connection, so its limits are set in each transaction, and no statement
        is prepared.
        """
        limits = (
            f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_SECONDS * 1000}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {SUSPENDED_SECONDS * 1000}; "
            # By statistics from when a table was small, reading all of it seems cheaper than its indexes.
            "SET LOCAL enable_seqscan = off; "
            # Compiling a plan takes far longer than running it.
            "SET LOCAL jit = off; "
        )
        if self._pooler:
            connection = self._connect(self._pooler)
            connection.prepare_threshold = None
            return PostgresSession(connection, limits)
        connection = self._connect(self._url)
        connection.prepared_max = 500  # more than the number of statements
        try:
            connection.execute(limits.replace("SET LOCAL", "SET"))
        except psycopg.Error as error:
            raise unavailable(error) from error
        return PostgresSession(connection)

    def _connect(self, url: PostgresUrl) -> PostgresConnection:
        """Returns a connection in autocommit mode. Raises `Unavailable` with the reason."""
        try:
            return psycopg.connect(
                url.conninfo,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_SECONDS,
                keepalives_idle=30,
                keepalives_interval=10,
                keepalives_count=3,
                tcp_user_timeout=UNHEARD_SECONDS * 1000,
                application_name="swarm",
            )
        except psycopg.Error as error:
            raise Unavailable(f"PostgreSQL at {url} cannot be reached: {_first_line(error)}") from error


class Worker:
    """A thread that runs calls one at a time, each in its own transaction, on a connection opened on demand."""

    def __init__(
        self,
        connect: Callable[[], PostgresSession],
        queue: _Queue,
        deliver: Deliver,
        origin: str,
        watch: ClockWatch,
        hand_over: HandOver,
    ) -> None:
        self._hand_over = hand_over
        self._connect = connect
        self._queue = queue
        self._deliver = deliver
        self._origin = origin
        self._watch = watch
        self._session: PostgresSession | None = None

    def serve(self) -> None:
        """Runs queued calls until the queue ends, then disconnects."""
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, QueryJob):
                self._answer(entry)
            else:
                self._answer_set(entry)
        self._disconnect()

    def _answer_set(self, fn: SetFunction) -> None:
        calls = [call for call in self._queue.take(fn) if not call.abandoned]
        try:
            if calls:
                self._run(calls, lock_seconds=SET_LOCK_SECONDS)
        except BaseException:  # noqa: BLE001 - each call meets the error again, if the error concerns the call
            for call in calls:
                self._queue.put_alone(call)
        else:
            self._deliver(calls)
        finally:
            self._queue.done(fn)

    def _answer(self, call: QueryJob) -> None:
        if call.abandoned:
            return
        try:
            self._run([call])
        except errors.ReadOnlySqlTransaction as error:
            # The server does not accept writes (for example a standby, or set by an operator). A read that writes is a
            # bug in Swarm.
            call.fail(unavailable(error) if call.writes else error)
        except BaseException as error:  # noqa: BLE001 - an interrupt too belongs to the caller
            call.fail(explain(error))
        finally:
            self._deliver([call])

    def _run(self, calls: Sequence[QueryJob], lock_seconds: float | None = None) -> None:
        """Runs a set in a transaction, with retries, and ends the transaction. Raises the error of the last run."""
        runs, broken_connections, writes = 0, 0, calls[0].writes
        while True:
            runs += 1
            session = self._connected()
            tx: _PostgresTransaction | None = None
            try:
                tx = _PostgresTransaction(session, self._begin(session, writes, lock_seconds), read_only=not writes)
                run_together(calls, tx, self._hand_over)
            except BaseException as error:
                cause = (tx.failure if tx else None) or error
                if _is_broken(session, cause):
                    broken_connections += 1
                    again = broken_connections == 1
                else:
                    again = isinstance(error, HandOverFailed) or (runs < MAX_RUNS and _is_conflict(cause))
                self._roll_back(session)
                if not again:
                    raise
                _pause(runs)
            else:
                break
        if writes:
            self._commit(session, calls, tx.topics)
        else:
            self._roll_back(session)

    def _begin(self, session: PostgresSession, writes: bool, lock_seconds: float | None) -> Moment:
        """Begins a transaction and returns its time. A read immediately after a step uses the clock from before the
        step.
        """
        while True:
            asked_at = self._watch.asked()
            reading, step = self._watch.read(session.begin(writes, lock_seconds), asked_at)
            if not writes or not step:
                return self._watch.moment(reading, step)
            session.roll_back()
            with self._watch.settling:
                self._settle(session)

    def _settle(self, session: PostgresSession) -> None:
        """Moves the due times after a clock step, unless another thread has already moved them."""
        session.begin_alone()
        asked_at = self._watch.asked()
        reading, step = self._watch.read(session.now(), asked_at)
        if step:
            tx = _PostgresTransaction(session, self._watch.moment(reading))
            moved = clock_changes.step(tx, step)
            session.commit(())
            self._watch.settle(reading, step, moved)
        else:
            session.roll_back()

    def _commit(self, session: PostgresSession, calls: Sequence[QueryJob], topics: Iterable[str]) -> None:
        try:
            session.commit(f"{self._origin} {topic}" for topic in topics)
        except psycopg.Error as error:
            unknown = _is_broken(session, error)
            self._roll_back(session)
            if not unknown:
                raise
            for call in calls:
                call.fail(caused_by(OutcomeUnknown(), error), maybe_done=True)

    def _roll_back(self, session: PostgresSession) -> None:
        try:
            if not session.closed:
                session.roll_back()
        except psycopg.Error as error:
            _log.warning("The rollback failed; the connection is closed.", action="rollback_failed", error=str(error))
            self._disconnect()
        if session.closed:
            self._disconnect()

    def _connected(self) -> PostgresSession:
        if self._session is None:
            self._session = self._connect()
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _server_process(connection: PostgresConnection) -> int:
    ((number,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(number)


def explain(error: BaseException) -> BaseException:
    """Maps a driver error to one of Swarm's errors. Returns other exceptions unchanged."""
    if isinstance(error, psycopg.IntegrityError):
        return caused_by(ConstraintViolated(_first_line(error)), error)
    if isinstance(error, psycopg.OperationalError | errors.IdleInTransactionSessionTimeout):
        return unavailable(error)
    return error


def unavailable(error: BaseException) -> Unavailable:
    """Returns an `Unavailable` for a write that is not durable because of ``error``."""
    return caused_by(Unavailable(f"The database cannot do this now: {_first_line(error)}"), error)


def _is_broken(session: PostgresSession, error: BaseException) -> bool:
    return session.closed and isinstance(error, psycopg.Error)


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected)


def _pause(runs: int) -> None:
    """Sleeps for a random time, so that the next run does not hit the same conflict."""
    time.sleep(random.uniform(0, RERUN_SECONDS) * runs)  # noqa: S311 - no secret


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
