"""An answer grows for everybody once others take part in the thread: the stream ends, and posts with updates go on."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from swarm.domain.answers.calls import ANSWERED_BELOW, StreamCall, UpdatePage
from swarm.domain.answers.events import Finished, TextDelta
from swarm.domain.answers.reducer import GrowForAll
from swarm.domain.answers.state import PageMode
from tests.support.every import every
from tests.support.slack_model import Run

pytestmark = pytest.mark.req("STREAM-15")

STREAM, POST = PageMode.STREAM, PageMode.POST


def nth(number: int, fault: str | None, call: StreamCall, count: int) -> str | None:
    return fault if count == number else None


def text(words: str) -> TextDelta:
    return TextDelta(text=words, message_id="m")


def test_the_stream_is_closed_at_once_and_the_rest_grows_by_edits() -> None:
    numbers = [(2.0 + n, text(f"{n} ")) for n in range(6)]
    run = Run().play([(0.0, text("Before. ")), (1.0, GrowForAll()), *numbers, (2.5, GrowForAll()), (9.0, Finished())])
    assert [(message.mode, message.text) for message in run.messages] == [(STREAM, "Before. "), (POST, "0 1 2 3 4 5 ")]
    assert run.messages[0].ended_at is not None
    assert run.messages[0].ended_at < 1001.5
    assert run.closings == [ANSWERED_BELOW]
    edits = [at for at, call in run.calls if isinstance(call, UpdatePage)]
    assert len(edits) >= 3
    assert all(later - earlier >= 1.5 for earlier, later in pairwise(edits[:-1]))


@every("at", [0.0, 0.01, 0.5, 3.0, 3.04])
@every("fault", [None, "applied", "expire"])
def test_nothing_is_lost_or_doubled_wherever_it_comes(at: float, fault: str | None) -> None:
    """Before the first text, while the stream is opened or grows, at the end, and with each kind of trouble."""
    for number in range(1, 5):
        run = Run(fault=partial(nth, number, fault)).play(
            [(at, GrowForAll()), (0.01, text("One.")), (2.0, text(" Two.")), (3.0, Finished())]
        )
        assert " ".join(part.strip() for part in run.shown) == "One. Two."
        assert len(run.closings) == 1


def test_without_a_stream_it_begins_as_a_post() -> None:
    run = Run().play([(0.0, GrowForAll()), (1.0, text("All of it.")), (2.0, Finished())])
    assert [(message.mode, message.text) for message in run.messages] == [(POST, "All of it.")]
