"""A tool's call with a time limit, and its failures in a sentence for the model and the people behind it.

Of AWS's own messages, a sentence quotes only those about an invalid request: others name accounts and roles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog

from swarm.agents.toolbox.tool import CallTool, ToolAnswer

REFUSED: Final = "AWS does not let the coordinator do this; the operator has to check its credentials and permissions."
UNKNOWN: Final = (
    "AWS does not know what the operator has configured here: the region, or the memory, browser or interpreter."
)
BUSY: Final = "AgentCore has too much to do, or a quota is used up; try again in a minute."
IN_THE_WAY: Final = "AgentCore could not do this because something else is under way; try again in a moment."
UNREACHABLE: Final = "AgentCore cannot be reached; try again later."
SILENT: Final = "AgentCore did not answer in time."
BROKEN_OFF: Final = "The connection to AgentCore broke off."

_SENTENCES: Final = {
    "accessdenied": REFUSED,
    "expiredtoken": REFUSED,
    "incompletesignature": REFUSED,
    "invalidclienttokenid": REFUSED,
    "invalidsignature": REFUSED,
    "notauthorized": REFUSED,
    "unauthorized": REFUSED,
    "unrecognizedclient": REFUSED,
    "resourcenotfound": UNKNOWN,
    "servicequotaexceeded": BUSY,
    "throttled": BUSY,
    "throttling": BUSY,
    "toomanyrequests": BUSY,
    "conflict": IN_THE_WAY,
    "retryableconflict": IN_THE_WAY,
}
_NOT_VALID: Final = frozenset({"validation", "invalidinput"})
_SHOWN_CHARACTERS: Final = 300

_log = structlog.get_logger(__name__)


def failed(text: str) -> ToolAnswer:
    """Returns a failure with its reason."""
    return ToolAnswer(text=text, failed=True)


def bounded(tool: str, seconds: float, work: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> CallTool:
    """Returns ``work`` as a tool's call: limited to ``seconds``; raises nothing but CancelledError."""

    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await work(arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the model has to hear of it
            if limit.expired():
                _log.warning("AgentCore took too long", action="agentcore_call", tool=tool, seconds=seconds)
                return failed(f"{tool} was given up: it did not come to an end within {seconds:g} s.")
            _log.warning("AgentCore failed", action="agentcore_call", tool=tool, code=code_of(error))
            _log.debug("what AgentCore said", action="agentcore_call", tool=tool, exc_info=error)
            return failed(sentence(error))

    return call


def code_of(error: BaseException) -> str:
    """Returns AWS's code of an error, else the name of its class; for logs."""
    response: Any = getattr(error, "response", None)
    details = response.get("Error") if isinstance(response, dict) else None
    return str(details.get("Code") or "unknown") if isinstance(details, dict) else type(error).__name__


def sentence(error: Exception) -> str:
    """Words the cause of an error, and the remedy."""
    from botocore import exceptions as aws  # type: ignore[import-untyped]
    from urllib3 import exceptions as http
    from websockets import exceptions as sockets

    match error:
        case aws.ClientError():
            return _refusal(error)
        case aws.ReadTimeoutError() | http.ReadTimeoutError() | TimeoutError():
            return SILENT
        case aws.ConnectionError() | aws.HTTPClientError() | sockets.InvalidHandshake():
            return UNREACHABLE
        case aws.BotoCoreError():
            return REFUSED if _is_about_credentials(error) else _other(error)
        case http.HTTPError() | sockets.WebSocketException() | OSError():
            return BROKEN_OFF
    return _other(error)


def _refusal(error: Any) -> str:
    code = code_of(error)
    kind = code.lower().removesuffix("exception")
    if kind in _NOT_VALID:
        message = str(error.response["Error"].get("Message", ""))[:_SHOWN_CHARACTERS].rstrip(". ")
        return f"AWS does not accept this request: {message or 'it does not say why'}."
    return _SENTENCES.get(kind) or f"AgentCore failed ({code}); try again later."


def _is_about_credentials(error: Exception) -> bool:
    names = [kind.__name__ for kind in type(error).__mro__]
    return any(word in name for name in names for word in ("Credential", "Token", "SSO", "Login", "Unauthorized"))


def _other(error: Exception) -> str:
    return f"AgentCore failed ({type(error).__name__}); the coordinator's log says more."
