"""The sizes of the measurements, which are the options of ``swarm bench``. Each field with a docstring is an option.

The defaults are those of the design's targets; tests take smaller ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter, Token

T = TypeVar("T")

Fixed = Annotated[T, Parameter(parse=False)]
"""The type of a size that only tests change."""


def numbers(_: object, tokens: Sequence[Token]) -> tuple[int, ...]:
    """Reads ``8,1`` as well as an option given several times. Raises ValueError unless all are positive numbers."""
    found = tuple(int(part) for token in tokens for part in token.value.split(","))
    if min(found) < 1:
        raise ValueError("the numbers begin at 1")
    return found


Numbers = Annotated[
    tuple[int, ...],
    Parameter(
        converter=numbers,
        n_tokens=1,
        consume_multiple=False,
        negative=(),
        metavar="N[,N...]",
        show_default=lambda given: ",".join(map(str, given)),
    ),
]
"""The type of an option with several numbers: ``--agents 8,1`` or ``--agents 8 --agents 1``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The options that all measurements share: the database."""

    database: str = "sqlite"
    """sqlite, or the URL of a PostgreSQL server on which databases may be created (they are dropped afterwards)."""

    settle_seconds: Fixed[float] = 10  # pause between the start of the coordinators and the first figure


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPlan(Plan):
    """The options of a measurement with one or several coordinators."""

    processes: int = 1
    """Number of coordinators; more than one requires PostgreSQL."""

    pooler: str = ""
    """The URL of a pooler in transaction mode, such as PgBouncer, in front of that PostgreSQL; serves any database."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopPlan(SharedPlan):
    """``swarm bench loop``."""

    only: str = ""
    """Some of start, first, events, polls, fairness, pairs, store, sender, backlog, separated by commas. With several
    coordinators, only first, events, polls, fairness and pairs are available."""

    seconds: float = 10
    """Duration of each timed part in seconds."""

    agents: Numbers = (8, 1, 32)
    """Numbers of agents that claim and finish; each number is measured separately. 8,1 is the same as --agents 8
    --agents 1."""

    next: bool = False
    """Measure pairs a second time, with agents whose finish also claims the next message."""

    rows: int = 1_000_000
    """Number of finished messages in the database when claims are measured."""

    events_per_second: Fixed[int] = 200
    events_in_flight: Fixed[int] = 64  # at the highest rate of acknowledgements
    polls: Fixed[int] = 1_000
    more_polls: Fixed[int] = 5_000
    pairs_per_second: Fixed[int] = 1_500  # ready for each second
    callers: Fixed[int] = 64  # for measuring only the store
    store_pairs: Fixed[int] = 5_120
    plain_pairs: Fixed[int] = 640  # of one run of the plain driver one by one, and of one caller
    long_thread: Fixed[int] = 10_000  # messages in one thread
    probes_per_second: Fixed[int] = 20  # messages in other threads meanwhile
    open_reactions: Fixed[int] = 25_000
    looks: Fixed[int] = 100  # of the sender
    few_rows: Fixed[int] = 1_000
    claims: Fixed[int] = 500  # claims timed with the finished rows present


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamPlan(SharedPlan):
    """``swarm bench team``."""

    workers: int = 7
    """Number of workers, in addition to the lead."""

    seconds: float = 10
    """Duration of each timed part in seconds."""

    per_second: int = 20
    """Messages per second while latencies are measured."""

    in_flight: int = 32
    """Number of simultaneous messages without a result while throughput is measured."""

    hands: Fixed[int] = 2  # polling runs of each worker; the lead has one for each worker


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnersPlan(Plan):
    """``swarm bench runners``."""

    runners: int = 10
    """Number of runners, each a process with a lead of its own."""

    concurrent: int = 3
    """Number of runs that a runner has at once."""

    seconds: float = 600
    """Duration of the measurement in seconds; tasks that have begun are finished."""

    work_seconds: float = 20
    """Duration of the CLI's work on a task in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPlan(Plan):
    """``swarm bench stream``."""

    streams: Numbers = (1, 3, 20, 100)
    """Numbers of simultaneous answers; each number is measured separately. Slack's limits allow about three."""

    events_per_second: int = 200
    """Messages per second for a polling agent, while the largest number of answers is measured once more."""

    seconds: float = 20
    """Duration of each answer."""

    per_second: float = 10
    """Deltas that the agent sends per second."""

    answers: int = 25
    """Number of consecutive answers, to measure the time to the first text."""

    answer_every_seconds: Fixed[float] = 4  # slow enough that Slack's limit for new streams delays none of them
    refill_seconds: Fixed[float] = 16  # before each part, until Slack's limits allow a burst again


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionsPlan(SharedPlan):
    """``swarm bench decisions``."""

    count: int = 300
    """Number of requests that people decide in each part."""

    per_second: float = 5
    """Decisions per second."""

    form_every: int = 5
    """One request in this many is a form that opens as a modal; the others are approvals. 0: no forms."""

    events_per_second: int = 200
    """Messages per second for another polling agent, while the decisions are measured a second time; 0: not at all."""

    paced: bool = False
    """Let the coordinator keep Slack's limits, as in a real workspace. They allow about 0.6 decisions per second."""

    fill_seconds: Fixed[float] = 0.5  # between the opening and the sending of a form


@dataclass(frozen=True, kw_only=True, slots=True)
class StormPlan(SharedPlan):
    """``swarm bench storm``."""

    messages: int = 10_000
    """Number of people's messages."""

    threads: int = 500
    """Number of threads for these messages."""

    agents: int = 20
    """Number of agents, each a process."""

    leads: int = 5
    """Number of leads among the agents; the others are workers."""

    in_flight: int = 64
    """Maximum number of unfinished messages at a time."""

    kill_every_seconds: float = 2.0
    """Approximate interval in seconds at which an agent is killed and restarted."""

    kill_coordinator_every_seconds: float = 30.0
    """Approximate interval in seconds at which a coordinator is killed and restarted; 0: never."""

    lease_seconds: float = 10.0
    """Seconds for which the work of a killed agent is kept from other agents."""

    seed: int = 20_261_121
    """Seed of the random choices: killed processes, repeated events, delegated work."""

    channels: Fixed[int] = 20
    delegated: Fixed[float] = 0.3  # of the messages
    doubled: Fixed[float] = 0.3  # of the messages are sent twice
    work_seconds: Fixed[float] = 0.05  # duration of a task
    patience_seconds: Fixed[float] = 120.0  # without any new end, before missing messages count as lost
