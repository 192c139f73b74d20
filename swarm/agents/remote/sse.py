"""The events of an answer, as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, cast

import httpx2

from swarm.agents.failures import (
    BROKE_OFF,
    EVENT_TOO_LARGE,
    NOT_A_STREAM,
    GaveUp,
    not_finished_within,
    silent_for,
)

EVENT_BYTES: Final = 1024 * 1024
"""The largest event, and so the longest line."""

BODY_BYTES: Final = 64 * 1024 * 1024

EVENTS_AT_A_STRETCH: Final = 50
"""After so many events, other tasks of the process may run, even if more events are waiting."""


class RunDeadline:
    """The time limit of a run, by the clock of the event loop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.at = asyncio.get_running_loop().time() + seconds


async def event_data(
    response: httpx2.Response, *, silence_seconds: float, deadline: RunDeadline
) -> AsyncGenerator[str, None]:
    """Yields the data of each event until the body ends; an incomplete last event is dropped.

    Comments and events without data are skipped, but count as signs of life. Raises GaveUp for a body other than an
    event stream, for exceeded sizes, for silence, and for a broken connection.
    """
    if not _is_event_stream(response):
        raise GaveUp(NOT_A_STREAM)
    response.encoding = "utf-8-sig"  # always UTF-8, whatever the header; perhaps with a byte order mark
    source = aiter(httpx2.EventSource(response, max_event_size=EVENT_BYTES))
    async with aclosing(cast("AsyncGenerator[httpx2.ServerSentEvent, None]", source)) as events:
        count = 0
        while (event := await _next(events, silence_seconds, deadline)) is not None:
            count += 1
            if count % EVENTS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
            if event.data:
                yield event.data


def _is_event_stream(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


async def _next(
    events: AsyncGenerator[httpx2.ServerSentEvent, None], silence_seconds: float, deadline: RunDeadline
) -> httpx2.ServerSentEvent | None:
    try:
        async with asyncio.timeout_at(deadline.at):
            return await anext(events, None)
    except TimeoutError as error:
        raise GaveUp(not_finished_within(deadline.seconds)) from error
    except httpx2.ReadTimeout as error:
        raise GaveUp(silent_for(silence_seconds)) from error
    except httpx2.SSEError as error:
        raise GaveUp(EVENT_TOO_LARGE) from error
    except (httpx2.HTTPError, OSError) as error:
        raise GaveUp(BROKE_OFF) from error
