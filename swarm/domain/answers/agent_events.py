"""The reducer's input from the agent: events become text, cards, a status line and an outcome.

Some agents repeat their complete answer as the final result, some send only the final result, and some send the rest of
the answer in it. `missing_text` finds the part of the final result that has not been shown. The comparison ignores
whitespace, because agents trim and wrap text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, assert_never

from swarm.domain.answers import wording
from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    Card,
    Closing,
    Command,
    HangUp,
    PageBreak,
    PlanTitle,
    Text,
    below_answer,
)
from swarm.domain.answers.events import (
    AgentEvent,
    Answered,
    AnswerOutcome,
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    NeedsInput,
    PlanShown,
    RunFailed,
    RunStopped,
    SourceChanged,
    StepNamed,
    StepStatus,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    Warned,
    Withheld,
)
from swarm.domain.answers.questions import why_unaskable
from swarm.domain.answers.state import Live, Rope, join
from swarm.domain.answers.text import SafeText, without_markers
from swarm_base.characters import strip_invisible
from swarm_base.secrets import without_secrets


@dataclass(frozen=True, kw_only=True, slots=True)
class _MissingText:
    """The part of a final result that is not shown yet. ``goes_on``: it continues the last text message."""

    text: str = ""
    goes_on: bool = False


_SHORT_CHARACTERS: Final = 40
"""A shorter result may occur by chance inside another sentence."""


def missing_text(result: str, shown: str, last: str) -> _MissingText:
    """Returns the part of ``result`` that is in neither ``shown`` (all text) nor ``last`` (the last message)."""
    if not result.strip() or _is_in(result, shown):
        return _MissingText()
    for begun in (shown, last):
        rest = _rest_behind(result, begun)
        if rest is not None:
            return _MissingText(text=rest, goes_on=True)
    return _MissingText(text=result)


def _is_in(result: str, shown: str) -> bool:
    """Whether ``shown`` contains the result as consecutive words; a short result must be a complete line or the very
    end.
    """
    words = _in_words(result)
    if len(words) > _SHORT_CHARACTERS:
        return words in _in_words(shown)
    return _in_words(shown).endswith(words) or any(_in_words(line) == words for line in shown.splitlines())


def _in_words(text: str) -> str:
    return f" {' '.join(text.split())} "


def _rest_behind(result: str, begun: str) -> str | None:
    """Returns the rest of ``result`` after ``begun``, compared without whitespace; None if ``result`` begins
    differently.
    """
    at = 0
    for character in begun:
        if character.isspace():
            continue
        while at < len(result) and result[at].isspace():
            at += 1
        if at >= len(result) or result[at] != character:
            return None
        at += 1
    return result[at:] if begun.strip() else None


MAX_ANSWER_CHARACTERS: Final = 200_000
"""Longer answers are cut off, because they would fill dozens of messages."""

TOO_LONG: Final = f"it is longer than {MAX_ANSWER_CHARACTERS:,} characters and was cut off"

MAX_CARDS: Final = 200
"""The maximum number of cards (tools and steps) per answer; additional cards are not shown."""

_MAX_ID: Final = 200

_ENDED_STEPS: Final = {
    Answered: StepStatus.COMPLETE,
    NeedsInput: StepStatus.PENDING,  # they go on after the decision
}

Step = tuple[Live, tuple[Command, ...]]


def take_event(live: Live, event: AgentEvent, now: float) -> Step:
    """Processes one event. Events after the end of the run are ignored."""
    if live.outcome:
        return live, ()
    match event:
        case TextDelta():
            return _text(live, event, now)
        case TextEnded():
            return _message_ended(live), ()
        case ToolStarted():
            return _tool_started(live, event), ()
        case ToolEnded():
            return _tool_ended(live, event), ()
        case PlanShown():
            return _plan(live, event), ()
        case StepNamed():
            return _with_status(live, wording.doing(event.name)), ()
        case SourceChanged():
            return replace(live, sub_agent=event.sub_agent), ()
        case Warned():
            return live, ()  # for the operator's log only
        case Finished():
            return _finished(live, event, now), ()
        case Interrupted():
            problem = None if event.is_checked else why_unaskable(event.asked)
            return end(live, RunFailed(reason=problem) if problem else NeedsInput(asked=event.asked), now), ()
        case Cancelled():
            return end(live, RunFailed(reason=wording.CANCELLED), now), ()
        case Failed():
            return end(live, RunFailed(reason=event.message), now), ()
        case Broken():
            return end(live, RunFailed(reason=event.reason, comes_again=event.comes_again), now), ()
        case _:
            assert_never(event)


def stop(live: Live, by: str | None, now: float) -> Step:
    """Ends the run at a person's request: the agent is disconnected, and the text shown so far stays."""
    if isinstance(live.outcome, RunStopped) and live.outcome.by is None and by:
        known = RunStopped(by=by)
        return replace(live, outcome=known, closing=_closing(known, "", agent=live.agent_name)), ()
    if live.outcome:
        return live, ()
    return end(live, RunStopped(by=by), now), (HangUp(),)


def seal_page(live: Live) -> Live:
    """Ends the current message after all content so far, which is shown at once. What follows waits for `pass_break`.

    Tools and steps that are running wait, as far as this message shows them, and go on below.
    """
    live = live if live.outcome else _settled(live)
    page = live.flight.page if live.flight else live.page
    here = {card.id for card in (*live.queue, *live.later, *(page.cards if page else ())) if isinstance(card, Card)}
    running = (card for card in live.cards if card.status is StepStatus.IN_PROGRESS and card.id in here)
    waiting = tuple(replace(card, status=StepStatus.PENDING) for card in running)
    number = live.breaks + 1
    return replace(live, breaks=number).queued(*waiting, PageBreak(number=number), urgent=True)


def pass_break(live: Live) -> Live:
    """Lets the content after all page breaks be shown, because the messages between have been posted."""
    return replace(live, passed_breaks=live.breaks)


def end(live: Live, outcome: AnswerOutcome, now: float) -> Live:
    """Ends the run: settles all text held back and sets the closing blocks."""
    live = _settled(live)
    live = _cards_ended(live, _ENDED_STEPS.get(type(outcome), StepStatus.ERROR))
    closing = _closing(outcome, str(live.full_text), agent=live.agent_name)
    return replace(live, outcome=outcome, closing=closing, over_at=now, urgent=True)


def _closing(outcome: AnswerOutcome, text: str, *, agent: str) -> Closing:
    match outcome:
        case Answered():
            return below_answer(text)
        case RunFailed(reason=reason, comes_again=comes_again):
            note = wording.broke_off(reason, is_partial=bool(text.strip()), agent=agent)
            return Closing(note=note, retry=not comes_again)
        case RunStopped(by=by):
            return Closing(note=wording.stopped(by))
        case NeedsInput() | Withheld():  # the card of a question says who is waited for; the answer ends below it
            return NOTHING_BELOW
        case _:
            assert_never(outcome)


def _text(live: Live, delta: TextDelta, now: float) -> Step:
    if live.sub_agent is not None or not delta.text:
        return live, ()
    if live.message_id != delta.message_id:
        live = _begin_message(live, delta.message_id, now)
    room = MAX_ANSWER_CHARACTERS - live.full_text.length
    if len(delta.text) > room:
        return end(_add_text(live, delta.text[:room], now), RunFailed(reason=TOO_LONG), now), (HangUp(),)
    return _add_text(live, delta.text, now), ()


def _begin_message(live: Live, message_id: str, now: float) -> Live:
    """Starts another text message, separated by a blank line."""
    live = _settled(live)
    between = "" if not live.full_text.length or live.full_text.ends_with("\n\n") else "\n\n"
    if between and live.full_text.ends_with("\n"):
        between = "\n"
    return replace(_add_text(live, between, now), message_id=message_id, last=Rope())


def _add_text(live: Live, text: str, now: float) -> Live:
    state, plain, settled = live.text.feed(text)
    is_new = bool(settled) or not live.text.line
    return _with_text(live, state, plain, settled, held_since=now if is_new else live.held_since)


def _settled(live: Live) -> Live:
    """Settles the current line: no more text follows on it."""
    state, plain, settled = live.text.end_line()
    return _with_text(live, state, plain, settled, held_since=live.held_since)


def _with_text(live: Live, state: SafeText, plain: str, settled: str, held_since: float) -> Live:
    """Adds text to the state in a single `replace`, because this is the most frequent operation of a run."""
    added = (Text(text=settled),) if settled else ()
    return replace(
        live,
        text=state,
        full_text=live.full_text + plain,
        last=live.last + plain,
        held_since=held_since,
        queue=live.queue if live.flight else join(live.queue, added),
        later=join(live.later, added) if live.flight else live.later,
        urgent=live.urgent or "\n" in settled,
    )


def _message_ended(live: Live) -> Live:
    if live.sub_agent is not None:
        return live
    return replace(_settled(live), message_id=None, urgent=True)


def _tool_started(live: Live, event: ToolStarted) -> Live:
    live = _with_status(live, wording.using(event.name))
    card = Card(id=_card_id(event.id), title=wording.label(event.name), status=StepStatus.IN_PROGRESS)
    return _show(live, card)


def _with_status(live: Live, text: str) -> Live:
    """Sets the status line, which is shown only until text of the answer is visible."""
    return live if live.pages else replace(live, status_wanted=text)


def _tool_ended(live: Live, event: ToolEnded) -> Live:
    status = StepStatus.ERROR if event.failed else StepStatus.COMPLETE
    return _moved(live, lambda card: card.id == _card_id(event.id), status)


def _plan(live: Live, event: PlanShown) -> Live:
    for step in event.steps[:MAX_CARDS]:
        live = _show(live, Card(id=_card_id(f"plan:{step.id}"), title=wording.label(step.title), status=step.status))
    title = wording.label(event.title) if event.title.strip() else live.plan_title
    if title == live.plan_title:
        return live
    return replace(live, plan_title=title).queued(PlanTitle(title=title))


def _card_id(id_: str) -> str:
    """Returns an id for Slack. Long ids are shortened with a digest, so that ids with equal beginnings stay
    distinct.
    """
    id_ = strip_invisible(id_).strip() or "tool"
    if len(id_) <= _MAX_ID:
        return id_
    digest = sha256(id_.encode()).hexdigest()[:16]
    return f"{id_[: _MAX_ID - len(digest)]}{digest}"


def _cards_ended(live: Live, status: StepStatus) -> Live:
    """Ends all running cards. Steps that never started keep their status."""
    return _moved(live, lambda card: True, status)


def _moved(live: Live, concerns: Callable[[Card], bool], status: StepStatus) -> Live:
    for card in live.cards:
        if card.status is StepStatus.IN_PROGRESS and concerns(card):
            live = _show(live, replace(card, status=status))
    return live


def _show(live: Live, card: Card) -> Live:
    """Queues a new or changed card."""
    known = next((shown for shown in live.cards if shown.id == card.id), None)
    if known == card or (known is None and len(live.cards) >= MAX_CARDS):
        return live
    if known is None:
        cards = (*live.cards, card)
    else:
        cards = tuple(card if shown.id == card.id else shown for shown in live.cards)
    return replace(live, cards=cards).queued(card, urgent=True)


def _finished(live: Live, event: Finished, now: float) -> Live:
    """Ends a successful run. Text of the final result that was not streamed is shown first."""
    live = _settled(live)
    result = without_secrets(without_markers(strip_invisible(event.result or ""))).strip()
    missing = missing_text(result, str(live.full_text), str(live.last))
    if missing.text:
        live = live if missing.goes_on else _begin_message(live, "", now)
        live, _ = _text(replace(live, message_id="", sub_agent=None), TextDelta(text=missing.text), now)
    if live.outcome:
        return live
    is_answered = event.elsewhere or bool(str(live.full_text).strip())
    return end(live, Answered() if is_answered else RunFailed(reason=wording.EMPTY), now)
