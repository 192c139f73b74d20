"""A workspace that is served from a thread of its own, on a free port, and asked from the test's thread."""

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

__tracebackhide__ = True  # a failing test shows its own lines

DEFAULT_APP = "app"
_STOP_SECONDS = 15.0

Result = TypeVar("Result")


class TwinServer:
    """Runs from `start` to `stop`; in between `fresh` makes it a new workspace.

    Its thread has an event loop of its own, so that the app under test may block, or run in the test's loop.
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
        """Like `http://127.0.0.1:8400/`."""
        return self._base_url.result()

    def start(self) -> None:
        """Serve. Raises OSError when no address can be taken."""
        self._thread.start()
        self._base_url.result()

    def stop(self) -> None:
        """End every connection and the thread. Idempotent."""
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
        """Asks the control API without a network between."""
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=create_app(self.twin)), base_url=base_url)

    def fresh(self) -> None:
        """A new workspace at the same address: nobody is connected, and the tokens of the last one no longer count."""
        self.submit(self._refresh()).result()

    async def _refresh(self) -> None:
        self.twin.planted[:] = [_new_seed()]
        self.twin.sockets.close_unknown(())
        await self.twin.reset()

    def submit(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Start something in the server's thread."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this workspace is closed: its test is over")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def do(self, call: Callable[[Twin], Result]) -> Result:
        """Call something that needs no waiting in the server's thread. Raises Refused."""

        async def called() -> Result:
            try:
                return call(self.twin)
            except ControlError as refusal:
                raise Refused(_explained(refusal.message, refusal.hint)) from None

        return self.submit(called()).result()

    def asking(self, verb: str, path: str, body: object = None, **query: str | None) -> "Future[Any]":
        """Start a call of the control API; its result is the answer, or Refused."""
        return self.submit(self._ask(verb, path, body, {name: value for name, value in query.items() if value}))

    def ask(self, verb: str, path: str, body: object = None, **query: str | None) -> Any:
        """A call that is answered at once. Raises Refused."""
        return self.asking(verb, path, body, **query).result()

    async def _ask(self, verb: str, path: str, body: object, query: dict[str, str]) -> Any:
        answer = await self._http.request(verb, f"twin/{path}", json=body, params=query)
        told = answer.json()
        if not answer.is_success:
            raise Refused(_explained(told["error"]["message"], told["error"]["hint"]))
        return told


def given(**fields: object) -> dict[str, object]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


class Tokens(TypedDict):
    """What an app proves itself with."""

    bot_token: str
    app_token: str
    signing_secret: str


def new_tokens(app: str) -> Tokens:
    """Credentials that no workspace had before, so that apps of another test cannot come in."""
    mark = f"{app}-{secrets.token_hex(6)}"
    return {"bot_token": f"xoxb-twin-{mark}", "app_token": f"xapp-twin-{mark}", "signing_secret": secrets.token_hex(16)}


def _new_seed() -> Seed:
    app = SeedApp(name=DEFAULT_APP, **new_tokens(DEFAULT_APP))
    return Seed(users=seeds.DEFAULT.users, channels=seeds.DEFAULT.channels, apps=(app,))


def _explained(message: str, hint: str) -> str:
    return f"{message} ({hint})" if hint else message
