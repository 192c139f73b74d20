"""Brings events to apps: over a socket or signed HTTP, again after a failure, with the faults a test asked for.

An app has three seconds to acknowledge. Then it gets the event again: at once, a minute later, five minutes later.
After that the event is dropped. Every attempt is in the journal.
"""

import asyncio
from collections import defaultdict
from typing import Protocol

from swarm.twin.changes import Change
from swarm.twin.clock import Clock
from swarm.twin.errors import Json
from swarm.twin.events import Event, events_for
from swarm.twin.faults import Fault, FaultKind, Faults
from swarm.twin.journal import Attempt, Journal
from swarm.twin.people import App
from swarm.twin.signed_http import SignedHttp
from swarm.twin.socket_mode import Retry, Sockets
from swarm.twin.workspace import Workspace

# Seconds before the first attempt and before each of the three retries.
PAUSES = (0.0, 0.0, 60.0, 300.0)
_HELD_SECONDS = 3.0


class Lane(Protocol):
    """A way to an app."""

    async def send(self, app: App, event: Event, retry: Retry, *, ignore_ack: bool = False) -> str | None:
        """Deliver once; None when acknowledged, else the reason why not."""


class Delivery:
    """One task per event and app, from the change that caused it to its acknowledgement or its end."""

    def __init__(self, workspace: Workspace, sockets: Sockets, http: SignedHttp, faults: Faults) -> None:
        self.journal: Journal[Attempt] = Journal()
        self._workspace = workspace
        self._sockets = sockets
        self._http = http
        self._faults = faults
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: defaultdict[str, list[asyncio.Event]] = defaultdict(list)

    @property
    def _clock(self) -> Clock:
        return self._workspace.clock

    def on_change(self, change: Change) -> None:
        """Start the deliveries that a change causes. Tasks start in this order, so events leave in this order."""
        directory = self._workspace.directory
        for app in directory.apps_in(change.channel):
            for event in events_for(app, change, directory, now=self._clock.now()):
                task = asyncio.get_running_loop().create_task(self._deliver(app, event))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Give up everything that is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, app: App, event: Event) -> None:
        entry, reason = None, ""
        for attempt, pause in enumerate(PAUSES):
            await self._clock.sleep(pause)
            entry = await self._attempt(app, event, Retry(attempt=attempt, reason=reason))
            if entry.acked:
                return
            reason = entry.error or ""
        if entry is not None:
            entry.dropped = True

    async def _attempt(self, app: App, event: Event, retry: Retry) -> Attempt:
        fault = self._faults.for_event((event.type, event.subtype), app.id)
        if fault is not None:
            await self._hold_back(app, fault)
        entry = self.journal.add(_entry(app, event, retry, at=self._clock.now()))
        sending = self._send(app, event, retry, fault)
        if fault is None or fault.kind is not FaultKind.REORDER:
            self._release(app)
        entry.error = await sending
        entry.acked = entry.error is None
        return entry

    async def _hold_back(self, app: App, fault: Fault) -> None:
        """Wait as `delay` and `reorder` ask: for a time, or for the next event of the app."""
        if fault.kind is FaultKind.DELAY:
            await self._clock.sleep(fault.seconds or 1.0)
        elif fault.kind is FaultKind.REORDER:
            overtaken = asyncio.Event()
            self._held[app.id].append(overtaken)
            timer = self._clock.call_at(self._clock.now() + (fault.seconds or _HELD_SECONDS), overtaken.set)
            await overtaken.wait()
            timer.cancel()

    def _release(self, app: App) -> None:
        for overtaken in self._held.pop(app.id, []):
            asyncio.get_running_loop().call_soon(overtaken.set)

    async def _send(self, app: App, event: Event, retry: Retry, fault: Fault | None) -> str | None:
        lane: Lane = self._http if app.request_url else self._sockets
        match fault.kind if fault else None:
            case FaultKind.DROP_ACK:
                return await lane.send(app, event, retry, ignore_ack=True)
            case FaultKind.DUPLICATE:
                self.journal.add(_entry(app, event, retry, at=self._clock.now()))
                outcomes = await asyncio.gather(lane.send(app, event, retry), lane.send(app, event, retry))
                return None if None in outcomes else outcomes[0]
            case FaultKind.CLOSE_SOCKET:
                self._sockets.close_next(app.id, reason=fault.error if fault else None)
                return "socket_closed"
            case FaultKind.SILENT_SOCKET:
                self._sockets.silence(app.id, fault.seconds if fault else None)
        return await lane.send(app, event, retry)


def _entry(app: App, event: Event, retry: Retry, *, at: float) -> Attempt:
    item: Json = event.body
    target = item.get("item")
    channel, ts = item.get("channel"), item.get("ts")
    if isinstance(target, dict):
        channel, ts = target.get("channel"), target.get("ts")
    return Attempt(
        at=at,
        app=app.name,
        kind=event.type,
        subtype=event.subtype,
        event_id=event.event_id,
        channel=channel if isinstance(channel, str) else None,
        ts=ts if isinstance(ts, str) else None,
        attempt=retry.attempt,
    )
