"""The twin as a web application, and its server."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route, WebSocketRoute
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from slack_twin.access import LOOPBACK, Access
from slack_twin.control import control_routes
from slack_twin.page import page_routes
from slack_twin.response_door import response_routes
from slack_twin.seed import DEFAULT, Seed
from slack_twin.settings import Settings
from slack_twin.twin import Twin, build_twin
from slack_twin.uploads import upload_routes
from slack_twin.web_api import CUT_EXTENSION
from slack_twin.webhook_door import webhook_routes

_MAX_SOCKET_MESSAGE_BYTES = 1024 * 1024


def create_app(twin: Twin, allowed: Access | None = None) -> Starlette:
    """Returns the web application: Web API, Socket Mode, control API and page.

    `serve` can run it and reset connections.

    Without `allowed`, it accepts requests as a server on loopback.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await twin.close()

    return Starlette(
        routes=[
            Route("/api/{method}", twin.web_api.endpoint, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
            WebSocketRoute("/socket", twin.sockets.serve),
            *upload_routes(twin),
            *response_routes(twin.interactions.responses),
            *webhook_routes(twin),
            *control_routes(twin),
            *page_routes(twin),
        ],
        middleware=[Middleware((allowed or Access()).guard)],
        lifespan=lifespan,
    )


class _Protocol(HttpToolsProtocol):
    """An HTTP protocol whose requests can reset their connection, for the fault `cut_after_accept`."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CUT_EXTENSION: {"reset": self.transport.abort}}


class TwinServer(uvicorn.Server):
    """A server that leaves signals to its caller, and ends streams and sockets before it waits for them."""

    def __init__(self, twin: Twin, allowed: Access | None = None) -> None:
        self.twin = twin
        config = uvicorn.Config(
            create_app(twin, allowed),
            http=_Protocol,
            ws="websockets-sansio",
            log_config=None,
            access_log=False,
            ws_max_size=_MAX_SOCKET_MESSAGE_BYTES,
            date_header=False,
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Waits for `stop` instead of polling ten times a second, because hundreds of tests start and end a twin."""
        await self._stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.twin.close()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def running(
    twin: Twin,
    host: str = LOOPBACK,
    port: int = 0,
    *,
    allowed: Access | None = None,
) -> AsyncIterator[str]:
    """Serves the twin while the context lasts. Yields its base URL, like `http://127.0.0.1:8400/`.

    Port 0 picks a free port. Without `allowed`, only the twin's own hosts and pages are accepted. Raises OSError if the
    address is unavailable.
    """
    with listen(host, port) as listening:
        address = f"[{host}]" if ":" in host else host
        twin.workspace.directory.base_url = f"http://{address}:{listening.getsockname()[1]}/"
        server = TwinServer(twin, allowed or Access(bound_to=host))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield twin.workspace.base_url
        finally:
            server.stop()
            await serving


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket with TCP_NODELAY, because responses are written in two parts.

    asyncio sets TCP_NODELAY only on sockets that it creates itself.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=1024)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def serve(
    host: str,
    port: int,
    *,
    settings: Settings,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    seed: Seed = DEFAULT,
    beside: Callable[[Mapping[str, str]], Awaitable[None]] | None = None,
) -> None:
    """Serves a twin until cancelled, after printing the connection settings of the first app in its seed.

    With `beside`, serves while that runs, which gets these settings.

    `hosts` are additional host names of the twin, and `origins` other pages that may call it. Raises OSError if the
    address is unavailable, and ValueError for an invalid host or origin.
    """
    twin = build_twin(seed=seed, settings=settings)
    allowed = Access(bound_to=host, hosts=hosts, origins=origins)
    async with running(twin, host, port, allowed=allowed) as base_url:
        sys.stdout.write("\n".join([*environment(twin, base_url), f"Open {base_url}", ""]))
        sys.stdout.flush()
        await (beside(variables(twin, base_url)) if beside else asyncio.Event().wait())


def run(serving: Coroutine[object, object, None]) -> None:
    """Runs a coroutine like asyncio.run, with uvloop if available: under load, sockets take most of the twin's time."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving)


def environment(twin: Twin, base_url: str) -> list[str]:
    """Returns the shell lines that connect the first app of the seed to the twin."""
    return [f"export {name}={value}" for name, value in variables(twin, base_url).items()]


def variables(twin: Twin, base_url: str) -> dict[str, str]:
    """Returns the variables that connect the first app of the seed to the twin."""
    app = next(iter(twin.workspace.directory.apps.values()))
    return {
        "SLACK_BOT_TOKEN": app.bot_token,
        "SLACK_APP_TOKEN": app.app_token,
        "SLACK_SIGNING_SECRET": app.signing_secret,
        "SLACK_API_BASE_URL": f"{base_url}api/",
        "SLACK_API_URL": f"{base_url}api/",  # the name that many SDKs and tools outside Python use
    }
