"""``swarm bench``: the command line of the measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from swarm.telemetry import log

bench = App(name="bench", help="Measure this machine against the targets of the design.")


@bench.command(name="loop")
def bench_loop(
    *,
    database: str = "sqlite",
    only: str = "",
    seconds: float = 10,
    rows: int = 1_000_000,
    processes: int = 1,
    repeat: int = 1,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Measure the way of a message: stored, claimed, finished.

    Parameters
    ----------
    database
        sqlite, or the URL of a PostgreSQL server on which databases may be created (they are dropped afterwards).
    only
        Some of events, polls, pairs, store, backlog, with commas between them.
    seconds
        How long each timed part lasts.
    rows
        How many finished messages a claim must cope with.
    processes
        Number of coordinators; more than one need PostgreSQL, and measure only events, polls and pairs.
    repeat
        Number of measurements; the best is shown, since other programs on the machine only make figures worse.
    json_file
        Where to write the figures as JSON as well.
    """
    from swarm.bench import loop, run
    from swarm.bench.plan import Plan

    log.configure("warning")
    plan = Plan(database=database, processes=processes, seconds=seconds, rows=rows)
    return run.main(lambda: loop.chosen(only, processes), plan, repeat, json_file)


@bench.command(name="team")
def bench_team(
    *,
    database: str = "sqlite",
    processes: int = 1,
    workers: int = 7,
    seconds: float = 10,
    per_second: int = 20,
    in_flight: int = 32,
    repeat: int = 1,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Measure a team: a lead that delegates every message, workers that complete it, up to the result in Slack.

    Parameters
    ----------
    database
        sqlite, or the URL of a PostgreSQL server on which databases may be created (they are dropped afterwards).
    processes
        Number of coordinators; more than one need PostgreSQL.
    workers
        Number of workers, beside the lead.
    seconds
        How long each timed part lasts.
    per_second
        Messages a second while latencies are measured.
    in_flight
        Messages without a result at a time, while throughput is measured.
    repeat
        Number of measurements; the best is shown, since other programs on the machine only make figures worse.
    json_file
        Where to write the figures as JSON as well.
    """
    from swarm.bench import run, team
    from swarm.bench.plan import Plan

    log.configure("warning")
    plan = Plan(
        database=database,
        processes=processes,
        workers=workers,
        seconds=seconds,
        team_per_second=per_second,
        team_in_flight=in_flight,
    )
    return run.main(lambda: {"team": team.measure}, plan, repeat, json_file)


@bench.command(name="stream")
def bench_stream(
    *,
    database: str = "sqlite",
    streams: tuple[int, ...] = (1, 3, 20, 100),
    seconds: float = 20,
    per_second: float = 10,
    answers: int = 25,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Measure streamed answers: from an agent's delta to the call of Slack, within Slack's limits and above them.

    Parameters
    ----------
    database
        sqlite, or the URL of a PostgreSQL server on which databases may be created (they are dropped afterwards).
    streams
        Numbers of simultaneous answers, each a part of the measurement.
    seconds
        Duration of each answer.
    per_second
        Deltas that the agent sends a second.
    answers
        Number of answers one after another, for the time to the first text.
    json_file
        Where to write the figures as JSON as well.
    """
    from swarm.bench import run
    from swarm.bench.plan import Plan
    from swarm.bench.streams import stream

    log.configure("warning")
    plan = Plan(
        database=database, streams=streams, stream_seconds=seconds, deltas_per_second=per_second, answers=answers
    )
    return run.main(lambda: {"stream": stream.measure}, plan, 1, json_file)


@bench.command(name="storm")
def bench_storm(
    *,
    database: str = "sqlite",
    processes: int = 1,
    messages: int = 10_000,
    threads: int = 500,
    agents: int = 20,
    leads: int = 5,
    in_flight: int = 64,
    kill_every_seconds: float = 2,
    lease_seconds: float = 10,
    seed: int = 20_261_121,
    json_file: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Put a team under stress: events sent twice, agents killed. Exit code 1 if anything is lost or doubled.

    Parameters
    ----------
    database
        sqlite, or the URL of a PostgreSQL server on which databases may be created (they are dropped afterwards).
    processes
        Number of coordinators; more than one need PostgreSQL.
    messages
        Number of people's messages.
    threads
        Number of threads for these messages.
    agents
        Number of agents, each a process.
    leads
        Number of leads among the agents; the others are workers.
    in_flight
        Most unfinished messages at a time.
    kill_every_seconds
        About how often an agent is killed, and started again.
    lease_seconds
        How long the work of a killed agent is kept from other agents.
    seed
        Seed of the random choices: killed agents, repeated events, delegated work.
    json_file
        Where to write the figures as JSON as well.
    """
    from swarm.bench import run
    from swarm.bench.storms import storm

    log.configure("warning")
    plan = storm.StormPlan(
        database=database,
        processes=processes,
        messages=messages,
        threads=threads,
        agents=agents,
        leads=leads,
        in_flight=in_flight,
        kill_every_seconds=kill_every_seconds,
        lease_seconds=lease_seconds,
        seed=seed,
    )
    return run.judged(lambda say: storm.measure(plan, say), json_file)
