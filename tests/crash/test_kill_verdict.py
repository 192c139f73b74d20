"""That the judge of the kill points sees what it must see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from swarm.services.runs.run_ends import STOP_TEXT
from swarm_lab.bench.storm import Asked
from swarm_lab.bench.streaming_agent import Order
from tests.crash.kill_verdict import faults_of_marks, faults_of_posts, faults_of_stream

ORDER = Order(stream=7, deltas=4, per_second=1)
ASKED = Asked(name="s7", channel="C1", ts="1.1", thread_ts="1.1")
NOTE = "⚠️ The coordinator was restarted in the middle of this; the answer starts again below."

Message = dict[str, Any]


def shows(*numbers: int, note: str = "", streaming: bool = False) -> Message:
    """A message with these pieces of the answer."""
    text = "".join(ORDER.delta(number) for number in numbers)
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": note}}] if note else []
    return {"kind": "bot", "text": text, "blocks": blocks, "streaming": streaming}


def button() -> Message:
    return {**shows(), "text": STOP_TEXT}


@pytest.mark.parametrize(
    "thread",
    [
        [shows(0, 1), shows(2, 3)],
        [shows(0, 1, note=NOTE), shows(0, 1), shows(2, 3)],
        [shows(0, 1, note=NOTE), shows(2, note=NOTE), shows(0, 1, 2, 3)],
    ],
    ids=["at once", "one beginning", "a long beginning"],
)
def test_an_answer_that_is_whole_once_is_fine(thread: Sequence[Message]) -> None:
    assert faults_of_stream(thread, ORDER) == []


@pytest.mark.parametrize(
    "thread",
    [
        [],
        [shows(0, 1, 2)],
        [shows(0, 1), shows(3)],
        [shows(0, 1), shows(1, 2, 3)],
        [shows(0, 1, 2, 3, streaming=True)],
        [shows(0, 1, 2, 3, note=NOTE)],
        [shows(0, 1), shows(0, 1, 2, 3)],
        [shows(0, 1, 2, 3), shows(0, 1, 2, 3)],
        [shows(0, 1), shows(2, note=NOTE), shows(0, 1, 2, 3)],
        [shows(0, 1, note=NOTE, streaming=True), shows(0, 1, 2, 3)],
        [shows(0, 1, 2, 3), button()],
    ],
    ids=[
        "none", "cut", "a hole", "a piece twice", "it grows", "disowned", "a beginning that counts", "twice",
        "told too late", "a beginning that grows", "a button",
    ],
)  # fmt: skip
def test_whatever_is_wrong_with_an_answer_is_found(thread: Sequence[Message]) -> None:
    assert len(faults_of_stream(thread, ORDER)) == 1


@pytest.mark.parametrize(
    ("marks", "is_fine"),
    [
        ({"eyes": 1, "white_check_mark": 1}, True),
        ({"white_check_mark": 1}, True),
        ({"eyes": 1}, False),
        ({"eyes": 1, "white_check_mark": 2}, False),
        ({"eyes": 2, "white_check_mark": 1}, False),
        ({"eyes": 1, "white_check_mark": 1, "x": 1}, False),
    ],
)
def test_an_answered_message_has_one_check_mark(marks: dict[str, int], is_fine: bool) -> None:
    reactions = [{"name": name, "users": ["swarm"] * count} for name, count in marks.items()]

    assert (faults_of_marks(ASKED, {"1.1": {"reactions": reactions}}) == []) is is_fine


RUNS = {"d1": "first run", "d2": "second run", "d3": "second run", "d4": None}


@pytest.mark.parametrize(
    ("text", "shown", "count", "is_fine"),
    [
        pytest.param(NOTE, ["d1", "d2"], 2, True, id="two runs were interrupted"),
        pytest.param(NOTE, ["d2", "d3"], 2, False, id="one run says it twice"),
        pytest.param(NOTE, ["d1", "d1"], 2, False, id="one delivery is posted twice"),
        pytest.param(NOTE, ["d1", "d2", "d2"], 3, False, id="of two runs, one says it twice"),
        pytest.param(NOTE, ["d1"], 2, False, id="the second one was deleted"),
        pytest.param(NOTE, ["d1", "d4"], 2, False, id="one of no run"),
        pytest.param(NOTE, ["d4", None], 2, False, id="of no run at all"),
        pytest.param(STOP_TEXT, [], 2, True, id="each run has its Stop button"),
    ],
)
def test_a_text_is_posted_once_by_each_run_that_says_it(
    text: str, shown: Sequence[str | None], count: int, *, is_fine: bool
) -> None:
    rows = [{"id": name, "closing": run and json.dumps({"place": {"run_id": run}})} for name, run in RUNS.items()]
    thread = [
        {"text": text, "metadata": name and {"event_type": "swarm_delivery", "event_payload": {"delivery_id": name}}}
        for name in shown
    ]

    found = faults_of_posts({("C1", "1.1", text): count}, {("C1", "1.1"): thread}, rows)

    assert (found == []) is is_fine
