"""The checks beyond the 22: plans, parallel searches, isolated caps, and questions that people answer.

They are reported apart, because an agent may well do without plans and questions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from swarm.domain.answers import wording
from swarm.domain.answers.events import Answered, Asked, NeedsInput, PlanShown
from swarm.domain.answers.questions import is_approval
from swarm.domain.model.requests import FieldType
from swarm_lab.conformance.checks import Seen, Verdict, said_twice, words
from swarm_lab.conformance.record import Record, ToolUse
from swarm_lab.conformance.scenarios import ANSWER, Beyond, Scenario

SEARCH: Final = "search"
FETCH: Final = "fetch"
"""Parts of the names of the tools that search, and that read a document."""

_LIMIT: Final = re.compile(r"\b(?:limit|cap|maximum|too (?:often|many)|as often as)", re.IGNORECASE)
_REFUSAL_CHARACTERS: Final = 600
"""A longer result is what a tool has found, whatever words are in it."""


def judge_beyond(scenario: Scenario, record: Record) -> tuple[Verdict, ...]:
    """Returns the verdicts beyond the 22 checks, in the scenario's order."""
    return tuple(Verdict(check=check, found=_CHECKS[check](scenario, record)) for check in scenario.beyond)


def _plan(scenario: Scenario, record: Record) -> Seen:
    """People see the steps of a plan, and that they change."""
    plans = [heard.event for heard in record.heard if isinstance(heard.event, PlanShown)]
    titles = {wording.label(step.title) for plan in plans for step in plan.steps}
    shown: dict[str, list[str]] = {}
    for call in record.calls:
        for title, status in call.cards if call.ok else ():
            if title in titles and call.at <= record.over_at:  # at the end, the rest is shown as complete in any case
                shown.setdefault(title, []).append(status)
    changed = [title for title, statuses in shown.items() if len(set(statuses)) > 1]
    return Seen(
        passed=len(shown) > 1 and bool(changed),
        expected="two or more steps of a plan in Slack, and at least one of them with a new status later",
        seen=f"{len(shown)} steps, {len(changed)} of them changed" if plans else "no plan",
        hint="Send the plan as `todos` in the state, or with a tool that writes it (write_todos), and send it again "
        "whenever a step begins or ends.",
    )


def _parallel(scenario: Scenario, record: Record) -> Seen:
    """Several searches are under way at once."""
    searches = _uses(record, SEARCH)
    most = max((_at_once(search, searches) for search in searches), default=0)
    return Seen(
        passed=most > 1,
        expected="two searches or more in one turn of the model",
        seen=f"{len(searches)} searches, at most {most} at once",
        hint="Let the model call tools in parallel, and run the calls of one turn at the same time: a comparison needs "
        "a search for each side. TOOL_CALL_RESULT comes after the TOOL_CALL_START of all of them.",
    )


def _at_once(search: ToolUse, searches: Sequence[ToolUse]) -> int:
    """Returns the number of searches that had begun, and not ended, when this one began."""
    return sum(
        other.began <= search.began and (other.ended is None or other.ended > search.began) for other in searches
    )


def _caps(scenario: Scenario, record: Record) -> Seen:
    """With the cap of the search reached, the capped call names its tool, documents are still read, and there is an
    answer.
    """
    capped = [use for use in _uses(record, SEARCH) if _is_capped(use)]
    named = [use for use in capped if use.name.casefold() in use.result.casefold()]
    read = [use for use in _uses(record, FETCH) if not use.failed and not _is_capped(use)]
    last = capped[0].ended if capped else None
    later = [use for use in read if last is not None and use.ended is not None and use.ended > last]
    has_answer = isinstance(record.outcome, Answered) and bool(record.text.strip())
    return Seen(
        passed=bool(capped) and len(named) == len(capped) and bool(later) and has_answer,
        expected="a search whose cap is reached and that names its tool, a document read after that, and an answer",
        seen=_seen_caps(capped, named, later) if capped else "no search had reached its cap",
        hint="Start the agent with SEARCH_MAX_CALLS=1. A call that is capped needs a normal TOOL_CALL_RESULT, which "
        "names the tool that has reached its limit; the limit must count for this tool only.",
    )


def _seen_caps(capped: Sequence[ToolUse], named: Sequence[ToolUse], later: Sequence[ToolUse]) -> str:
    reading = f"{len(later)} documents were read afterwards"
    return f"{len(capped)} searches were capped, {len(named)} of them say the tool; {reading}"


def _is_capped(use: ToolUse) -> bool:
    return len(use.result) <= _REFUSAL_CHARACTERS and _LIMIT.search(use.result) is not None


def _uses(record: Record, name: str) -> list[ToolUse]:
    return [use for use in record.tool_uses if name in use.name.casefold()]


def _question(scenario: Scenario, record: Record) -> Seen:
    """The agent asks a person something that can be shown as a form."""
    asked = list(_asked(record))
    forms = [one for one in asked if not _is_about_call(one) and one.prompt.strip()]
    return Seen(
        passed=bool(forms),
        expected="a run that ends with a question, with its text and its fields",
        seen=_seen_asked(asked),
        hint="End the run with RUN_FINISHED and the outcome `interrupt`; the interrupt has a message, and as its "
        "response schema what is to be filled in.",
    )


def _approval(scenario: Scenario, record: Record) -> Seen:
    """The agent asks before it acts, and shows the call."""
    asked = list(_asked(record))
    approvals = [one for one in asked if _is_about_call(one) and one.tool and one.tool.name]
    made = _made_before(record)
    return Seen(
        passed=bool(approvals) and not made,
        expected="a run that ends with an approval, which shows the call of the tool, before the call is made",
        seen=f"{made} was called before it was approved" if made else _seen_asked(asked),
        hint="End the run with an interrupt for the call before it is made: with its toolCallId, and a response schema "
        "with `approved`. A TOOL_CALL_RESULT comes after the approval.",
    )


def _made_before(record: Record) -> str:
    """Returns the name of a tool with a result in the run that asks whether it may be called; empty if there is
    none."""
    for run in record.before:
        wanted = {asked.tool.name for asked in _asked_by(run) if asked.tool}
        if made := next((use.name for use in run.tool_uses if use.result and use.name in wanted), ""):
            return made
    return ""


def _resumed(scenario: Scenario, record: Record) -> Seen:
    """When all is answered, the run goes on in its conversation and says how it ended."""
    length = min(len(record.text.strip()), len(record.said.strip()))
    again = len(record.before) - len({one.id for one in _asked(record)})
    is_over = isinstance(record.outcome, Answered) and bool(record.before)
    wrong = [] if isinstance(record.outcome, Answered) else ["and no end"]
    wrong += ["of which a passage comes twice"] if said_twice(record.text) else []
    wrong += [f"but not what people had answered: “{ANSWER}”"] if _is_unused(record) else []
    wrong += ["and the same was asked again"] if again > 0 else []
    return Seen(
        passed=is_over and length > scenario.longer_than_characters and not wrong,
        expected=f"an answer of more than {scenario.longer_than_characters} characters after the resume, with what "
        "people have answered",
        seen=", ".join([f"{len(record.before)} questions were answered; then {length} characters", *wrong]),
        hint="A resume has the answers to all interrupts of the last run. Go on where the run ended, use the answers, "
        "do not ask or say the same again, and end with RUN_FINISHED.",
    )


def _is_unused(record: Record) -> bool:
    """Whether people have answered in a text field, and neither a call nor the answer contains it."""
    asked = list(_asked(record))
    if not any(
        field.type in (FieldType.TEXT, FieldType.TEXTAREA)
        for one in asked
        if not _is_about_call(one)
        for field in one.fields
    ):
        return False
    calls = (str(dict(one.tool.arguments)) for one in asked if one.tool)
    return words(ANSWER) not in words(" ".join([record.text, *calls]))


def _asked(record: Record) -> Iterator[Asked]:
    for run in (*record.before, record):
        yield from _asked_by(run)


def _asked_by(run: Record) -> Sequence[Asked]:
    return run.outcome.asked if isinstance(run.outcome, NeedsInput) else ()


def _is_about_call(asked: Asked) -> bool:
    return asked.tool is not None or is_approval(asked)


def _seen_asked(asked: Sequence[Asked]) -> str:
    kinds = ["an approval" if _is_about_call(one) else "a question" for one in asked]
    return f"asked: {', '.join(kinds)}" if kinds else "nobody was asked"


_CHECKS: Final[Mapping[Beyond, Callable[[Scenario, Record], Seen]]] = {
    Beyond.PLAN: _plan,
    Beyond.PARALLEL: _parallel,
    Beyond.CAPS: _caps,
    Beyond.QUESTION: _question,
    Beyond.APPROVAL: _approval,
    Beyond.RESUMED: _resumed,
}
