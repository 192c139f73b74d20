"""An answer in a thread of #general, and the calls that show it."""

from __future__ import annotations

from typing import Any

from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AnswerTarget,
    AppendStream,
    Card,
    Chunk,
    CloseStream,
    OpenStream,
    PostPage,
    Text,
    UpdatePage,
)
from swarm.domain.answers.events import StepStatus
from swarm.domain.model.deliveries import DeliveryAccepted
from swarm.slack.outgoing.gateway import Gateway

GENERAL = "C0GENERAL"
RUN = "0193b0c0-6400-7000-8000-000000000000"


def place(thread_ts: str, **more: Any) -> AnswerTarget:
    values: dict[str, Any] = {
        "team": "T0TWIN",
        "channel": GENERAL,
        "thread_ts": thread_ts,
        "is_direct": False,
        "requester": "U000ALICE",
        "agent_name": "lead",
        "run_id": RUN,
    }
    return AnswerTarget(**{**values, **more})


def card(number: int, status: StepStatus = StepStatus.IN_PROGRESS) -> Card:
    return Card(id=f"card-{number}", title=f"Step {number}", status=status)


def opening(*chunks: Chunk, page: int = 1) -> OpenStream:
    return OpenStream(page=page, chunks=chunks or (Text(text="Hello"),))


def appending(ts: str, *chunks: Chunk) -> AppendStream:
    return AppendStream(page=1, ts=ts, chunks=chunks)


def closing(ts: str, *chunks: Chunk, **more: Any) -> CloseStream:
    values: dict[str, Any] = {"page": 1, "closing": NOTHING_BELOW, "text": "", "is_last": True}
    return CloseStream(ts=ts, chunks=chunks, **{**values, **more})


def posting(text: str = "Hello", **more: Any) -> PostPage:
    values: dict[str, Any] = {"page": 1, "cards": (), "closing": NOTHING_BELOW, "is_last": True}
    return PostPage(text=text, **{**values, **more})


def updating(ts: str, text: str = "Hello", **more: Any) -> UpdatePage:
    values: dict[str, Any] = {"page": 1, "cards": (), "closing": NOTHING_BELOW, "is_last": True}
    return UpdatePage(ts=ts, text=text, **{**values, **more})


async def begun(gateway: Gateway, where: AnswerTarget, *chunks: Chunk, page: int = 1) -> str:
    """An open stream's timestamp."""
    answer = await gateway.streams.call(where, opening(*chunks, page=page))
    assert isinstance(answer, DeliveryAccepted)
    assert answer.ts
    return answer.ts
