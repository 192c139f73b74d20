"""AgentCore's clients, sessions at AWS, and calls with a time limit. Every session is always stopped after use.

A running session costs money. The start, the calls and the stop of a session block, so they run in threads, and a
thread cannot be cancelled. Therefore every session has an *ending*: a task of `AgentCoreSessions` that waits until the
session is left and any start in progress has finished, stops the session, and waits for the calls in progress. Leaving
a session waits only a few seconds for its ending; `AgentCoreSessions.aclose` waits for the rest.

AWS itself ends the sessions that an ending cannot stop (the response to the start was lost, the coordinator was
killed): every session starts with a time limit slightly longer than its call.

The error of a failed call is one sentence, written for the model and its users. AWS's own messages are quoted only for
invalid requests, because other messages name accounts and roles.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import structlog

from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.toolbox.tool import CallTool, ToolAnswer, failed
from swarm_base.processes.background import BackgroundTasks

if TYPE_CHECKING:
    from bedrock_agentcore.memory import MemoryClient
    from bedrock_agentcore.tools.browser_client import BrowserClient
    from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter


_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 20
_ATTEMPTS: Final = 2  # requests to start, stop and store carry a token by which AWS detects repeated requests

_SPARE_SECONDS: Final = 60
"""The time between the limit of a call and the end of its session by AWS."""

_PATIENCE_SECONDS: Final = 5.0
CLOSING_SECONDS: Final = 30.0
_SERVICE: Final = "bedrock-agentcore"
S = TypeVar("S")
T = TypeVar("T")

_log = structlog.get_logger(__name__)

_REFUSED: Final = (
    "AWS does not allow the coordinator to do this; the operator has to check its credentials and permissions."
)

UNKNOWN: Final = (
    "AWS does not recognise the operator's configuration: the region, or the memory, browser or interpreter."
)

_BUSY: Final = "AgentCore is overloaded, or a quota is exhausted; try again in a minute."
_IN_THE_WAY: Final = "AgentCore could not do this because another operation is in progress; try again in a moment."
_UNREACHABLE: Final = "AgentCore cannot be reached; try again later."
_SILENT: Final = "AgentCore did not answer in time."
_BROKEN_OFF: Final = "The connection to AgentCore broke off."

_SENTENCES: Final = {
    "accessdenied": _REFUSED,
    "expiredtoken": _REFUSED,
    "incompletesignature": _REFUSED,
    "invalidclienttokenid": _REFUSED,
    "invalidsignature": _REFUSED,
    "notauthorized": _REFUSED,
    "unauthorized": _REFUSED,
    "unrecognizedclient": _REFUSED,
    "resourcenotfound": UNKNOWN,
    "servicequotaexceeded": _BUSY,
    "throttled": _BUSY,
    "throttling": _BUSY,
    "toomanyrequests": _BUSY,
    "conflict": _IN_THE_WAY,
    "retryableconflict": _IN_THE_WAY,
}

_NOT_VALID: Final = frozenset({"validation", "invalidinput"})
_SHOWN_CHARACTERS: Final = 300


class AgentCoreUnusable(Exception):
    """An error that makes AgentCore unusable; the text is the reason, as a clause."""


class Clients:
    """AgentCore's clients in one region. All methods block, and may be called from several threads.

    The package's browser and interpreter clients hold one session in addition to their connections. Creating a client
    takes 20 ms of CPU time, so each session gets a copy that shares the connections but not the session.
    """

    def __init__(self, options: AgentCoreOptions) -> None:
        """Raises AgentCoreUnusable, and botocore's BotoCoreError for an unreadable configuration of AWS."""
        from bedrock_agentcore.memory import MemoryClient
        from bedrock_agentcore.tools.browser_client import BrowserClient
        from bedrock_agentcore.tools.code_interpreter_client import CodeInterpreter

        self._options = options
        session = _session()
        # botocore reads AWS_DEFAULT_REGION and the configuration files, but not the variable that all other SDKs use.
        self.region: str = _region(options.region or os.environ.get("AWS_REGION") or session.region_name)
        if session.get_credentials() is None:
            raise AgentCoreUnusable(
                "there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            )
        usual = session.client(_SERVICE, region_name=self.region)
        self._browser: BrowserClient = BrowserClient(self.region)
        self._interpreter: CodeInterpreter = CodeInterpreter(self.region, session=session)
        self._browser.data_plane_client = self._interpreter.data_plane_client = usual
        self._patient = session.client(_SERVICE, region_name=self.region, config=_for_code(options.code_seconds))
        self.memory: MemoryClient = MemoryClient(region_name=self.region, boto3_session=session)

    def start_browser(self) -> BrowserClient:
        """Starts a separate browser."""
        client = copy.copy(self._browser)
        client.start(self._options.browser, "swarm", _lasting(self._options.browse_seconds))
        return client

    def start_interpreter(self) -> CodeInterpreter:
        """Starts a separate interpreter."""
        client = copy.copy(self._interpreter)
        client.start(self._options.interpreter, "swarm", _lasting(self._options.code_seconds))
        return client

    def execute(self, interpreter: CodeInterpreter, code: str, language: str) -> Any:
        """Runs a piece of code once, because code may have side effects. Returns the stream of results.

        The code is sent through a copy of the client, because `CodeInterpreter.stop` clears the client's session id,
        and a run without a session id would start another session.
        """
        runner = copy.copy(interpreter)
        runner.data_plane_client = self._patient
        return runner.execute_code(code, language)["stream"]


def _session() -> Any:
    import boto3  # type: ignore[import-untyped]
    import botocore.session  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    core = botocore.session.get_session()
    retries = {"total_max_attempts": _ATTEMPTS, "mode": "standard"}
    core.set_default_client_config(
        Config(connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS, retries=retries, tcp_keepalive=True)
    )
    return boto3.Session(botocore_session=core)


def _for_code(seconds: float) -> Any:
    from botocore.config import Config

    return Config(read_timeout=seconds, retries={"total_max_attempts": 1})


def _region(region: str | None) -> str:
    from bedrock_agentcore._utils.endpoints import InvalidRegionError, validate_region

    if region is None:
        raise AgentCoreUnusable("no AWS region is set; set tools.agentcore.region, or AWS_REGION")
    try:
        return validate_region(region)
    except InvalidRegionError as error:
        raise AgentCoreUnusable(f"'{region}' is not an AWS region; one such as eu-central-1 is expected") from error


def _lasting(call_seconds: float) -> int:
    return round(call_seconds) + _SPARE_SECONDS


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Starts a blocking call in a separate thread. Callers with a time limit shield the future, because threads cannot
    be cancelled.

    `asyncio.to_thread` has few threads, which the rest of the process also uses (for example for DNS lookups): a few
    calls without a response from AWS would block the others and the exit of the process. Here every call has its own
    thread, which ends with the process.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
            outcome.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="agentcore", daemon=True).start()
    return asyncio.wrap_future(outcome)


class _AgentCoreSession(Generic[S]):
    def __init__(self, client: S, calls: set[asyncio.Future[Any]]) -> None:
        self.client = client
        self._calls = calls

    async def call(self, work: Callable[[S], T]) -> T:
        """Runs a blocking call. After a cancellation, the call continues in its thread until the session is stopped."""
        calling = in_thread(partial(work, self.client))
        self._calls.add(calling)
        calling.add_done_callback(self._calls.discard)
        return await asyncio.shield(calling)


class AgentCoreSessions:
    """The sessions at AWS: starts and stops them."""

    def __init__(self, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._patience_seconds = patience_seconds
        self._endings = BackgroundTasks()

    @asynccontextmanager
    async def open(self, start: Callable[[], S], stop: Callable[[S], object]) -> AsyncIterator[_AgentCoreSession[S]]:
        """Holds a session during a block. Raises the errors of ``start``; a failed stop is only logged."""
        starting = in_thread(start)
        calls: set[asyncio.Future[Any]] = set()
        left = asyncio.Event()
        ending = self._endings.start(_end(left, starting, calls, stop))
        try:
            yield _AgentCoreSession(await asyncio.shield(starting), calls)
        finally:
            left.set()
            await asyncio.wait({ending}, timeout=self._patience_seconds)

    async def aclose(self, *, within_seconds: float = CLOSING_SECONDS) -> None:
        """Waits until all sessions are left and stopped; AWS ends the rest. A cancellation ends the wait."""
        try:
            await self._endings.wait(within_seconds)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        self._endings.cancel()
        if self._endings:
            _log.warning(
                "sessions at AWS may continue until their time limit",
                action="agentcore_left",
                count=len(self._endings),
            )


async def _end(
    left: asyncio.Event, starting: asyncio.Future[S], calls: set[asyncio.Future[Any]], stop: Callable[[S], object]
) -> None:
    await left.wait()
    try:
        started = await starting
    except Exception:  # noqa: BLE001 - the caller got the error; there is nothing to stop
        return
    try:
        await in_thread(partial(stop, started))
    except Exception as error:  # noqa: BLE001 - nobody waits for the stop
        _log.warning("a session at AWS could not be stopped", action="agentcore_stop", error=type(error).__name__)
    if calls:
        await asyncio.wait(calls)


def bounded(tool: str, seconds: float, work: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> CallTool:
    """Returns ``work`` as a tool call that is limited to ``seconds`` and raises only CancelledError."""

    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await work(arguments)
        except Exception as error:  # noqa: BLE001 - the model is told about every error
            if limit.expired():
                _log.warning("AgentCore took too long", action="agentcore_call", tool=tool, seconds=seconds)
                return failed(f"{tool} was stopped: it did not finish within {seconds:g} s.")
            _log.warning("AgentCore failed", action="agentcore_call", tool=tool, code=_code_of(error))
            _log.debug("the error message from AgentCore", action="agentcore_call", tool=tool, exc_info=error)
            return failed(sentence(error))

    return call


def _code_of(error: BaseException) -> str:
    """Returns AWS's error code, or the name of the error's class, for logs."""
    response: Any = getattr(error, "response", None)
    details = response.get("Error") if isinstance(response, dict) else None
    return str(details.get("Code") or "unknown") if isinstance(details, dict) else type(error).__name__


def sentence(error: Exception) -> str:
    """Describes the cause of an error, and the remedy."""
    from botocore import exceptions as aws
    from urllib3 import exceptions as http
    from websockets import exceptions as sockets

    match error:
        case aws.ClientError():
            return _refusal(error)
        case aws.ReadTimeoutError() | http.ReadTimeoutError() | TimeoutError():
            return _SILENT
        case aws.ConnectionError() | aws.HTTPClientError() | sockets.InvalidHandshake():
            return _UNREACHABLE
        case aws.BotoCoreError():
            return _REFUSED if _is_about_credentials(error) else _other(error)
        case http.HTTPError() | sockets.WebSocketException() | OSError():
            return _BROKEN_OFF
    return _other(error)


def _refusal(error: Any) -> str:
    code = _code_of(error)
    kind = code.lower().removesuffix("exception")
    if kind in _NOT_VALID:
        message = str(error.response["Error"].get("Message", ""))[:_SHOWN_CHARACTERS].rstrip(". ")
        return f"AWS does not accept this request: {message or 'it does not say why'}."
    return _SENTENCES.get(kind) or f"AgentCore failed ({code}); try again later."


def _is_about_credentials(error: Exception) -> bool:
    names = [kind.__name__ for kind in type(error).__mro__]
    return any(word in name for name in names for word in ("Credential", "Token", "SSO", "Login", "Unauthorized"))


def _other(error: Exception) -> str:
    return f"AgentCore failed ({type(error).__name__}); the coordinator's log has the details."
