"""Recorded runs replayed with a fault at every event: what must hold, holds (CONF-04)."""

from __future__ import annotations

import pytest

from swarm.domain.answers.calls import OpenStream
from swarm.domain.answers.events import Finished, Interrupted, StepStatus
from swarm.domain.answers.reducer import StopRequested
from swarm.domain.answers.text import without_markers
from swarm.domain.text.slack_text import safe
from tests.support.recorded import NAMES, Fault, Timed, end_of, recorded, result_of, said_by, with_fault
from tests.support.slack_model import Run
from tests.unit.streaming.test_answers_are_shown_once import plain

pytestmark = [pytest.mark.req("CONF-04"), pytest.mark.req("STREAM-04"), pytest.mark.req("STREAM-07")]


def readable(text: str) -> str:
    """What people read of a text."""
    return seen(safe(without_markers(text)))


def seen(text: str) -> str:
    """A text without blanks, and without the header of the long table, which is repeated after 99 rows."""
    return plain(text).replace("|host|load|memory||---|---|---|", "")


def assert_holds(run: Run, events: list[Timed]) -> None:
    """One honest end, all text once and what the result adds to it, nothing left open, running, or seen by mistake."""
    shown = "".join(run.shown)
    said, result = readable(said_by(events)), readable(result_of(events))
    assert seen(shown).startswith(said)
    assert result.endswith(seen(shown).removeprefix(said))
    assert result in seen(shown)
    assert "FINAL ANSWER" not in shown
    assert "<@U0EVERYONE>" not in shown
    assert not any(message.is_live for message in run.messages)
    assert not any(card.status is StepStatus.IN_PROGRESS for one in run.messages[-1:] for card in one.cards.values())
    end = end_of(events)
    if isinstance(end, Interrupted):
        assert not run.closings  # the answer ends below the question's card
        return
    (closing,) = run.closings
    is_answered = isinstance(end, Finished) and bool(shown.strip())
    assert closing.feedback is is_answered
    assert closing.retry is not (is_answered or isinstance(end, Interrupted))
    assert bool(closing.note) is not is_answered


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_is_shown(name: str) -> None:
    """Without a fault: live, in one stream or more, and nothing is left to posts."""
    events = recorded(name)
    run = Run().play(events)
    assert_holds(run, events)
    assert "secret" not in "".join(run.shown)
    assert seen("".join(run.shown)) == readable(said_by(events))
    assert isinstance(run.calls[0][1], OpenStream)
    assert run.over is not None
    assert not run.over.leftover


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "long" else []) for name in NAMES]
)
def test_a_fault_at_any_event_leaves_an_honest_answer(name: str, fault: Fault) -> None:
    """What was lost is missing, text that came twice is seen twice, and nothing claims success that is none."""
    events = recorded(name)
    for place in range(len(events)):
        heard = with_fault(events, fault, place)
        assert_holds(Run().play(heard), heard)


@pytest.mark.parametrize("name", NAMES)
def test_a_stop_at_any_event_ends_the_run_there(name: str) -> None:
    """What was said before stays."""
    events = recorded(name)
    for place, (at, _) in enumerate(events):
        run = Run().play([*events[:place], (at, StopRequested(by="U1")), *events[place:]])
        assert run.hung_up_at == 1000 + at
        assert [closing.note for closing in run.closings] == ["🛑 Stopped by <@U1>."]
        assert not any(message.is_live for message in run.messages)
