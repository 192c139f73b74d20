"""Serves a workspace from its own thread on a free port, for calls from the test's thread."""

import asyncio
import secrets
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypedDict, TypeVar

import httpx2

from slack_twin import seed as seeds
from slack_twin.errors import ControlError
from slack_twin.seed import Seed, SeedApp
from slack_twin.server import create_app, running
from slack_twin.settings import Settings
from slack_twin.testing.errors import Refused
from slack_twin.testing.notices import watch
from slack_twin.twin import Twin, build_twin

__tracebackhide__ = True  # hides this module in tracebacks of failing tests

DEFAULT_APP = "app"
_STOP_SECONDS = 15.0

Result = TypeVar("Result")


class TwinServer:
    """Serves a workspace between `start` and `stop`; `fresh` replaces the workspace with a new one.

    Its thread has its own event loop, so the app under test may block or run in the test's loop.
    """

    def __init__(self, *, rates: bool = True) -> None:
        self.twin: Twin = build_twin(seed=_new_seed(), settings=Settings(rates=rates))
        self.notices = watch(self.twin)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="slack_twin", daemon=True)
        self._base_url: Future[str] = Future()
        self._loop: asyncio.AbstractEventLoop
        self._http: httpx2.AsyncClient
        self._stopping = asyncio.Event()

    @property
    def base_url(self) -> str:
        """The base URL, like `http://127.0.0.1:8400/`."""
        return self._base_url.result()

    def start(self) -> None:
        """Starts the server. Raises OSError if no address is available."""
        self._thread.start()
        self._base_url.result()

    def stop(self) -> None:
        """Closes every connection and ends the thread. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_STOP_SECONDS)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with running(self.twin) as base_url, self._client(base_url) as self._http:
                self._base_url.set_result(base_url)
                await self._stopping.wait()
        except BaseException as error:
            if self._base_url.done():
                raise
            self._base_url.set_exception(error)

    def _client(self, base_url: str) -> httpx2.AsyncClient:
        """Returns a client that calls the control API without a network."""
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=create_app(self.twin)), base_url=base_url)

    def fresh(self) -> None:
        """Creates a new workspace at the same address, without connections. All earlier tokens become invalid."""
        self.submit(self._refresh()).result()

    async def _refresh(self) -> None:
        self.twin.planted[:] = [_new_seed()]
        self.twin.sockets.close_unknown(())
        await self.twin.reset()

    def submit(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Starts a coroutine in the server's thread."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this workspace is closed, because its test has ended")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def do(self, call: Callable[[Twin], Result]) -> Result:
        """Runs a function in the server's thread. Raises Refused."""

        async def called() -> Result:
            try:
                return call(self.twin)
            except ControlError as refusal:
                raise Refused(_explained(refusal.message, refusal.hint)) from None

        return self.submit(called()).result()

    def asking(self, verb: str, path: str, body: object = None, **query: str | None) -> "Future[Any]":
        """Starts a call of the control API. The future's result is the response; Refused is its exception."""
        return self.submit(self._ask(verb, path, body, {name: value for name, value in query.items() if value}))

    def ask(self, verb: str, path: str, body: object = None, **query: str | None) -> Any:
        """Calls a method of the control API that returns immediately. Raises Refused."""
        return self.asking(verb, path, body, **query).result()

    async def _ask(self, verb: str, path: str, body: object, query: dict[str, str]) -> Any:
        answer = await self._http.request(verb, f"twin/{path}", json=body, params=query)
        told = answer.json()
        if not answer.is_success:
            raise Refused(_explained(told["error"]["message"], told["error"]["hint"]))
        return told


def given(**fields: object) -> dict[str, object]:
    """Returns the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


class Tokens(TypedDict):
    """The credentials of an app."""

    bot_token: str
    app_token: str
    signing_secret: str


def new_tokens(app: str) -> Tokens:
    """Returns new, unique credentials, so that apps of other tests cannot connect."""
    mark = f"{app}-{secrets.token_hex(6)}"
    return {"bot_token": f"xoxb-twin-{mark}", "app_token": f"xapp-twin-{mark}", "signing_secret": secrets.token_hex(16)}


def _new_seed() -> Seed:
    app = SeedApp(name=DEFAULT_APP, **new_tokens(DEFAULT_APP))
    return Seed(users=seeds.DEFAULT.users, channels=seeds.DEFAULT.channels, apps=(app,))


def _explained(message: str, hint: str) -> str:
    return f"{message} ({hint})" if hint else message
