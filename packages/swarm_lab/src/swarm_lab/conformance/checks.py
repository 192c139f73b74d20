"""The checks. Each check reads the record of an answer, and reports an expectation, a finding and a hint."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.answers.events import Answered, AnswerOutcome, NeedsInput, RunFailed, RunStopped, Withheld
from swarm_lab.conformance.record import OPENS, Record
from swarm_lab.conformance.scenarios import Beyond, Check, Scenario

PASSAGE_CHARACTERS: Final = 120
"""The length of a repeated passage that counts as a fault. Shorter passages may well occur twice in a good answer: a
command, a table row, a refrain."""

_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)  # repeated where a code block continues in another message
_WORD = re.compile(r"\w+")


def words(text: str) -> str:
    """Returns the words of a text, separated by single spaces."""
    return " ".join(_WORD.findall(_FENCE.sub(" ", html.unescape(text)).casefold()))


def said_twice(text: str) -> str:
    """Returns the words of a passage that occurs twice in a text, or an empty string if there is none.

    The length of the passage is `PASSAGE_CHARACTERS`, or half of a short text.
    """
    flat = words(text)
    length = min(PASSAGE_CHARACTERS, (len(flat) - 1) // 2)
    if length <= 0:
        return ""
    first_at: dict[str, int] = {}
    for at in _beginnings(flat, len(flat) - length):
        passage = flat[at : at + length]
        if at - first_at.setdefault(passage, at) >= length:
            return passage
    return ""


def _beginnings(flat: str, last: int) -> Iterator[int]:
    """Yields the positions at which words begin, up to a given position."""
    at = 0
    while 0 <= at <= last:
        yield at
        at = flat.find(" ", at) + 1 or -1


FIRST_SIGN_SECONDS: Final = 30.0
"""The default time limit for the first visible sign of an answer."""

CHUNKS: Final = 3
"""The number of calls of Slack in which the text of a longer answer must arrive."""

MOST_CALLS: Final = 5
SECONDS_PER_CALL: Final = 2.0
"""A growing answer needs about one call in each such period, but no more than `MOST_CALLS` calls."""

_SHOWN: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The result of a check."""

    passed: bool
    expected: str
    seen: str
    hint: str  # advice for fixing the fault


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A check with its result."""

    check: Check | Beyond
    found: Seen

    @property
    def passed(self) -> bool:
        return self.found.passed


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits that the operator chooses."""

    first_sign_seconds: float = FIRST_SIGN_SECONDS


def judge(scenario: Scenario, record: Record, limits: Limits | None = None) -> tuple[Verdict, ...]:
    """Returns the verdicts on one answer, in the order of the scenario's checks."""
    limits = limits or Limits()
    return tuple(Verdict(check=check, found=_CHECKS[check](scenario, record, limits)) for check in scenario.checks)


def _content(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """People see an answer of more than one word."""
    length = min(len(record.text.strip()), len(record.said.strip()))  # a note about a failure is no answer
    return Seen(
        passed=length > scenario.longer_than_characters,
        expected=f"more than {scenario.longer_than_characters} characters in Slack",
        seen=f"{length} characters: {_excerpt(record.text)}" if length else f"no text; {_ending(record.outcome)}",
        hint="Send the answer in TEXT_MESSAGE_CONTENT events, or as the result of RUN_FINISHED. Text between a "
        "NAMESPACE_CONTEXT with a namespace and the next one without a namespace is a sub-agent's and is omitted.",
    )


def _stream(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """A stream is opened with the first text or tool, while the agent is working, and soon enough."""
    opened = next((call for call in record.calls if call.ok and call.method == OPENS), None)
    waited = opened.at - record.asked_at if opened else 0.0
    is_early = opened is not None and opened.at <= record.over_at
    return Seen(
        passed=is_early and waited <= limits.first_sign_seconds,
        expected=f"{OPENS} within {limits.first_sign_seconds:g} s of the question, and before the run's end",
        seen=f"after {waited:.1f} s; the run ended after {_lasted(record)}" if opened else f"no {OPENS}",
        hint="A stream opens with the first TEXT_MESSAGE_CONTENT or TOOL_CALL_START. Send one of them as soon as "
        "there is something to show, not only when the answer is complete.",
    )


def _live(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """Text reaches Slack before the agent's last text, and continues to arrive while the agent writes."""
    before_end = [call for call in record.text_calls if call.at <= record.over_at]
    first, last = (record.pieces[0].at, record.pieces[-1].at) if record.pieces else (0.0, 0.0)
    wanted = max(1, min(MOST_CALLS, int((last - first) / SECONDS_PER_CALL), len(record.pieces) // 2))
    is_live = bool(before_end) and before_end[0].at < last
    spoke = f"{_count(len(record.pieces), 'piece')} of text over {last - first:.1f} s"
    return Seen(
        passed=is_live and len(before_end) >= wanted,
        expected=f"text in Slack before the last piece comes, in at least {_count(wanted, 'call')} before the run ends",
        seen=f"{spoke}; {_count(len(before_end), 'call')} with text before the end, {_first_call(record, last)}",
        hint="Forward the model's tokens as they come, each in its own TEXT_MESSAGE_CONTENT, and flush the response"
        " after each: a buffering proxy or framework has the same effect.",
    )


def _once(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """No passage is shown twice."""
    twice = said_twice(record.text)
    return Seen(
        passed=not twice,
        expected="each passage of the answer once",
        seen=f"twice: {_excerpt(twice)}" if twice else "each passage once",
        hint="Do not send the complete answer again in another text message after its deltas. The result of"
        " RUN_FINISHED and a MESSAGES_SNAPSHOT may repeat it: they are compared, and not shown again.",
    )


def _latched(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """The answer ends properly: the complete text is shown with the footer below it, and nothing changes afterwards."""
    wrong = _unlatched(record)
    return Seen(
        passed=not wrong,
        expected="a finished run, with its complete text in closed messages with a footer, and no change afterwards",
        seen=wrong or "closed, complete, and unchanged since",
        hint="End every run with RUN_FINISHED, or with RUN_ERROR if it failed, and only then close the connection."
        " A slow agent gets more time with --timeout-seconds.",
    )


def _no_tools(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """The question can be answered, or declined, without tools."""
    return Seen(
        passed=not record.tools,
        expected="no tool",
        seen=_tools(record),
        hint="Small talk and questions outside the agent's task need no tool; say so in its instructions.",
    )


def _with_tools(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """The agent uses a tool, and people see the call."""
    cards = sum(message.cards for message in record.messages)
    return Seen(
        passed=bool(record.tools) and cards > 0,
        expected="at least one tool, shown as a card",
        seen=f"{_tools(record)}; {_count(cards, 'card')} in Slack",
        hint="Send TOOL_CALL_START, TOOL_CALL_END and TOOL_CALL_RESULT for each search. If the agent answered "
        "without a tool, its instructions should tell it to look things up.",
    )


def _chunks(scenario: Scenario, record: Record, limits: Limits) -> Seen:
    """A longer answer grows in several steps."""
    return Seen(
        passed=len(record.text_calls) >= CHUNKS,
        expected=f"the text in {CHUNKS} or more calls",
        seen=f"{_count(len(record.text_calls), 'call')} with text, of {_count(len(record.pieces), 'piece')} received",
        hint="Many small TEXT_MESSAGE_CONTENT events, sent while the model writes, make the answer grow; an answer "
        "that is complete in less than a second arrives almost at once.",
    )


_CHECKS: Final[Mapping[Check, Callable[[Scenario, Record, Limits], Seen]]] = {
    Check.CONTENT: _content,
    Check.STREAM: _stream,
    Check.LIVE: _live,
    Check.ONCE: _once,
    Check.LATCHED: _latched,
    Check.NO_TOOLS: _no_tools,
    Check.TOOLS: _with_tools,
    Check.CHUNKS: _chunks,
}


def _unlatched(record: Record) -> str:
    """Returns the reason why an answer is not final, or an empty string if it is final."""
    if not isinstance(record.outcome, Answered):
        return _ending(record.outcome)
    if any(message.is_open for message in record.messages):
        return "a message is still open"
    if not (record.messages and record.messages[-1].has_footer):
        return "there is no footer below the last message"
    if record.messages_later != record.messages or _changed_after_footer(record):
        return "it changed after it was closed"
    said, shown = words(record.said), words(record.markdown)
    if said != shown:
        return f"not the agent's words: {len(said)} characters were received, {len(shown)} are in Slack"
    return ""


def _changed_after_footer(record: Record) -> bool:
    """Whether a call changed the shown text after the footer."""
    shown = [call for call in record.calls if call.ok]
    return any(call.has_footer for call in shown[:-1])


def _ending(outcome: AnswerOutcome) -> str:
    match outcome:
        case Answered():
            return "the run finished"
        case RunFailed(reason=reason):
            return f"the run failed: {reason}"
        case RunStopped():
            return "the run was stopped"
        case NeedsInput():
            return "the run is waiting for people (an interrupt)"
        case Withheld():
            return "the answer was withheld"


def _first_call(record: Record, last: float) -> str:
    if not record.text_calls:
        return "none at all"
    apart = record.text_calls[0].at - last
    return f"the first {abs(apart):.2f} s {'after' if apart > 0 else 'before'} the last piece"


def _tools(record: Record) -> str:
    return f"tools used: {', '.join(dict.fromkeys(record.tools))}" if record.tools else "no tool used"


def _lasted(record: Record) -> str:
    return f"{record.over_at - record.asked_at:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return f"“{flat[:_SHOWN]}…”" if len(flat) > _SHOWN else f"“{flat}”"
