"""What the end of a turn means for its work. No answer gets lost because a model forgot a tool.

The work counts as done only if the CLI said something and no tool was refused. Work that the CLI has settled itself,
with the coordinator's tools, is left as it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from swarm_runner.port import TurnEnded, TurnOutcome

NOT_REPORTED: Final = "(delivered by the runner: the agent did not report an end itself)"

NOTHING: Final = "the agent ended without an answer"
_BROKEN: Final = "the agent's program ended without a result"
_ENDED_EARLY: Final = "the agent ended its turn before it was done"

_NO_ANSWER_CHARACTERS: Final = 300
_LIMIT: Final = re.compile(
    r"(?<!context )(?<!token )\blimit (?:was |is )?(?:reached|exceeded|hit)|\bhit your .{0,30}\blimit"
    r"|\bcredit balance is too low|\bquota exceeded|\bexceeded your .{0,20}quota"
    r"|\binsufficient (?:credits?|quota|balance)|\bout of (?:credits|extra usage)",
    re.IGNORECASE,
)
"""That an account may do no more, for now."""

_NO_ANSWER: Final = re.compile(
    rf"{_LIMIT.pattern}|\bnot logged in|\brun /login"
    r"|\binvalid api key|\bauthentication_error|\bapi error\b|\boverloaded|\bprompt is too long"
    r"|\bcontext (?:window|length) .{0,30}exceeded|\bexceeded retry limit|\bexperiencing high demand"
    r"|\bstream disconnected before completion|^\s*\{\"error\": ?\{",
    re.IGNORECASE,
)
_SPAN: Final = re.compile(r"(\d+) ?(d|h|m)[a-z]*", re.IGNORECASE)
_AFTER: Final = re.compile(r"(?:again|resets?) in ((?:\d+ ?[dhm][a-z]*[ ,and]*)+)", re.IGNORECASE)
_AT: Final = re.compile(
    r"(?:again|resets?)(?: at)? (?:(?P<month>[a-z]{3})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?:\d{4},? )?(?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap]m)(?: \((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"
_MOST_PARKED: Final = timedelta(days=8)  # a limit of a week; a later time is a misunderstanding


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The work is done. ``rest`` is the part of the answer that has not been shown; ``result`` is for a task."""

    rest: str = ""
    result: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotDone:
    """The work is not done. ``reason`` is a clause that people see."""

    reason: str
    rest: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Over:
    """Nothing is left to say: the CLI has settled the work itself."""


Ending = Answered | NotDone | Over


def ending_of(
    turn: TurnEnded, *, shown: str, is_settled: bool, replies: Sequence[str] = (), not_asked: str = ""
) -> Ending:
    """Returns what the last turn of a run means. ``shown`` is the text that people have seen already, ``replies`` are
    the answers to follow-ups, and ``not_asked`` is why people could not be asked about a tool."""
    if is_settled:
        return Over()
    rest = missing_text(shown, turn.text)
    if turn.outcome is TurnOutcome.FAILED:
        return NotDone(reason=turn.reason or _BROKEN, rest=rest)
    if turn.refused_tools:
        tools = ", ".join(turn.refused_tools)
        asked = f"people could not be asked about what it needed ({tools}): {not_asked}"
        return NotDone(reason=asked if not_asked else f"people refused what it needed ({tools})", rest=rest)
    if turn.outcome is TurnOutcome.CANCELLED:  # by the CLI: a run that people stop does not come here
        return NotDone(reason=turn.reason or _ENDED_EARLY, rest=rest)
    if turn.outcome is TurnOutcome.REFUSED:
        return NotDone(reason=turn.reason or "the agent refused", rest=rest)
    answer = (shown + rest).strip()
    if not answer:
        return NotDone(reason=NOTHING)
    return Answered(rest=rest, result="\n\n".join([answer, *replies, NOT_REPORTED]))


def is_no_answer(text: str) -> bool:
    """Whether a short text says that a CLI could not work: a limit, no credit, no login, overload, a long prompt.

    Only for CLIs that are known to say so in place of an answer, if the model has done nothing.
    """
    return len(text) <= _NO_ANSWER_CHARACTERS and _NO_ANSWER.search(text) is not None


def failed_of(reason: str, refused_tools: tuple[str, ...] = (), *, resets_at: float | None = None) -> TurnEnded:
    """Returns a failed turn, with the time at which the account's limit ends if the CLI or the reason tells it."""
    until = resets_at or (_reset_in(reason, datetime.now().astimezone()) if "limit" in reason.lower() else None)
    if until and not time.time() < until < time.time() + _MOST_PARKED.total_seconds():
        until = None
    return TurnEnded(
        outcome=TurnOutcome.FAILED,
        reason=reason,
        refused_tools=refused_tools,
        is_limited=until is not None or _LIMIT.search(reason) is not None,
        resets_at=until,
    )


def _reset_in(text: str, now: datetime) -> float | None:
    """Returns the time that a text tells: "reached|1764262800", "try again in 3 hours", "resets Nov 29, 3pm (UTC)"."""
    if found := re.search(r"\|(\d{10})\b", text):
        return float(found[1])
    if found := _AFTER.search(text):
        units = {"d": 1440, "h": 60, "m": 1}
        return now.timestamp() + 60 * sum(int(n) * units[unit.lower()] for n, unit in _SPAN.findall(found[1]))
    if not (found := _AT.search(text)):
        return None
    try:
        if found["zone"]:
            from zoneinfo import ZoneInfo  # loaded when it is used: it takes half a megabyte

            now = now.astimezone(ZoneInfo(found["zone"]))
        hour = int(found["hour"]) % 12 + 12 * (found["half"].lower() == "pm")
        then = now.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"]:
            month = _MONTHS.index(found["month"].lower()) // 3 + 1
            then = then.replace(month=month, day=int(found["day"]), year=now.year + (month < now.month))
        then += timedelta(minutes=1)  # some second of that minute
        if not found["month"] and then <= now:
            then += timedelta(days=1)
    except (KeyError, ValueError, OSError):  # no such zone, month or day
        return None
    return then.timestamp()


def missing_text(shown: str, final: str) -> str:
    """Returns the part of the final text that people have not seen; most CLIs repeat in it what they streamed."""
    final = final.strip()
    if not final or final in shown:
        return ""
    return f"\n\n{final}" if shown.strip() else final
