"""Delivers events and people's actions to apps, over a socket or signed HTTP, with the faults of a test.

An app has three seconds to acknowledge. Otherwise the event is sent again immediately, a minute later and five minutes
later, and is then dropped. People's actions (buttons, forms, commands) are sent once. The journal has every attempt.
"""

import asyncio
import secrets
from collections import defaultdict
from typing import Protocol

from slack_twin.changes import Change
from slack_twin.clock import Clock
from slack_twin.envelopes import Parcel, Reply
from slack_twin.events import Event, app_rate_limited, events_for, url_verification
from slack_twin.faults import Fault, FaultKind, Faults
from slack_twin.journal import Attempt, Journal
from slack_twin.limits import Limits, Passage
from slack_twin.people import App
from slack_twin.signed_http import SignedHttp, address_of
from slack_twin.socket_mode import Retry, Sockets
from slack_twin.workspace import Workspace

# The seconds before the first attempt and before each of the three retries.
PAUSES = (0.0, 0.0, 60.0, 300.0)
_HELD_SECONDS = 3.0


class Lane(Protocol):
    """A transport to an app."""

    async def send(self, app: App, parcel: Parcel, retry: Retry, *, ignore_ack: bool = False) -> Reply:
        """Makes one delivery attempt."""


class Delivery:
    """Runs one task for each event and app, from the change until its acknowledgement or its last attempt."""

    def __init__(
        self, workspace: Workspace, sockets: Sockets, http: SignedHttp, faults: Faults, limits: Limits
    ) -> None:
        self.journal: Journal[Attempt] = Journal()
        self._workspace = workspace
        self._sockets = sockets
        self._http = http
        self._faults = faults
        self._limits = limits
        self._tasks: set[asyncio.Task[None]] = set()
        self._challenges: dict[str, asyncio.Task[bool]] = {}  # by request URL, if it answered or may still
        self._held: defaultdict[str, list[asyncio.Event]] = defaultdict(list)

    @property
    def _clock(self) -> Clock:
        return self._workspace.clock

    def on_change(self, change: Change) -> None:
        """Starts the deliveries of a change. Tasks start in this order, so events are sent in this order."""
        workspace, now = self._workspace, self._clock.now()
        directory, base_url, own = workspace.directory, workspace.base_url, workspace.own_events
        for app in directory.apps.values():
            for event in events_for(app, change, directory, base_url=base_url, now=now, own=own):
                self._dispatch(app, event)

    def _dispatch(self, app: App, event: Event) -> None:
        """Starts a delivery, unless the app has reached its hourly limit; reports the limit at most once a minute."""
        match self._limits.take_event(app.id):
            case Passage.REFUSED:
                return
            case Passage.FIRST_REFUSED:
                event = app_rate_limited(app, now=self._clock.now())
            case Passage.FREE:
                pass
        task = asyncio.get_running_loop().create_task(self._deliver(app, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def verify(self, app: App) -> None:
        """Sends the URL challenge to an app without waiting for the response, which the journal records."""
        if app.request_url:
            task = asyncio.get_running_loop().create_task(self._verified(app, app.request_url))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _verified(self, app: App, url: str) -> None:
        """Sends the challenge to a URL once; if nothing responded, sends it again before the next event.

        Slack refuses a URL that fails. The twin sends events anyway, so that an app can be started, or a request
        inspected, without the challenge. The journal records the failure.
        """
        challenge = self._challenges.get(url)
        if challenge is None:
            challenge = self._challenges[url] = asyncio.create_task(self._challenge(app))
        if not await asyncio.shield(challenge) and self._challenges.get(url) is challenge:
            del self._challenges[url]

    async def _challenge(self, app: App) -> bool:
        """Sends the challenge; returns whether there was a response, right or wrong."""
        parcel = url_verification(secrets.token_urlsafe(32))
        entry = self.journal.add(_entry(app, parcel, Retry(), at=self._clock.now()))
        reply = await self._http.send(app, parcel, Retry())
        is_right = reply.error is None and _echoes(reply.body, parcel.id)
        entry.error = reply.error or (None if is_right else "wrong_challenge")
        entry.acked, entry.dropped = is_right, not is_right
        return reply.error not in ("connection_failed", "timeout")

    async def stop(self) -> None:
        """Cancels all deliveries."""
        tasks = [*self._tasks, *self._challenges.values()]
        self._challenges.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, app: App, parcel: Parcel) -> Reply:
        """Makes one delivery attempt for a person who waits; failures are not retried."""
        entry, reply = await self._attempt(app, parcel, Retry())
        entry.dropped = not entry.acked
        return reply

    async def _deliver(self, app: App, event: Parcel) -> None:
        entry, reason = None, ""
        if app.request_url:
            await self._verified(app, app.request_url)
        for attempt, pause in enumerate(PAUSES):
            await self._clock.sleep(pause)
            entry, reply = await self._attempt(app, event, Retry(attempt=attempt, reason=reason))
            if entry.acked:
                return
            reason = reply.error or ""
        if entry is not None:
            entry.dropped = True

    async def _attempt(self, app: App, parcel: Parcel, retry: Retry) -> tuple[Attempt, Reply]:
        fault = self._faults.for_event((parcel.type, parcel.subtype), app.id)
        if fault is not None:
            await self._hold_back(app, fault)
        entry = self.journal.add(_entry(app, parcel, retry, at=self._clock.now()))
        sending = self._send(app, parcel, retry, fault)
        if fault is None or fault.kind is not FaultKind.REORDER:
            self._release(app)
        reply = await sending
        entry.error, entry.acked = reply.error, reply.error is None
        return entry, reply

    async def _hold_back(self, app: App, fault: Fault) -> None:
        """Waits for the faults `delay` and `reorder`: for a time, or for the app's next event."""
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

    async def _send(self, app: App, parcel: Parcel, retry: Retry, fault: Fault | None) -> Reply:
        lane: Lane = self._http if address_of(app, parcel) else self._sockets
        match fault.kind if fault else None:
            case FaultKind.DROP_ACK:
                return await lane.send(app, parcel, retry, ignore_ack=True)
            case FaultKind.DUPLICATE:
                self.journal.add(_entry(app, parcel, retry, at=self._clock.now()))
                replies = await asyncio.gather(lane.send(app, parcel, retry), lane.send(app, parcel, retry))
                return next((reply for reply in replies if reply.error is None), replies[0])
            case FaultKind.CLOSE_SOCKET:
                self._sockets.close_next(app.id, reason=fault.error if fault else None)
                return Reply(error="socket_closed")
            case FaultKind.SILENT_SOCKET:
                self._sockets.silence(app.id, fault.seconds if fault else None)
        return await lane.send(app, parcel, retry)


def _echoes(said: object, challenge: str) -> bool:
    """Returns whether a response contains the challenge: as text, as a form, or in JSON."""
    if not isinstance(said, dict):
        return False
    return said.get("challenge") == challenge or said.get("text") in (challenge, f"challenge={challenge}")


def _entry(app: App, parcel: Parcel, retry: Retry, *, at: float) -> Attempt:
    return Attempt(
        at=at,
        app=app.name,
        kind=parcel.type,
        subtype=parcel.subtype,
        event_id=parcel.id,
        channel=parcel.channel,
        ts=parcel.ts,
        attempt=retry.attempt,
    )
