"""The sizes of the measurements: those of the design's targets, and smaller ones for a quick look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]
"""Reports progress to the waiting person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The sizes of one run."""

    database: str = "sqlite"  # or the URL of a PostgreSQL server, on which databases may be created
    processes: int = 1  # coordinators; more than one need a PostgreSQL
    seconds: float = 10  # of each timed part
    events_per_second: int = 200
    events_in_flight: int = 64  # at the highest rate of acknowledgements
    polls: int = 1_000
    more_polls: int = 5_000
    agents: int = 8  # for claim and finish over HTTP
    pairs_per_second: int = 2_500  # ready for each second
    callers: int = 64  # of the store alone
    store_pairs: int = 20_000
    rows: int = 1_000_000  # finished ones, against few_rows
    few_rows: int = 1_000
    claims: int = 500  # timed beside the finished rows
    workers: int = 7  # of the team, beside its lead
    hands: int = 2  # polling runs of each worker; the lead has one for each worker
    team_per_second: int = 20
    team_in_flight: int = 32  # at the highest rate of answers
    streams: tuple[int, ...] = (1, 3, 20, 100)  # answers at once; Slack's limits leave room for about three
    stream_seconds: float = 20  # the duration of each
    deltas_per_second: float = 10
    answers: int = 25  # one after another, for the time to the first text
    answer_every_seconds: float = 4  # so slowly that Slack's limit for new streams delays none of them
    refill_seconds: float = 16  # before each part, until Slack's limits allow a burst again
