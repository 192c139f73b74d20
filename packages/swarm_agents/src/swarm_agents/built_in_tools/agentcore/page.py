"""Opens a page in a browser over the Chrome DevTools Protocol, and reads it once it has finished loading.

The connection has one reader, which is also the writer: `Cdp.call` reads until its result has arrived, `Cdp.hear` reads
one message. Nothing runs in the background, and abandoning the connection stops everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from websockets.asyncio.client import ClientConnection

MOST_MESSAGE_BYTES: Final = 8 * 1024 * 1024

_SETTLE_SECONDS: Final = 3.0
"""The time during which scripts may fetch more data after a page has loaded."""

_MOST_READ: Final = 400_000
_MOST_LINKS: Final = 60

_READ: Final = """(() => {
  const plain = (text, most) => String(text ?? "").slice(0, most).toWellFormed();
  const body = document.body ?? document.documentElement;
  const text = body?.innerText ?? body?.textContent ?? "";
  const links = [...document.links].filter(link => link.innerText.trim() && /^https?:/.test(link.href));
  return {
    title: plain(document.title, 300),
    address: plain(location.href, 4096),
    kind: plain(document.contentType, 100),
    status: performance.getEntriesByType("navigation")[0]?.responseStatus ?? 0,
    text: plain(text, MOST_READ),
    length: text.length,
    links: links.slice(0, MOST_LINKS).map(link => [plain(link.innerText.trim(), 120), plain(link.href, 500)]),
  };
})()""".replace("MOST_READ", str(_MOST_READ)).replace("MOST_LINKS", str(_MOST_LINKS))
"""Runs in an isolated world, where the page's scripts cannot redefine functions."""

_Hear = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class BrowserError(Exception):
    """A failed command in the browser; the text comes from the browser."""


class Cdp:
    """A connection to a browser. Commands apply to one of its pages; ``hears`` receives every event of the page."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.page = ""  # the protocol's session id; if empty, commands apply to the browser itself
        self.hears: _Hear | None = None

    async def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """Returns the result of a command. Raises BrowserError, and the errors of a broken connection."""
        number = await self.post(method, **parameters)
        while (message := await self.hear()).get("id") != number:
            pass
        if error := message.get("error"):
            raise BrowserError(str(error.get("message", error) if isinstance(error, dict) else error))
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    async def post(self, method: str, **parameters: Any) -> int:
        """Sends a command without waiting for the result. Returns the command's number."""
        message: dict[str, Any] = {"id": next(self._numbers), "method": method, "params": parameters}
        if self.page:
            message["sessionId"] = self.page
        await self._socket.send(json.dumps(message))
        return int(message["id"])

    async def hear(self) -> Mapping[str, Any]:
        """Returns the next message. An event is passed on to ``hears`` first."""
        try:
            message = json.loads(await self._socket.recv())
        except ValueError as error:
            raise BrowserError("it sent something that is not JSON") from error
        if not isinstance(message, dict):
            raise BrowserError("it sent something that is not a message")
        if self.hears and "method" in message and message.get("sessionId", "") == self.page:
            parameters = message.get("params")
            await self.hears(str(message["method"]), parameters if isinstance(parameters, dict) else {})
        return message


class NotOpened(Exception):
    """An error while opening the page; the text is the reason, as a clause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageText:
    """The content of a page."""

    title: str
    address: str  # after redirects
    kind: str  # the media type
    status: int  # HTTP status; 0 if unknown
    text: str
    length: int  # length of the complete text, which may have been cut
    links: tuple[tuple[str, str], ...]  # text and address
    is_loaded: bool  # whether the page had finished loading


class _Loading:
    """The loading state of the page's main document. A redirect by a script resets it."""

    def __init__(self, cdp: Cdp, frame: str) -> None:
        self._cdp = cdp
        self._frame = frame
        self._document = ""
        self.is_loaded = False
        self.is_quiet = False

    def begins(self, document: str) -> None:
        if document != self._document:
            self._document, self.is_loaded, self.is_quiet = document, False, False

    async def hears(self, method: str, parameters: Mapping[str, Any]) -> None:
        if method == "Page.javascriptDialogOpening":  # an open dialog would block the page
            await self._cdp.post("Page.handleJavaScriptDialog", accept=False)
        elif method == "Page.lifecycleEvent" and parameters.get("frameId") == self._frame:
            self._is_at(str(parameters.get("name")), str(parameters.get("loaderId")))

    def _is_at(self, point: str, document: str) -> None:
        if point == "init":
            self.begins(document)
        if document == self._document:
            self.is_loaded |= point == "load"
            self.is_quiet |= point == "networkAlmostIdle"


async def read_page(cdp: Cdp, url: str, *, load_seconds: float, settle_seconds: float = _SETTLE_SECONDS) -> PageText:
    """Opens an address in a new page, waits for the page to load, and reads the content that is available then.

    Raises NotOpened, BrowserError, and the errors of a broken connection.
    """
    target = await cdp.call("Target.createTarget", url="about:blank")
    attached = await cdp.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    cdp.page = str(attached["sessionId"])
    await cdp.call("Page.enable")
    await cdp.call("Page.setLifecycleEventsEnabled", enabled=True)
    tree = await cdp.call("Page.getFrameTree")
    frame = str(tree["frameTree"]["frame"]["id"])
    loading = _Loading(cdp, frame)
    cdp.hears = loading.hears
    await _load(cdp, url, loading, load_seconds)
    if loading.is_loaded:
        await _settle(cdp, loading, settle_seconds)
    return _page(await _evaluated(cdp, frame), is_loaded=loading.is_loaded)


async def _load(cdp: Cdp, url: str, loading: _Loading, seconds: float) -> None:
    has_answered = False
    try:
        async with asyncio.timeout(seconds):
            answer = await cdp.call("Page.navigate", url=url)
            has_answered = True
            if error := answer.get("errorText"):
                raise NotOpened(f"the browser says {error}")
            loading.begins(str(answer.get("loaderId")))
            while not loading.is_loaded:
                await cdp.hear()
    except TimeoutError as error:
        if not has_answered:
            raise NotOpened(f"its server did not answer within {seconds:g} s") from error


async def _settle(cdp: Cdp, loading: _Loading, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not (loading.is_loaded and loading.is_quiet):
                await cdp.hear()


async def _evaluated(cdp: Cdp, frame: str) -> Mapping[str, Any]:
    """Reads the current content of the page. Tries twice, because a redirect may interrupt the first attempt."""
    try:
        return await _evaluate(cdp, frame)
    except BrowserError:
        return await _evaluate(cdp, frame)


async def _evaluate(cdp: Cdp, frame: str) -> Mapping[str, Any]:
    world = await cdp.call("Page.createIsolatedWorld", frameId=frame)
    outcome = await cdp.call(
        "Runtime.evaluate", expression=_READ, contextId=world["executionContextId"], returnByValue=True
    )
    value = outcome.get("result", {}).get("value")
    if not isinstance(value, dict):
        raise BrowserError("the page could not be read")
    return value


def _page(value: Mapping[str, Any], *, is_loaded: bool) -> PageText:
    return PageText(
        title=" ".join(str(value.get("title", "")).split()),
        address=str(value.get("address", "")),
        kind=str(value.get("kind", "")),
        status=int(value.get("status") or 0),
        text=str(value.get("text", "")),
        length=int(value.get("length") or 0),
        links=tuple((" ".join(str(text).split()), str(address)) for text, address in value.get("links") or ()),
        is_loaded=is_loaded,
    )
