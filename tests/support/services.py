"""A service of somebody else that gets our webhooks: a real HTTP server with answers that a test gives in advance."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.doors import serving


@dataclass(frozen=True)
class Call:
    """One call that came."""

    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return orjson.loads(self.raw)


@dataclass
class OtherService:
    """Its address, what came, and the next answers: a status, with headers if need be. Then it accepts everything."""

    base: str = ""
    calls: list[Call] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self, request: Request) -> Response:
        self.calls.append(Call(request.url.path, dict(request.headers), await request.body()))
        self.came.set()
        status, headers = self.answers.pop(0) if self.answers else (202, {})
        return Response(status_code=status, headers=headers)

    async def called(self, times: int, seconds: float = 10) -> list[Call]:
        """The calls, once there are so many."""
        async with asyncio.timeout(seconds):
            while len(self.calls) < times:
                self.came.clear()
                await self.came.wait()
        return self.calls


@contextlib.asynccontextmanager
async def other_service() -> AsyncIterator[OtherService]:
    service = OtherService()
    app = Starlette(routes=[Route("/{path:path}", service.receive, methods=["POST"])])
    async with serving(app) as service.base:
        yield service
