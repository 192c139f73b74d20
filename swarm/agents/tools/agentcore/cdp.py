"""The Chrome DevTools Protocol over a websocket: commands, their results, and events.

One reader, who is also the writer: `call` reads until its result has come, `hear` reads one message. So nothing runs
beside it, and whoever stops using it has stopped it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from websockets.asyncio.client import ClientConnection

MOST_MESSAGE_BYTES: Final = 8 * 1024 * 1024

Hear = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class BrowserError(Exception):
    """The browser does not do what it was asked for; the text is its own."""


class Cdp:
    """A connection to a browser, and the page in it that commands are for.

    ``hears`` is told of every event of that page.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.page = ""  # the protocol's session id; empty: commands are for the browser itself
        self.hears: Hear | None = None

    async def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """The result of a command. Raises BrowserError, and what the connection raises when it breaks."""
        number = await self.post(method, **parameters)
        while (message := await self.hear()).get("id") != number:
            pass
        if error := message.get("error"):
            raise BrowserError(str(error.get("message", error) if isinstance(error, dict) else error))
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    async def post(self, method: str, **parameters: Any) -> int:
        """Send a command whose result nobody waits for; its number."""
        message: dict[str, Any] = {"id": next(self._numbers), "method": method, "params": parameters}
        if self.page:
            message["sessionId"] = self.page
        await self._socket.send(json.dumps(message))
        return int(message["id"])

    async def hear(self) -> Mapping[str, Any]:
        """The next message; an event has been passed on."""
        try:
            message = json.loads(await self._socket.recv())
        except ValueError as error:
            raise BrowserError("it sent something that is not JSON") from error
        if not isinstance(message, dict):
            raise BrowserError("it sent something that is no message")
        if self.hears and "method" in message and message.get("sessionId", "") == self.page:
            parameters = message.get("params")
            await self.hears(str(message["method"]), parameters if isinstance(parameters, dict) else {})
        return message
