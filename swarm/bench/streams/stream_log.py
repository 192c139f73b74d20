"""The stream calls in Slack, and the fate of each answer: the twin's log against the agent's own account."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from swarm.bench.streams.streaming_agent import Order, Sent, marks_in

SHOWING: Final = ("chat.startStream", "chat.appendStream", "chat.stopStream", "chat.postMessage", "chat.update")
"""The methods that show text."""

PACE_SECONDS: Final = 0.8
"""The time after which a message grows again while Slack's limits leave room; the coordinator's own setting."""

Mark = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A requested answer."""

    order: Order
    channel: str
    ts: str
    said_at: float  # just before the post to the twin, in seconds since 1970 UTC


@dataclass(kw_only=True, slots=True)
class CallLog:
    """The calls of one phase read so far."""

    last_seq: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # of successful calls, by method
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # by method and error
    carried_at: dict[Mark, float] = field(default_factory=dict)  # the first call that carried a delta
    batches: list[tuple[float, str, list[Mark]]] = field(default_factory=list)  # calls with new deltas
    streamed: set[str] = field(default_factory=set)  # threads in which a stream was begun

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
            if method in SHOWING:
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
class Waits:
    """Seconds between events, each a list without order."""

    deltas: Sequence[float]  # from a delta to the first call that carries it
    firsts: Sequence[float]  # the same for the first delta of each answer
    overdue: Sequence[float]  # from the moment when an append was due to the append
    to_text: Sequence[float]  # from a person's message to the first text in Slack
    ours: Sequence[float]  # of these, without the agent's own time


def waits(asked: Iterable[Asked], sent: Mapping[int, Sequence[Sent]], log: CallLog) -> Waits:
    """Returns all waits of a phase. A delta that was never carried has none: it counts as lost elsewhere."""
    answers = [(one, sent[one.order.stream][-1]) for one in asked if sent.get(one.order.stream)]
    begun = [(one, run, log.carried_at[one.order.stream, 0]) for one, run in answers if _is_begun(one, run, log)]
    sent_at = {(one.order.stream, number): at for one, run in answers for number, at in enumerate(run.at)}
    return Waits(
        deltas=[log.carried_at[mark] - at for mark, at in sent_at.items() if mark in log.carried_at],
        firsts=[shown_at - run.at[0] for _, run, shown_at in begun],
        overdue=_overdue(sent_at, frozenset((one.order.stream, one.order.deltas - 1) for one, _ in answers), log),
        to_text=[shown_at - one.said_at for one, _, shown_at in begun],
        ours=[run.asked_at - one.said_at + shown_at - run.at[0] for one, run, shown_at in begun],
    )


def _is_begun(one: Asked, run: Sent, log: CallLog) -> bool:
    return bool(run.at) and (one.order.stream, 0) in log.carried_at


def _overdue(sent_at: Mapping[Mark, float], ends: frozenset[Mark], log: CallLog) -> list[float]:
    """Returns the delay of each append: due once a delta waits, and the last append is long enough ago.

    The end of an answer is more urgent, so it is left out.
    """
    last: dict[int, float] = {}
    found = list[float]()
    for at, method, marks in log.batches:
        stream = marks[0][0]
        is_known = all(mark in sent_at for mark in marks) and not ends.intersection(marks)
        if method == "chat.appendStream" and stream in last and is_known:
            found.append(at - max(last[stream] + PACE_SECONDS, min(sent_at[mark] for mark in marks)))
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
    """Removes blanks: between two messages of one answer there need not be one."""
    return re.sub(r"\s+", "", text)
