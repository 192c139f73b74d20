"""Polling and leases over HTTP: the hot routes, implemented as plain ASGI endpoints.

Thousands of polls wait at once. A poll therefore uses only the task of its request, which the server cancels when the
client disconnects. These paths bypass the framework's layers, each of which would keep a frame and an exit stack while
the poll waits. The OpenAPI descriptions of these routes are written by hand (`openapi.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from swarm.domain.errors import Invalid
from swarm.domain.model.agents import Agent
from swarm.domain.model.triggers import LeaseView, Trigger
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_model
from swarm.entrypoints.web.errors import MethodNotAllowed
from swarm.entrypoints.web.identity import Identities, instance_id
from swarm.entrypoints.web.schema import (
    Finish,
    Release,
    Renewal,
)
from swarm.entrypoints.web.server import CLIENT, ClientConnection
from swarm.services.use_cases import Services

_MAX_WAIT_SECONDS: Final = 60
_DEFAULT_WAIT_SECONDS: Final = 25
_MAX_LIMIT: Final = 20
_DEFAULT_LIMIT: Final = 5

_SECONDS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")
_COUNT = re.compile(r"[0-9]{1,4}")
_SWITCH: Final = {"true": True, "1": True, "false": False, "0": False}
_EXPECTED: Final = {
    "wait_seconds": f"a number from 0 to {_MAX_WAIT_SECONDS}",
    "limit": f"a whole number from 1 to {_MAX_LIMIT}",
    "hold": "true or false",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PollRequest:
    """The parameters of a poll."""

    wait_seconds: float = _DEFAULT_WAIT_SECONDS
    limit: int = _DEFAULT_LIMIT
    hold: bool = False


class HotRoutes:
    """``GET /poll`` and ``POST /leases/…``: an ASGI application for exactly its ``paths``."""

    def __init__(self, services: Services, identities: Identities) -> None:
        leases = _LeaseRoutes(services, identities)
        self._routes: dict[str, tuple[str, ASGIApp]] = {
            "/poll": ("GET", PollRoute(services, identities)),
            "/leases/renew": ("POST", _endpoint(leases.renew)),
            "/leases/release": ("POST", _endpoint(leases.release)),
            "/leases/finish": ("POST", _endpoint(leases.finish)),
        }
        self.paths = frozenset(self._routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, route = self._routes[scope["path"]]
        if scope["method"] != method:
            raise MethodNotAllowed(method)
        await route(scope, receive, send)


class PollRoute:
    """``GET /poll``. A client that disconnects while waiting claims nothing."""

    def __init__(self, services: Services, identities: Identities) -> None:
        self._polls = services.polls
        self._identities = identities

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        agent = await self._identities.agent(scope)
        wanted = _parse_poll(scope["query_string"])
        client: ClientConnection = scope[CLIENT]
        triggers = await self._poll_unless_gone(agent, wanted, instance_id(scope), client)
        if triggers is None:
            return
        if triggers and client.has_gone:
            await self._polls.give_back([trigger.lease_token for trigger in triggers])
            return
        await Answer({"triggers": triggers})(scope, receive, send)

    async def _poll_unless_gone(
        self, agent: Agent, wanted: PollRequest, instance: str | None, client: ClientConnection
    ) -> list[Trigger] | None:
        """Returns the triggers, or None if the client disconnected first. In that case the poll was cancelled and
        claimed nothing."""
        poll = asyncio.current_task()
        assert poll is not None
        client.call_on_leave(poll.cancel)
        try:
            return await self._polls.poll(
                agent,
                wait_seconds=wanted.wait_seconds,
                limit=wanted.limit,
                hold=wanted.hold,
                instance_id=instance,
            )
        except asyncio.CancelledError:
            if not client.has_gone or poll.uncancel() > 0:
                raise  # any other cancellation ends this task
            return None
        finally:
            client.call_on_leave(None)


class _LeaseRoutes:
    """``POST /leases/renew``, ``/release`` and ``/finish``."""

    def __init__(self, services: Services, identities: Identities) -> None:
        self._polls = services.polls
        self._work = services.work
        self._identities = identities

    async def renew(self, request: Request) -> Answer:
        agent = await self._identities.agent(request.scope)
        said = await read_model(request, Renewal)
        beat = await self._work.renew(agent, said.tokens, instance_id(request.scope), said.parked_seconds)
        renewed = [LeaseView(token=token, expires_at=until) for token, until in beat.renewed.expiries]
        return Answer({"renewed": renewed, "lost": beat.renewed.lost, "notices": beat.notices})

    async def release(self, request: Request) -> Answer:
        agent = await self._identities.agent(request.scope)
        said = await read_model(request, Release)
        ended = await self._work.release(agent, said.tokens, said.delay_seconds)
        return Answer({"released": ended.ended, "lost": ended.lost})

    async def finish(self, request: Request) -> Answer:
        agent = await self._identities.agent(request.scope)
        said = await read_model(request, Finish)
        client: ClientConnection = request.scope[CLIENT]
        instance = instance_id(request.scope)
        ended = await self._work.finish(agent, said.tokens, said.outcome, said.reason, said.next, instance)
        if ended.triggers and client.has_gone:
            await self._polls.give_back([trigger.lease_token for trigger in ended.triggers])
        following = {"triggers": ended.triggers} if said.next else {}
        return Answer({"finished": ended.ended, "lost": ended.lost, **following})


def _endpoint(respond: Callable[[Request], Awaitable[Answer]]) -> ASGIApp:
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        await (await respond(Request(scope, receive)))(scope, receive, send)

    return endpoint


@lru_cache(maxsize=256)  # agents repeat the same query
def _parse_poll(query: bytes) -> PollRequest:
    """Parses the query of a poll. Raises Invalid, which names every wrong or unknown parameter."""
    if not query:
        return PollRequest()
    said = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    given = dict(said)
    problems = {name: "this parameter does not exist" for name in given if name not in _EXPECTED}
    if len(given) < len(said):
        problems |= {name: "once only" for name, _ in said if sum(other == name for other, _ in said) > 1}
    problems |= {name: _EXPECTED[name] for name, value in given.items() if name in _EXPECTED and not _fits(name, value)}
    if problems:
        raise Invalid(f"Not valid: {', '.join(sorted(problems))}.", fields=problems)
    return _poll_request(given)


def _fits(name: str, value: str) -> bool:
    match name:
        case "wait_seconds":
            return bool(_SECONDS.fullmatch(value)) and float(value) <= _MAX_WAIT_SECONDS
        case "limit":
            return bool(_COUNT.fullmatch(value)) and 1 <= int(value) <= _MAX_LIMIT
        case _:
            return value in _SWITCH


def _poll_request(given: Mapping[str, str]) -> PollRequest:
    return PollRequest(
        wait_seconds=float(given.get("wait_seconds", _DEFAULT_WAIT_SECONDS)),
        limit=int(given.get("limit", _DEFAULT_LIMIT)),
        hold=_SWITCH[given.get("hold", "false")],
    )
