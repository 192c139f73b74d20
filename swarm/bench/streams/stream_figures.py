"""The figures of a part of ``swarm bench stream``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from swarm.bench.figures import Figure, percentile
from swarm.bench.streams.lag import Lag
from swarm.bench.streams.stream_log import Asked, CallLog, waits
from swarm.bench.streams.streaming_agent import Sent

FIRST_DELTA_MS: Final = 50.0
FIRST_TEXT_MS: Final = 3_000.0
OURS_MS: Final = 300.0
LAG_MS: Final = 20.0
WITHIN_LIMITS: Final = 4
"""The number of streams that may start at once before Slack's limit delays the next one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part: the requested answers, and all data about them."""

    name: str
    asked: Sequence[Asked]
    sent: Mapping[int, Sequence[Sent]]
    log: CallLog
    lag: Lag
    idle_lag: Sequence[float]  # of an idle loop beside it
    faults: Sequence[tuple[int, int, bool]]  # of each answer: deltas lost, deltas shown twice, whether its text differs
    seconds: float
    cpu_seconds: float  # of the coordinator

    @property
    def is_within(self) -> bool:
        """Whether Slack's limits delay no answer: few that start in a burst, or many that start slowly."""
        spaced = min((later.said_at - one.said_at for one, later in zip(self.asked, self.asked[1:], strict=False)),
                     default=60.0)  # fmt: skip
        return len(self.asked) <= WITHIN_LIMITS or spaced > 3.5


def figures(part: Part) -> list[Figure]:
    """Returns all figures of a part, with and without targets."""
    return [*_times(part), *_calls(part), *_faults(part), *_process(part)]


def _times(part: Part) -> Iterator[Figure]:
    found = waits(part.asked, part.sent, part.log)
    targets = (FIRST_DELTA_MS, FIRST_TEXT_MS, OURS_MS) if part.is_within else (None, None, None)
    for what, seconds, target in (
        ("first delta → call", found.firsts, targets[0]),
        ("message → first text", found.to_text, targets[1]),
        ("message → first text, ours", found.ours, targets[2]),
        ("any delta → call", found.deltas, None),
        ("append due → append", found.overdue, None),
    ):
        if seconds:
            yield _figure(part, f"{what}, p50", 1_000 * percentile(seconds, 0.5), "ms")
            yield _figure(part, f"{what}, p99", 1_000 * percentile(seconds, 0.99), "ms", target)


def _calls(part: Part) -> Iterator[Figure]:
    counts = part.log.counts
    streamed = sum(one.ts in part.log.streamed for one in part.asked)
    yield _figure(part, "answers streamed", streamed, "")
    yield _figure(part, "answers posted, since no stream was free", len(part.asked) - streamed, "")
    yield _figure(part, "appends an answer", counts["chat.appendStream"] / len(part.asked), "")
    yield _figure(part, "calls an answer, all methods", counts.total() / len(part.asked), "")
    yield _figure(part, "calls a second, all methods", counts.total() / part.seconds, "")
    yield _figure(part, "from the first message to the last text", part.seconds, "s")


def _faults(part: Part) -> Iterator[Figure]:
    yield _figure(part, "calls refused", part.log.refused.total(), "", 0)
    for (method, error), count in part.log.refused.items():
        yield _figure(part, f"of these {method}: {error}", count, "")
    yield _figure(part, "deltas lost", sum(lost for lost, _, _ in part.faults), "", 0)
    yield _figure(part, "deltas shown twice", sum(doubled for _, doubled, _ in part.faults), "", 0)
    yield _figure(part, "answers whose text differs", sum(differs for _, _, differs in part.faults), "", 0)
    runs = sum(len(part.sent.get(one.order.stream, ())) for one in part.asked)
    yield _figure(part, "runs more or fewer than answers", abs(runs - len(part.asked)), "", 0)


def _process(part: Part) -> Iterator[Figure]:
    """Yields the process's figures. The lag covers the agent's writing time: the long end of a part has little load."""
    yield _figure(part, "event loop lag, p50", 1_000 * part.lag.percentile(0.5), "ms")
    yield _figure(part, "event loop lag, p99", 1_000 * part.lag.percentile(0.99), "ms", LAG_MS)
    yield _figure(part, "the same of an idle loop beside it, p99", 1_000 * percentile(part.idle_lag, 0.99), "ms")
    yield _figure(part, "processor of the coordinator", 100 * part.cpu_seconds / part.seconds, "%")


def _figure(part: Part, what: str, value: float, unit: str, target: float | None = None) -> Figure:
    return Figure(measurement=part.name, what=what, value=value, unit=unit, target=target)
