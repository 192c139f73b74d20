"""Recorded runs of agents (`tests/streams/*.jsonl`), whole or with a fault, and what must be seen of them.

A line is one event of `swarm.domain.answers.events`: ``at`` in seconds after the start, ``event`` with the name of
its class, and its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import get_args

import orjson
from pydantic import TypeAdapter

from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    SourceChanged,
    TextDelta,
)

STREAMS = Path(__file__).parents[1] / "streams"
NAMES = sorted(path.stem for path in STREAMS.glob("*.jsonl"))
ENDS = (Finished, Interrupted, Cancelled, Failed, Broken)

Timed = tuple[float, AgentEvent]

_KINDS = {kind.__name__: TypeAdapter[AgentEvent](kind) for kind in get_args(AgentEvent)}


class Fault(StrEnum):
    """What goes wrong at one event of a run."""

    DROP = "drop"  # it is lost
    DELAY = "delay"  # it and all that follow come two and a half minutes later
    DUPLICATE = "duplicate"  # it comes twice
    REORDER = "reorder"  # it comes after the next one
    TRUNCATE = "truncate"  # neither it nor anything after it comes


DELAY_SECONDS = 150.0


def recorded(name: str) -> list[Timed]:
    """A recorded run."""
    return [_event(line) for line in (STREAMS / f"{name}.jsonl").read_bytes().splitlines()]


def _event(line: bytes) -> Timed:
    fields = orjson.loads(line)
    at, kind = fields.pop("at"), fields.pop("event")
    return at, _KINDS[kind].validate_json(orjson.dumps(fields))


def with_fault(events: Sequence[Timed], fault: Fault, place: int) -> list[Timed]:
    """A run with a fault, as the reader of the agent hands it on: without an end of its own it gets one."""
    before, (at, event), after = events[:place], events[place], events[place + 1 :]
    match fault:
        case Fault.DROP:
            heard = [*before, *after]
        case Fault.DELAY:
            heard = [*before, *((late + DELAY_SECONDS, one) for late, one in events[place:])]
        case Fault.DUPLICATE:
            heard = [*before, (at, event), (at, event), *after]
        case Fault.REORDER:
            swapped = [(at, later) for _, later in after[:1]]
            heard = [*before, *swapped, (at, event), *after[1:]]
        case Fault.TRUNCATE:
            heard = list(before)
    if not any(isinstance(one, ENDS) for _, one in heard):
        heard.append((heard[-1][0] + 1.0 if heard else 1.0, Broken(reason="it stopped in the middle of its answer")))
    return heard


def said_by(events: Sequence[Timed]) -> str:
    """The agent's own text, all of it."""
    return "".join(event.text for event in _counting(events) if isinstance(event, TextDelta))


def result_of(events: Sequence[Timed]) -> str:
    """The final text that the agent sent apart from its deltas, if it did."""
    end = end_of(events)
    return (end.result or "") if isinstance(end, Finished) else ""


def _counting(events: Sequence[Timed]) -> Iterator[AgentEvent]:
    """The agent's own events up to its end."""
    sub_agent: str | None = None
    for _, event in events:
        if isinstance(event, ENDS):
            return
        if isinstance(event, SourceChanged):
            sub_agent = event.sub_agent
        elif sub_agent is None:
            yield event


def end_of(events: Sequence[Timed]) -> AgentEvent:
    """The first end of a run: what comes after it does not count."""
    return next(event for _, event in events if isinstance(event, ENDS))
