"""What the end of a turn means for its work. No answer gets lost because a model forgot a tool.

The work counts as done only if the CLI said something and no tool was refused. Work that the CLI has settled itself,
with the coordinator's tools, is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.runner.port import TurnEnded, TurnOutcome

NOT_REPORTED: Final = "(delivered by the runner: the agent did not report an end itself)"

NOTHING: Final = "the agent ended without an answer"
_BROKEN: Final = "the agent's program ended without a result"
_ENDED_EARLY: Final = "the agent ended its turn before it was done"


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


def ending_of(turn: TurnEnded, *, shown: str, is_settled: bool, replies: Sequence[str] = ()) -> Ending:
    """Returns what the last turn of a run means. ``shown`` is the text that people have seen already,
    and ``replies`` are the answers to follow-ups."""
    if is_settled:
        return Over()
    rest = missing_text(shown, turn.text)
    if turn.outcome is TurnOutcome.FAILED:
        return NotDone(reason=turn.reason or _BROKEN, rest=rest)
    if turn.refused_tools:
        return NotDone(reason=f"people refused what it needed ({', '.join(turn.refused_tools)})", rest=rest)
    if turn.outcome is TurnOutcome.CANCELLED:  # by the CLI: a run that people stop does not come here
        return NotDone(reason=turn.reason or _ENDED_EARLY, rest=rest)
    if turn.outcome is TurnOutcome.REFUSED:
        return NotDone(reason=turn.reason or "the agent refused", rest=rest)
    answer = (shown + rest).strip()
    if not answer:
        return NotDone(reason=NOTHING)
    return Answered(rest=rest, result="\n\n".join([answer, *replies, NOT_REPORTED]))


def missing_text(shown: str, final: str) -> str:
    """Returns the part of the final text that people have not seen; most CLIs repeat in it what they streamed."""
    final = final.strip()
    if not final or final in shown:
        return ""
    return f"\n\n{final}" if shown.strip() else final
