"""A Slack twin in the measuring process, which records when messages are sent, acknowledged and posted. Messages are
sent at a steady rate, or as many as possible. People also press buttons, and fill in forms.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from slack_twin import Settings, Twin, build_twin, running
from slack_twin.acts import Act, Outcome
from slack_twin.changes import Change, MessagePosted
from slack_twin.directory import SLACKBOT
from slack_twin.envelopes import Parcel, Reply
from slack_twin.faults import FaultKind
from slack_twin.people import App
from slack_twin.seed import DEFAULT, SeedChannel, SeedUser
from slack_twin.socket_mode import Retry
from slack_twin.surfaces import AppView
from slack_twin.views import View
from slack_twin.workspace import Draft

from swarm_lab.bench.figures import BenchError
from swarm_lab.programs import twin_settings

EVENTS: Final = ("message", "app_mention")
"""The events that Slack sends for a message that mentions the app."""

_ACK_SECONDS: Final = 120.0  # the twin repeats an event immediately, and again a minute later
_CONNECT_SECONDS: Final = 30.0


class Slack:
    """The workspace. By default, one person writes, in each channel in turn."""

    def __init__(self, twin: Twin, base_url: str) -> None:
        directory = twin.workspace.directory
        self._app: App = next(iter(directory.apps.values()))
        self._twin = twin
        self.people = tuple(user for user in directory.users.values() if not user.is_bot and user is not SLACKBOT)
        self._acks: dict[str, asyncio.Future[float]] = {}  # seconds until the acknowledgement, by message timestamp
        self._sent_at: dict[str, float] = {}
        self._numbers = itertools.count()
        self._send, twin.sockets.send = twin.sockets.send, self._timed  # type: ignore[method-assign]
        twin.workspace.listeners.append(self._on_change)
        self.channels = tuple(directory.channels.values())
        self.mention = f"<@{self._app.bot_user}>"
        self.on_post: Callable[[str], None] | None = None  # called with the text of each post of the app
        self.environment = twin_settings(base_url.rstrip("/"))

    async def connected(self, count: int) -> None:
        """Waits until ``count`` coordinators are connected. Raises BenchError after half a minute."""
        until = time.monotonic() + _CONNECT_SECONDS
        while self._twin.sockets.connection_count(self._app.id) < count:
            if time.monotonic() > until:
                raise BenchError("a coordinator did not connect over Socket Mode")
            await asyncio.sleep(0.05)

    def say(
        self, text: str, *, thread_ts: str | None = None, channel: int | None = None, person: int = 0
    ) -> tuple[str, str]:
        """Posts a message, by default in the next channel. Returns the channel's id and the timestamp."""
        number = next(self._numbers) if channel is None else channel
        place = self.channels[number % len(self.channels)]
        posted = self._twin.workspace.post(place, Draft(user=self.people[person].id, text=text, thread_ts=thread_ts))
        return place.id, posted.ts

    async def press(self, person: int, channel: str, ts: str, action_id: str) -> str | None:
        """Presses a button of a message. Returns after the acknowledgement, with the error if there was none in time.

        This is what the twin's ``POST /twin/actions`` does, without HTTP.
        """
        place = self._twin.workspace.directory.channels[channel]
        pressing = self._twin.interactions.presses.on_message(self.people[person], place, ts, Act(action_id=action_id))
        return _error(await pressing)

    async def submit(self, person: int, view_id: str, state: Mapping[str, object]) -> str | None:
        """Submits a person's modal. Returns after the acknowledgement, with the error if the form was not accepted."""
        return _error(await self._twin.interactions.modals.submit(self.people[person], view_id, state))

    def listen(self, on_change: Callable[[Change], None], on_view: Callable[[AppView], None]) -> None:
        """Calls the functions with every change of the workspace, and with every change of a modal."""
        self._twin.workspace.listeners.append(on_change)
        self._twin.workspace.surfaces.listeners.append(on_view)

    async def send(self, text: str) -> float:
        """Posts a message in a new thread. Returns the seconds from the event to its acknowledgement."""
        _, ts = self.say(text)
        return await self._acked(ts)

    async def send_in_first(self, text: str, thread_ts: str | None = None) -> str:
        """Posts a message in the first channel. Returns its timestamp after its acknowledgement."""
        _, ts = self.say(text, thread_ts=thread_ts, channel=0)
        await self._acked(ts)
        return ts

    async def _acked(self, ts: str) -> float:
        acknowledged: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._acks[ts] = acknowledged
        try:
            async with asyncio.timeout(_ACK_SECONDS):
                return await acknowledged
        except TimeoutError as error:
            raise BenchError(f"an event was not acknowledged within {_ACK_SECONDS:.0f} s") from error
        finally:
            del self._acks[ts]
            self._sent_at.pop(ts, None)

    async def send_many(self, texts: Sequence[str], in_flight: int) -> None:
        """Sends messages with at most ``in_flight`` of them unacknowledged; returns when all are acknowledged."""
        left = iter(texts)

        async def sender() -> None:
            for text in left:
                await self.send(text)

        await asyncio.gather(*(sender() for _ in range(in_flight)))

    def addressed(self, agent: str) -> str:
        """Returns a text for the agent with this name."""
        return f"{self.mention} swarm#{agent} please look"

    async def send_to_each_channel(self, agent: str) -> None:
        """Gives one agent a message in each channel, so that the coordinator has asked Slack for all names before the
        measurement."""
        await self.send_many([self.addressed(agent)] * len(self.channels), len(self.channels))

    async def _timed(self, app: App, parcel: Parcel, retry: Retry, *, ignore_ack: bool = False) -> Reply:
        """Replaces the twin's own delivery of an event, and records the time since the first attempt."""
        ts = parcel.ts or ""
        if ts in self._acks:
            self._sent_at.setdefault(ts, time.perf_counter())
        reply = await self._send(app, parcel, retry, ignore_ack=ignore_ack)
        waiting = self._acks.get(ts)
        if waiting and reply.error is None and not waiting.done():
            waiting.set_result(time.perf_counter() - self._sent_at[ts])
        return reply

    def _on_change(self, change: Change) -> None:
        if self.on_post and isinstance(change, MessagePosted) and change.message.app_id:
            self.on_post(change.message.text)

    def duplicate_next(self, event: str) -> None:
        """Sends the next event of a kind twice."""
        self._twin.faults.plan(FaultKind.DUPLICATE, event=event)

    def told_twice(self) -> tuple[int, int]:
        """Returns the number of events that were sent more than once, and the number of all events that the twin
        remembers."""
        attempts = self._twin.delivery.journal.since(0)
        times = Counter(attempt["event_id"] for attempt in attempts if attempt["kind"] in EVENTS)
        return sum(count > 1 for count in times.values()), len(times)

    def calls(self, since: int) -> list[dict[str, Any]]:
        """Returns the calls after a sequence number. Raises BenchError if the twin no longer has some of them."""
        found = self._twin.web_api.journal.since(since)
        if found and found[0]["seq"] != since + 1:
            raise BenchError("the twin has forgotten calls that were not read yet")
        return found

    def messages(self, channel: str, thread_ts: str | None = None) -> list[dict[str, Any]]:
        """Returns the messages of a channel, or of one thread, as people see them."""
        workspace = self._twin.workspace
        return View(workspace).messages(workspace.directory.channels[channel], thread_ts=thread_ts)


def _error(outcome: Outcome) -> str | None:
    return f"{outcome.error} {dict(outcome.errors)}" if outcome.error else None


@asynccontextmanager
async def opened(
    channels: int,
    *,
    rates: bool = False,
    retention: int = 20_000,
    events: tuple[str, ...] | None = None,
    more_people: int = 0,
) -> AsyncIterator[Slack]:
    """Runs a twin with these channels only. ``events`` are the app's subscriptions, by default all of them."""
    places = tuple(SeedChannel(name=f"bench-{number}") for number in range(channels))
    users = (*DEFAULT.users, *(SeedUser(name=f"person-{number}") for number in range(more_people)))
    seed = replace(DEFAULT, users=users, channels=places, apps=(replace(DEFAULT.apps[0], events=events),))
    twin = build_twin(seed=seed, rates=rates, settings=Settings(retention_messages=retention))
    async with running(twin) as base_url:
        yield Slack(twin, base_url)


async def steadily(act: Callable[[int], Awaitable[float]], seconds: float, per_second: float) -> list[float]:
    """Calls ``act`` at a steady rate, however late the results come. Returns the results."""
    begun = time.perf_counter()
    acting = []
    for number in range(int(seconds * per_second)):
        await asyncio.sleep(max(0.0, begun + number / per_second - time.perf_counter()))
        acting.append(asyncio.ensure_future(act(number)))
    return await asyncio.gather(*acting)


async def constantly(act: Callable[[], Awaitable[float]], seconds: float, in_flight: int) -> int:
    """Keeps a fixed number of calls of ``act`` in progress. Returns the number of results."""
    until = time.perf_counter() + seconds

    async def actor() -> int:
        count = 0
        while time.perf_counter() < until:
            await act()
            count += 1
        return count

    return sum(await asyncio.gather(*(actor() for _ in range(in_flight))))
