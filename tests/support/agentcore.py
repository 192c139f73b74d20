"""Amazon Bedrock AgentCore on this machine: what the real SDK needs of it, over real HTTP and a real websocket.

Sessions of browsers and interpreters, the framed stream of an interpreter's results, events and records of a memory,
and a browser's automation endpoint that speaks the DevTools protocol for one scripted page::

    async with fake_agentcore() as aws:
        aws.results = [{"content": [{"type": "text", "text": "42"}]}]
        aws.fails["StopBrowserSession"] = Fails(503, "InternalServerException")
        aws.holds["InvokeCodeInterpreter"] = asyncio.Event()     # no answer before it is set
        ...
        assert not aws.running

`environment` leads the SDK there. The SDK's own address of a websocket is always AWS's: `FakeAgentCore.automation`
takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import json
import struct
import warnings
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from aiohttp import WSMsgType, web

REGION = "eu-central-1"
MEMORY_ID = "notes-0123456789"

BROWSERS, INTERPRETERS = "browsers", "code-interpreters"


@dataclass(frozen=True, kw_only=True)
class Fails:
    """An error as AWS answers it."""

    status: int = 400
    code: str = "ValidationException"
    message: str = "it is wrong"


@dataclass
class Page:
    """What the browser shows, and how it behaves."""

    title: str = "A page"
    text: str = "Some text."
    links: Sequence[Sequence[str]] = ()
    address: str | None = None  # where it ends up; None: where it was sent
    kind: str = "text/html"
    status: int = 200
    error: str = ""  # of the navigation
    is_answered: bool = True  # whether the navigation is
    loads: bool = True
    has_dialog: bool = False  # one that must be answered before it loads
    goes_on: bool = False  # to a second document, by itself
    garbage: Sequence[str] = ()  # sent before the answer to the navigation
    breaks: bool = False  # the connection, at the navigation


@dataclass
class FakeAgentCore:
    """The service, what it has been asked, and what it does."""

    url: str = ""
    requests: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)  # operation, body
    running: set[tuple[str, str]] = field(default_factory=set)  # kind and session id
    started: list[tuple[str, str]] = field(default_factory=list)
    fails: dict[str, Fails] = field(default_factory=dict)
    holds: dict[str, asyncio.Event] = field(default_factory=dict)
    arrived: dict[str, asyncio.Event] = field(default_factory=dict)  # set when an operation is asked for
    results: list[Mapping[str, Any]] = field(default_factory=list)
    stream_fails: Fails | None = None  # after the results, within the stream
    cut: bool = False  # the stream, in the middle of its last frame
    events: list[dict[str, Any]] = field(default_factory=list)  # oldest first
    records: list[dict[str, Any]] = field(default_factory=list)
    page: Page = field(default_factory=Page)
    refused_sockets: int = 0  # so many websockets are answered 503
    sockets: int = 0  # open ones
    socket_headers: list[Mapping[str, str]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def reset(self) -> None:
        """As it was at first. A session that a test left running is gone."""
        url = self.url
        self.__dict__.update(FakeAgentCore(url=url).__dict__)

    def asked(self, operation: str) -> list[Mapping[str, Any]]:
        """The bodies of all requests for an operation."""
        return [body for name, body in self.requests if name == operation]

    def arrives(self, operation: str) -> asyncio.Event:
        """Set once it has been asked for."""
        return self.arrived.setdefault(operation, asyncio.Event())

    def automation(self, browser: Any) -> tuple[str, Mapping[str, str]]:
        """Where a browser's websocket is: here. The headers are those that the package has made."""
        _, headers = browser.generate_ws_headers()
        return f"{self.url.replace('http', 'ws')}/automation/{browser.session_id}", headers

    async def serve(self, operation: str, request: web.Request) -> Mapping[str, Any] | None:
        """Note the request and do what is scripted for the operation; None: go on."""
        body = await request.json() if request.can_read_body else {}
        self.requests.append((operation, body))
        self.arrives(operation).set()
        if hold := self.holds.get(operation):
            await hold.wait()
        if fails := self.fails.get(operation):
            answer = {"message": fails.message, "Message": fails.message}
            headers = {"x-amzn-ErrorType": fails.code}
            raise _failure(fails.status, json.dumps(answer), headers)
        return dict(body)

    # --- sessions

    async def start(self, request: web.Request) -> web.Response:
        """Start a session of either kind."""
        kind = request.match_info["kind"]
        await self.serve("StartBrowserSession" if kind == BROWSERS else "StartCodeInterpreterSession", request)
        session = (kind, f"S{next(self._numbers)}")
        self.running.add(session)
        self.started.append(session)
        names = {BROWSERS: "browserIdentifier", INTERPRETERS: "codeInterpreterIdentifier"}
        stream = {"streamEndpoint": "wss://example.invalid/x", "streamStatus": "ENABLED"}
        return web.json_response(
            {
                names[kind]: request.match_info["id"],
                "sessionId": session[1],
                "createdAt": "2026-11-22T00:00:00Z",
                "streams": {"automationStream": stream},
            }
        )

    async def stop(self, request: web.Request) -> web.Response:
        """Stop one. Twice is an error, as it is at AWS."""
        kind = request.match_info["kind"]
        await self.serve("StopBrowserSession" if kind == BROWSERS else "StopCodeInterpreterSession", request)
        session = (kind, request.query["sessionId"])
        if session not in self.running:
            raise _failure(404, '{"message": "no such session"}', {"x-amzn-ErrorType": "ResourceNotFoundException"})
        self.running.discard(session)
        return web.json_response({"sessionId": session[1], "lastUpdatedAt": "2026-11-22T00:00:00Z"})

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        """Run code: the scripted results, framed."""
        await self.serve("InvokeCodeInterpreter", request)
        response = web.StreamResponse(headers={"Content-Type": "application/vnd.amazon.eventstream"})
        await response.prepare(request)
        frames = [_frame("event", "result", result) for result in self.results]
        if self.stream_fails:
            frames.append(_frame("exception", self.stream_fails.code, {"message": self.stream_fails.message}))
        data = b"".join(frames)
        await response.write(data[:-7] if self.cut else data)
        if stays := self.holds.get("results"):
            await stays.wait()
        await response.write_eof()
        return response

    # --- memory

    async def create_event(self, request: web.Request) -> web.Response:
        """Store."""
        body = await self.serve("CreateEvent", request)
        assert body is not None
        event = {**body, "memoryId": request.match_info["memory"], "eventId": f"{next(self._numbers)}#ab"}
        self.events.append(event)
        return web.json_response({"event": event}, status=201)

    async def list_events(self, request: web.Request) -> web.Response:
        """Latest first, one on each page."""
        await self.serve("ListEvents", request)
        body = await request.json()
        at = int(body.get("nextToken") or 0)
        latest = self.events[::-1]
        more = {"nextToken": str(at + 1)} if at + 1 < len(latest) else {}
        return web.json_response({"events": latest[at : at + 1], **more})

    async def retrieve(self, request: web.Request) -> web.Response:
        """All records."""
        await self.serve("RetrieveMemoryRecords", request)
        return web.json_response({"memoryRecordSummaries": self.records})

    # --- the browser

    async def automate(self, request: web.Request) -> web.StreamResponse:
        """The DevTools protocol."""
        self.socket_headers.append(dict(request.headers))
        if self.refused_sockets:
            self.refused_sockets -= 1
            return web.Response(status=503)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets += 1
        try:
            await _Tab(self, socket).run()
        finally:
            self.sockets -= 1
        return socket


class _Tab:
    """One page of the browser."""

    def __init__(self, aws: FakeAgentCore, socket: web.WebSocketResponse) -> None:
        self._aws = aws
        self._page = aws.page
        self._socket = socket
        self._url = "about:blank"

    async def run(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                command = json.loads(message.data)
                self._aws.commands.append(command["method"])
                self._aws.arrives(command["method"]).set()
                await self._do(command)

    async def _do(self, command: Mapping[str, Any]) -> None:
        results: Mapping[str, Mapping[str, Any]] = {
            "Target.createTarget": {"targetId": "T"},
            "Target.attachToTarget": {"sessionId": "P"},
            "Page.getFrameTree": {"frameTree": {"frame": {"id": "F", "loaderId": "L0"}}},
            "Page.createIsolatedWorld": {"executionContextId": 7},
        }
        method = command["method"]
        if method != "Target.createTarget" and method != "Target.attachToTarget":
            assert command["sessionId"] == "P"
        if method == "Page.navigate":
            await self._navigate(command)
        elif method == "Runtime.evaluate":
            await self._answer(command, {"result": {"type": "object", "value": self._read()}})
        else:
            await self._answer(command, results.get(method, {}))
        if method == "Page.handleJavaScriptDialog":
            await self._load("L1")

    async def _navigate(self, command: Mapping[str, Any]) -> None:
        page, self._url = self._page, command["params"]["url"]
        for text in page.garbage:
            await self._socket.send_str(text)
        if page.breaks:
            transport = self._socket._req.transport  # type: ignore[union-attr]
            assert transport is not None
            transport.abort()
            return
        if not page.is_answered:
            return
        await self._point("load", "L0")  # of the page before
        await self._answer(
            command, {"frameId": "F", "loaderId": "L1"} | ({"errorText": page.error} if page.error else {})
        )
        if page.has_dialog:
            await self._event("Page.javascriptDialogOpening", {"message": "Hello?"})
        elif page.loads and not page.error:
            await self._load("L1")
            if page.goes_on:
                await self._point("init", "L2")
                await self._load("L2")

    def _read(self) -> Mapping[str, Any]:
        page = self._page
        return {
            "title": page.title,
            "address": page.address or self._url,
            "kind": page.kind,
            "status": page.status,
            "text": page.text,
            "length": len(page.text),
            "links": [list(link) for link in page.links],
        }

    async def _load(self, document: str) -> None:
        for point in ("init", "DOMContentLoaded", "load", "networkAlmostIdle"):
            await self._point(point, document)

    async def _point(self, name: str, document: str) -> None:
        await self._event("Page.lifecycleEvent", {"frameId": "F", "loaderId": document, "name": name, "timestamp": 1})

    async def _event(self, method: str, parameters: Mapping[str, Any]) -> None:
        await self._socket.send_json({"method": method, "params": parameters, "sessionId": "P"})

    async def _answer(self, command: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        await self._socket.send_json({"id": command["id"], "result": result, "sessionId": command.get("sessionId", "")})


@contextlib.asynccontextmanager
async def fake_agentcore() -> AsyncIterator[FakeAgentCore]:
    """The service on a free port."""
    aws = FakeAgentCore()
    app = web.Application()
    routes: Sequence[tuple[str, str, Callable[[web.Request], Awaitable[web.StreamResponse]]]] = (
        ("PUT", "/{kind:browsers|code-interpreters}/{id}/sessions/start", aws.start),
        ("PUT", "/{kind:browsers|code-interpreters}/{id}/sessions/stop", aws.stop),
        ("POST", "/code-interpreters/{id}/tools/invoke", aws.invoke),
        ("POST", "/memories/{memory}/events", aws.create_event),
        ("POST", "/memories/{memory}/actor/{actor}/sessions/{session}", aws.list_events),
        ("POST", "/memories/{memory}/retrieve", aws.retrieve),
        ("GET", "/automation/{session}", aws.automate),
    )
    for method, path, handler in routes:
        app.router.add_route(method, path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    aws.url = f"http://127.0.0.1:{port}"
    try:
        yield aws
    finally:
        for hold in aws.holds.values():
            hold.set()
        await runner.cleanup()


def environment(patch: pytest.MonkeyPatch, url: str, *, has_credentials: bool = True) -> None:
    """Lead AWS's SDK to an address and nowhere else, with credentials of no value or with none."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        patch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, "/dev/null")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("BEDROCK_AGENTCORE", "BEDROCK_AGENTCORE_CONTROL"):
        patch.setenv(f"AWS_ENDPOINT_URL_{name}", url)
    for name, value in (("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "no-secret")):
        if has_credentials:
            patch.setenv(name, value)
        else:
            patch.delenv(name, raising=False)
    patch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the environment that it was made in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own, when it is imported first
        importlib.import_module("bedrock_agentcore.memory")
        importlib.import_module("bedrock_agentcore.tools")


def _failure(status: int, text: str, headers: Mapping[str, str]) -> web.HTTPException:
    class Failure(web.HTTPException):
        status_code = status

    return Failure(text=text, headers=headers, content_type="application/json")


def _frame(message: str, kind: str, payload: Mapping[str, Any]) -> bytes:
    """One message in AWS's event stream encoding."""
    names = {":message-type": message, f":{message}-type": kind, ":content-type": "application/json"}
    headers = b"".join(_header(name, value) for name, value in names.items())
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    start = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return start + struct.pack(">I", zlib.crc32(start))


def _header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
