"""The verdict on a storm, by the calls in the twin's log and the messages that people see there, never by our tables.

A message must end exactly once, in one of two ways: an agent posted ``answer m17`` in its thread, or the thread was
told that it could not be answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from swarm.bench.figures import Figure
from swarm.bench.parts.agent import names

ANSWER: Final = "answer "
FAILURES: Final = ("This message could not be answered", "could not be done")
"""Texts in a thread about a dead letter, of a message or a task."""

_STORED: Final = "eyes"
_DONE: Final = "white_check_mark"
_FAILED: Final = "x"

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A person's message."""

    name: str  # m17
    channel: str
    ts: str
    thread_ts: str


@dataclass(kw_only=True, slots=True)
class Log:
    """The content of the twin's log of calls, read in parts, since the twin keeps only the end of it."""

    answers: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # by channel, thread and name
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # by channel and thread
    texts: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # of posts, by channel and thread
    done: Counter[tuple[str, str]] = field(default_factory=Counter)  # ✅ given, by channel and timestamp
    stored: set[tuple[str, str]] = field(default_factory=set)  # 👀 given, by channel and timestamp
    refused: Counter[str] = field(default_factory=Counter)  # calls that Slack refused, by method and error
    calls: int = 0
    last_seq: int = 0

    def read(self, calls: Sequence[Json]) -> None:
        """Adds the calls logged since ``last_seq``."""
        for call in calls:
            self.calls += 1
            self.last_seq = int(call["seq"])
            if call["ok"]:
                self._note(call["method"], call["args"])
            else:
                self.refused[f"{call['method']}: {call['error']}"] += 1

    def _note(self, method: str, said: Json) -> None:
        if method == "chat.postMessage":
            channel, thread, text = said["channel"], said.get("thread_ts", ""), str(said.get("text", ""))
            self.texts[channel, thread, text] += 1
            self.failures[channel, thread] += any(words in text for words in FAILURES)
            if text.startswith(ANSWER):
                self.answers.update((channel, thread, name) for name in names(text))
        elif method == "reactions.add":
            where = said["channel"], said["timestamp"]
            self.done[where] += said["name"] == _DONE
            self.stored |= {where} if said["name"] == _STORED else set()

    @property
    def failed(self) -> int:
        """The number of messages reported in threads as not answered."""
        return sum(self.failures.values())

    def answered(self, asked: Asked) -> int:
        """Returns the number of answers to a message in its own thread."""
        return self.answers[asked.channel, asked.thread_ts, asked.name]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One message as people see it at the end."""

    text: str
    kind: str  # user or bot
    reactions: tuple[str, ...]  # one for each person who gave it


def judge(asked: Sequence[Asked], log: Log, seen: Mapping[tuple[str, str], Seen]) -> list[Figure]:
    """Counts the messages with each kind of wrong end; each count must be 0. ``seen`` is by channel and timestamp."""
    answered = {message.name: log.answered(message) for message in asked}
    failed = {message.name for message in asked if _FAILED in _reactions(seen, message)}
    said = Counter(
        name for shown in seen.values() if shown.kind == "bot" and shown.text.startswith(ANSWER)
        for name in names(shown.text)
    )  # fmt: skip
    ended = [message for message in asked if answered[message.name]]
    return [
        _none("messages without an end", sum(not answered[m.name] and m.name not in failed for m in asked)),
        _none("messages with two ends", sum(answered[m.name] + (m.name in failed) > 1 for m in asked)),
        _none("answers in no thread of theirs", _strays(asked, log)),
        _none("answers that people see not once", sum(said[m.name] != 1 for m in ended)),
        _none("texts posted twice", sum(count - 1 for count in log.texts.values())),
        _none("answered messages without exactly one ✅", _wrong_marks(ended, log, seen)),
        _none("failures of which the thread was not told once", abs(len(failed) - log.failed)),
        _info("messages that ended with a failure notice", len(failed)),
    ]


def _reactions(seen: Mapping[tuple[str, str], Seen], message: Asked) -> tuple[str, ...]:
    shown = seen.get((message.channel, message.ts))
    return shown.reactions if shown else ()


def _strays(asked: Sequence[Asked], log: Log) -> int:
    own = {(message.channel, message.thread_ts, message.name) for message in asked}
    return sum(count for where, count in log.answers.items() if where not in own)


def _wrong_marks(ended: Iterable[Asked], log: Log, seen: Mapping[tuple[str, str], Seen]) -> int:
    """Checks marks by the log as well as by sight: a mark that was removed and given again would look right."""
    return sum(
        log.done[message.channel, message.ts] != 1 or _reactions(seen, message).count(_DONE) != 1 for message in ended
    )


def _none(what: str, count: int) -> Figure:
    return Figure(measurement="storm", what=what, value=count, unit="", target=0)


def _info(what: str, count: float, unit: str = "") -> Figure:
    return Figure(measurement="storm", what=what, value=count, unit=unit)
