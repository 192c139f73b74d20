"""What a piece of an answer costs does not grow with the answer (STREAM-05)."""

from __future__ import annotations

import sys

import pytest

from swarm.domain.answers.calls import Slot
from swarm.domain.answers.events import TextDelta
from swarm.domain.answers.reducer import AgentEventReceived, SlotGranted, begin, step
from swarm.domain.answers.sending import wake_at
from swarm.domain.answers.state import Live

pytestmark = pytest.mark.req("STREAM-05")

TEXTS = {
    "words": "word and another, some lines.\n",
    "one line": "word and another ",
    "one word": "abcdefghij",
    "code": "line_of = code(1)\n",
    "open backticks": "`a ",
    "open brackets": "a<",
    "an address": "https://abcdefghijklmnopqrstuvwxyz0123456789",
    "at signs": "@",
}


def heard(live: Live, text: str) -> Live:
    """The state after a text in pieces of four characters; the call that opens the stream never ends."""
    for at in range(0, len(text), 4):
        live, _ = step(live, AgentEventReceived(event=TextDelta(text=text[at : at + 4])), 1.0 + at / 1e6)
        wake_at(live, 1.0)
    return live


def calls_of(live: Live, text: str) -> int:
    """How many functions of Python are called for a text."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        heard(live, text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", TEXTS)
def test_the_last_pieces_of_a_long_text_cost_what_the_first_did(name: str) -> None:
    """With Slack away, so that everything waits; neither is much text held back, nor does the work per piece grow."""
    text = (TEXTS[name] * 2_000)[:1_000]
    early, _ = step(begin(0.0)[0], SlotGranted(slot=Slot.OPEN), 0.0)
    early = heard(early, text)
    late = heard(early, text * 8)
    assert len(late.text.line) <= 3_100
    assert len(late.queue) + len(late.later) <= 42_000 * 5 / 4_000 + 4  # an escape takes up to five characters
    assert calls_of(late, text) <= calls_of(early, text) * 1.5
