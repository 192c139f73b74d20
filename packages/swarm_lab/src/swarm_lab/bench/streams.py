"""``swarm bench stream``: measures streamed answers, from the agent's deltas to the calls of Slack's API.

A measurement uses a real coordinator, a twin that keeps Slack's rate limits, and an AG-UI agent. First, a few answers
are requested one after another, to measure the time to the first text. Then several are requested at once: 1 and 3
within Slack's limits, 20 and 100 above them. Each part waits until the limits allow a burst again, since a new
coordinator starts without a burst allowance. The largest number is measured once more while messages for another agent
arrive.

The verdict on a part compares the twin's call log with the agent's own record.

The event loop lag shown is the coordinator's, from the histogram on its ``/metrics``. For comparison, the lag of the
measuring process's loop, which also runs the twin and the agent, is shown: if that loop is late, the other figures are
too high.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson

from swarm_lab.bench import slack as slacks
from swarm_lab.bench.agents import dismiss, playing
from swarm_lab.bench.figures import Figure, Lag, Say, own_lag, percentile, spread
from swarm_lab.bench.plans import StreamPlan
from swarm_lab.bench.slack import Slack, steadily
from swarm_lab.bench.stage import Cluster, Window, cluster
from swarm_lab.bench.streaming_agent import Order, Sent, StreamingAgent, marks_in

_SHOWING: Final = ("chat.startStream", "chat.appendStream", "chat.stopStream", "chat.postMessage", "chat.update")
"""The methods that show text."""

_PACE_SECONDS: Final = 0.8
"""The interval at which a message is extended while Slack's limits allow it; the coordinator uses the same value."""

_WITHIN_LIMITS: Final = 4
"""The number of streams that can start at once before Slack's limit delays the next one."""

_Mark = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A requested answer."""

    order: Order
    channel: str
    ts: str
    said_at: float  # time just before the post to the twin, in seconds since 1970 UTC


@dataclass(kw_only=True, slots=True)
class CallLog:
    """The calls of one part that have been read so far."""

    last_seq: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # number of successful calls, by method
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # number of failed calls, by method and error
    carried_at: dict[_Mark, float] = field(default_factory=dict)  # time of the first call that carried each delta
    batches: list[tuple[float, str, list[_Mark]]] = field(default_factory=list)  # times of calls with new deltas
    streamed: set[str] = field(default_factory=set)  # threads in which a stream was started

    def read(self, calls: Iterable[Mapping[str, Any]]) -> None:
        """Adds the new part of the twin's log."""
        for call in calls:
            self.last_seq = call["seq"]
            method = str(call["method"])
            if not call["ok"]:
                self.refused[method, f"{call['error']} (HTTP {call['status']})"] += 1
                continue
            self.counts[method] += 1
            if method == "chat.startStream":
                self.streamed.add(str(call["args"].get("thread_ts")))
            if method in _SHOWING:
                self._carry(method, float(call["at"]), call["args"])

    def _carry(self, method: str, at: float, args: Mapping[str, Any]) -> None:
        marks = [mark for mark in marks_in(orjson.dumps(args).decode()) if mark not in self.carried_at]
        self.carried_at.update((mark, at) for mark in marks)
        if marks:
            self.batches.append((at, method, marks))

    def has_all_of(self, order: Order) -> bool:
        """Whether the end of an answer has been shown."""
        return (order.stream, order.deltas - 1) in self.carried_at


@dataclass(frozen=True, kw_only=True, slots=True)
class _Waits:
    """How long each thing took, in seconds, as unordered lists."""

    deltas: Sequence[float]  # from a delta to the first call that carries it
    firsts: Sequence[float]  # the same for the first delta of each answer
    overdue: Sequence[float]  # from the time when an append was due until the append
    to_text: Sequence[float]  # from a person's message to the first text in Slack
    ours: Sequence[float]  # the same, without the agent's own time


def waits(asked: Iterable[Asked], sent: Mapping[int, Sequence[Sent]], log: CallLog) -> _Waits:
    """Returns all waits of a part. A delta that never reached Slack has no wait, and is counted as lost elsewhere."""
    answers = [(one, sent[one.order.stream][-1]) for one in asked if sent.get(one.order.stream)]
    begun = [(one, run, log.carried_at[one.order.stream, 0]) for one, run in answers if _is_begun(one, run, log)]
    sent_at = {(one.order.stream, number): at for one, run in answers for number, at in enumerate(run.at)}
    return _Waits(
        deltas=[log.carried_at[mark] - at for mark, at in sent_at.items() if mark in log.carried_at],
        firsts=[shown_at - run.at[0] for _, run, shown_at in begun],
        overdue=_overdue(sent_at, frozenset((one.order.stream, one.order.deltas - 1) for one, _ in answers), log),
        to_text=[shown_at - one.said_at for one, _, shown_at in begun],
        ours=[run.asked_at - one.said_at + shown_at - run.at[0] for one, run, shown_at in begun],
    )


def _is_begun(one: Asked, run: Sent, log: CallLog) -> bool:
    return bool(run.at) and (one.order.stream, 0) in log.carried_at


def _overdue(sent_at: Mapping[_Mark, float], ends: frozenset[_Mark], log: CallLog) -> list[float]:
    """Returns the delay of each append. An append is due once a delta is waiting and the last append was long enough
    ago.

    The end of an answer is more urgent, so it is not included.
    """
    last: dict[int, float] = {}
    found = list[float]()
    for at, method, marks in log.batches:
        stream = marks[0][0]
        is_known = all(mark in sent_at for mark in marks) and not ends.intersection(marks)
        if method == "chat.appendStream" and stream in last and is_known:
            found.append(at - max(last[stream] + _PACE_SECONDS, min(sent_at[mark] for mark in marks)))
        last[stream] = at
    return found


def faults(order: Order, messages: Iterable[Mapping[str, Any]]) -> tuple[int, int, bool]:
    """Returns an answer's visible faults: deltas lost, deltas shown twice, and whether the text differs."""
    texts = [str(message["text"]) for message in messages if message["kind"] == "bot"]
    shown = Counter(number for text in texts for stream, number in marks_in(text) if stream == order.stream)
    lost = sum(number not in shown for number in range(order.deltas))
    doubled = sum(times - 1 for times in shown.values())
    return lost, doubled, _squeezed("".join(texts)) != _squeezed(order.text)


def _squeezed(text: str) -> str:
    """Removes whitespace, since there may be none between two messages of one answer."""
    return re.sub(r"\s+", "", text)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """One part of the measurement: the requested answers, and all data about them."""

    name: str
    asked: Sequence[Asked]
    sent: Mapping[int, Sequence[Sent]]
    log: CallLog
    lag: Lag
    own_lag: Sequence[float]  # lag of the measuring process's own loop
    faults: Sequence[tuple[int, int, bool]]  # per answer: deltas lost, deltas shown twice, whether its text differs
    window: Window

    @property
    def is_within(self) -> bool:
        """Whether Slack's limits delay no answer, because few answers start in a burst or many start slowly."""
        spaced = min((later.said_at - one.said_at for one, later in zip(self.asked, self.asked[1:], strict=False)),
                     default=60.0)  # fmt: skip
        return len(self.asked) <= _WITHIN_LIMITS or spaced > 3.5


def _figures(part: _Part) -> list[Figure]:
    """Returns all figures of a part, with and without targets."""
    return part.window.beside([*_times(part), *_calls(part), *_faults(part), *_process(part)])


def _times(part: _Part) -> Iterator[Figure]:
    found = waits(part.asked, part.sent, part.log)
    for what, seconds, target in (
        ("first delta → call", found.firsts, 50.0),
        ("message → first text", found.to_text, 3_000.0),
        ("message → first text, ours", found.ours, 300.0),
        ("any delta → call", found.deltas, None),
        ("append due → append", found.overdue, None),
    ):
        if seconds:
            yield from spread(part.name, what, seconds, p99=target if part.is_within else None)


def _calls(part: _Part) -> Iterator[Figure]:
    figure, counts = partial(Figure, part.name), part.log.counts
    streamed = sum(one.ts in part.log.streamed for one in part.asked)
    yield figure("answers streamed", streamed, "")
    yield figure("answers posted, since no stream was free", len(part.asked) - streamed, "")
    yield figure("appends an answer", counts["chat.appendStream"] / len(part.asked), "")
    yield figure("calls per answer, all methods", counts.total() / len(part.asked), "")
    yield figure("calls per second, all methods", counts.total() / part.window.seconds, "")
    yield figure("from the first message to the last text", part.window.seconds, "s")


def _faults(part: _Part) -> Iterator[Figure]:
    figure = partial(Figure, part.name, unit="", target=0)
    yield figure("calls refused", part.log.refused.total())
    for (method, error), count in part.log.refused.items():
        yield Figure(part.name, f"of these {method}: {error}", count, "")
    yield figure("deltas lost", sum(lost for lost, _, _ in part.faults))
    yield figure("deltas shown twice", sum(doubled for _, doubled, _ in part.faults))
    yield figure("answers whose text differs", sum(differs for _, _, differs in part.faults))
    runs = sum(len(part.sent.get(one.order.stream, ())) for one in part.asked)
    yield figure("difference between runs and answers", abs(runs - len(part.asked)))


def _process(part: _Part) -> Iterator[Figure]:
    """Yields the process's figures. The lag covers only the time during which the agent writes, since there is little
    load at the end of a part."""
    figure = partial(Figure, part.name)
    yield figure("event loop lag, p50", 1_000 * part.lag.percentile(0.5), "ms")
    yield figure("event loop lag, p99", 1_000 * part.lag.percentile(0.99), "ms", target=20.0)
    yield figure("the same for the measuring process, p99", 1_000 * percentile(part.own_lag, 0.99), "ms")
    yield figure("processor time of the coordinator", 100 * part.window.cpu_seconds / part.window.seconds, "%")


FIRST_TEXT: Final = "one after another"
_CHANNELS: Final = 20
_SHORT_DELTAS: Final = 5
_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 150.0
"""The time limit between the agent's last text and the end of an answer; streams are abandoned after 90 seconds."""

_RETENTION_MESSAGES: Final = 2_000
_READERS: Final = 8
"""The number of polls of the agent that gets messages while answers are written."""


@dataclass(kw_only=True, slots=True)
class _Bench:
    slack: Slack
    processes: Cluster
    agent: StreamingAgent
    say: Say
    asked: int = 0  # the number of answers so far
    seq: int = 0  # the sequence number of the last call of earlier parts

    async def part(self, name: str, asking: Iterable[float], deltas: int, per_second: float) -> _Part:
        """Asks at the given times, in seconds from now, and waits until every answer is complete or counts as lost."""
        log, lag, begun = CallLog(last_seq=self.seq), await self.processes.lag(), time.time()
        async with self.processes.window() as window:
            async with own_lag() as late:
                asked = await asyncio.gather(*(self._ask_at(begun + after, deltas, per_second) for after in asking))
                until = time.time() + deltas / per_second + _PATIENCE_SECONDS
                await asyncio.sleep(deltas / per_second)  # the agent writes for this long; later the load is smaller
                lag = (await self.processes.lag()).since(lag)
            await self._until_shown(log, asked, until)
        problems = [await self._faults(one, until) for one in asked]
        log.read(self.slack.calls(log.last_seq))
        self.seq = log.last_seq
        return _Part(
            name=name, asked=asked, sent=self.agent.runs, log=log, lag=lag, own_lag=late, faults=problems, window=window
        )

    async def _ask_at(self, moment: float, deltas: int, per_second: float) -> Asked:
        """Asks for one more answer, in a new thread."""
        await asyncio.sleep(max(0.0, moment - time.time()))
        order = Order(stream=self.asked, deltas=deltas, per_second=per_second)
        self.asked += 1
        said_at = time.time()
        channel, ts = self.slack.say(f"{self.slack.mention} {order}", channel=order.stream)
        return Asked(order=order, channel=channel, ts=ts, said_at=said_at)

    async def _until_shown(self, log: CallLog, asked: Sequence[Asked], until: float) -> None:
        """Reads the twin's log until it contains the end of every answer, or until the time is over."""
        while time.time() < until and not all(log.has_all_of(one.order) for one in asked):
            await asyncio.sleep(_LOOK_SECONDS)
            log.read(self.slack.calls(log.last_seq))

    async def _faults(self, one: Asked, until: float) -> tuple[int, int, bool]:
        """Returns the faults of an answer, after waiting for its messages to be closed and its buttons removed."""
        while True:
            messages = [message for message in self.slack.messages(one.channel, one.ts) if message["ts"] != one.ts]
            found = faults(one.order, messages)
            is_settled = not any(message["streaming"] for message in messages) and found == (0, 0, False)
            if is_settled:
                return found
            if time.time() > until:
                shown = {number for message in messages for _, number in marks_in(message["text"])}
                lost = [number for number in range(one.order.deltas) if number not in shown]
                self.say(f"s{one.order.stream} in {one.channel}, {one.ts}, is incomplete; not shown: {lost}")
                return found
            await asyncio.sleep(_LOOK_SECONDS)


async def measure(plan: StreamPlan, say: Say) -> list[Figure]:
    """Runs all parts, one after another. Raises BenchError on failure."""
    parts = [(FIRST_TEXT, [number * plan.answer_every_seconds for number in range(plan.answers)], _SHORT_DELTAS)]
    deltas = max(1, int(plan.seconds * plan.per_second))
    parts += [(f"{count} at once", [0.0] * count, deltas) for count in plan.streams]
    found = list[Figure]()
    async with _bench(plan, say) as bench:
        for name, moments, count in parts:
            await asyncio.sleep(plan.refill_seconds)
            say(f"{len(moments)} answers, {name}, each {count} deltas, {plan.per_second:g} a second")
            found += _figures(await bench.part(name, moments, count, plan.per_second))
        if plan.events_per_second:
            await asyncio.sleep(plan.refill_seconds)
            name = f"{max(plan.streams)} at once, {plan.events_per_second} events/s"
            say(name)
            async with _events(bench, plan):
                found += _figures(await bench.part(name, [0.0] * max(plan.streams), deltas, plan.per_second))
    return found


@asynccontextmanager
async def _events(bench: _Bench, plan: StreamPlan) -> AsyncIterator[None]:
    """Sends messages for a polling agent while answers are written. Each message is two events, since the app hears
    mentions twice."""
    (agent,) = await bench.processes.register(1, prefix="reader")

    async def ask(_: int) -> float:
        bench.slack.say(bench.slack.addressed(agent.name))
        return 0.0

    asking = steadily(ask, plan.seconds, plan.events_per_second / 2)
    async with playing(asking, *(dismiss(agent) for _ in range(_READERS))):
        yield


@asynccontextmanager
async def _bench(plan: StreamPlan, say: Say) -> AsyncIterator[_Bench]:
    """Starts all participants, and asks for an answer in each channel, so that names are known and connections are
    open."""
    async with AsyncExitStack() as stack:
        agent = StreamingAgent()
        port = await stack.enter_async_context(agent.served())
        retention = _RETENTION_MESSAGES + int(plan.seconds * plan.events_per_second)
        slack = await stack.enter_async_context(slacks.opened(_CHANNELS, rates=True, retention=retention))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-bench-")))
        settings = {**slack.environment, "SWARM_CONFIG": str(_settings(folder, port, max(plan.streams)))}
        processes = await stack.enter_async_context(cluster(plan, settings))
        await slack.connected(1)
        bench = _Bench(slack=slack, processes=processes, agent=agent, say=say)
        say("a first answer in each channel")
        await bench.part("first", [0.0] * _CHANNELS, 1, plan.per_second)
        yield bench


def _settings(folder: Path, port: int, parallel: int) -> Path:
    """Writes a settings file with the agent. The file is JSON, which is valid YAML."""
    path = folder / "swarm.yaml"
    agent = {"url": f"http://127.0.0.1:{port}/", "parallel": parallel, "description": "answers as the bench wants it"}
    path.write_bytes(orjson.dumps({"agents": {"default": "streamer", "remote": {"streamer": agent}}}))
    return path
