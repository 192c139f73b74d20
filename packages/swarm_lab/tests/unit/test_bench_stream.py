"""The bench of streams judges: what it counts as lost, doubled, late and refused."""

from __future__ import annotations

from typing import Any

import pytest

from swarm_lab.bench.figures import Lag, lag_on
from swarm_lab.bench.streaming_agent import Order, Sent, marks_in, order_in
from swarm_lab.bench.streams import Asked, CallLog, faults, waits
from tests.support.every import every

ORDER = Order(stream=7, deltas=4, per_second=2.5)


def call(seq: int, at: float, method: str, text: str = "", **more: Any) -> dict[str, Any]:
    args = {"thread_ts": "1.1", "chunks": [{"type": "markdown_text", "text": text}]}
    return {"seq": seq, "at": at, "method": method, "args": args, "ok": True, "error": None, "status": 200, **more}


def said(*texts: str) -> list[dict[str, str]]:
    return [{"kind": "bot", "text": text} for text in texts]


def test_an_order_is_read_from_the_message_that_gives_it() -> None:
    assert order_in(f"@swarm {ORDER}") == ORDER
    assert order_in("good morning") is None
    assert list(marks_in(ORDER.text)) == [(7, 0), (7, 1), (7, 2), (7, 3)]


def test_an_answer_over_two_messages_is_whole() -> None:
    assert faults(ORDER, said(ORDER.delta(0) + ORDER.delta(1), (ORDER.delta(2) + ORDER.delta(3)).strip())) == (
        0,
        0,
        False,
    )


@every(
    ("texts", "found"),
    [
        ([ORDER.delta(0) + ORDER.delta(1) + ORDER.delta(3)], (1, 0, True)),
        ([ORDER.text, ORDER.delta(3)], (0, 1, True)),
        ([ORDER.delta(1) + ORDER.delta(0) + ORDER.delta(2) + ORDER.delta(3)], (0, 0, True)),
        ([ORDER.text.replace("words", "word", 1)], (0, 0, True)),
        ([], (4, 0, True)),
    ],
)
def test_what_is_lost_doubled_moved_or_changed_is_found(texts: list[str], found: tuple[int, int, bool]) -> None:
    assert faults(ORDER, said(*texts)) == found


def test_waits_are_taken_from_the_first_call_that_carries_a_delta() -> None:
    log = CallLog()
    log.read(
        [
            call(1, 100.02, "chat.startStream", ORDER.delta(0)),
            call(2, 100.85, "chat.appendStream", ORDER.delta(1) + ORDER.delta(2)),
            call(3, 101.5, "chat.stopStream", ORDER.delta(2) + ORDER.delta(3)),
        ]
    )
    asked = Asked(order=ORDER, channel="C1", ts="1.1", said_at=99.9)
    found = waits([asked], {7: [Sent(asked_at=99.95, at=[100.0, 100.3, 100.6, 101.4])]}, log)
    assert found.deltas == pytest.approx([0.02, 0.55, 0.25, 0.1])
    assert found.firsts == pytest.approx([0.02])
    assert found.to_text == pytest.approx([0.12])
    assert found.ours == pytest.approx([0.07])
    assert found.overdue == pytest.approx([0.03])  # 0.8 s after the stream was begun
    assert log.has_all_of(ORDER)
    assert log.streamed == {"1.1"}


def test_a_refused_call_carries_nothing_and_is_counted() -> None:
    log = CallLog()
    log.read([call(1, 100, "chat.startStream", ORDER.delta(0), ok=False, error="ratelimited", status=429)])
    assert log.refused == {("chat.startStream", "ratelimited (HTTP 429)"): 1}
    assert log.carried_at == {}
    assert not log.streamed


def test_the_lag_of_several_coordinators_is_added_up() -> None:
    row = 'swarm_event_loop_lag_seconds_bucket{le="+Inf"} 3.0'
    assert lag_on(f"{row}\n{row}\n").within == {float("inf"): 6}


def test_lag_is_read_from_the_histogram_of_a_part_of_the_time() -> None:
    def page(*counts: int) -> Lag:
        bounds = ("0.001", "0.01", "+Inf")
        rows = [f'swarm_event_loop_lag_seconds_bucket{{le="{le}"}} {n}.0' for le, n in zip(bounds, counts, strict=True)]
        return lag_on("\n".join(["# TYPE x histogram", *rows, ""]))

    part = page(150, 200, 210).since(page(100, 100, 110))
    assert part.percentile(0.25) == pytest.approx(0.0005)
    assert part.percentile(0.75) == pytest.approx(0.0055)
    assert page(1, 1, 100).percentile(0.99) == pytest.approx(0.01)  # all that is known: more than that
    assert page(0, 0, 0).percentile(0.99) == 0
