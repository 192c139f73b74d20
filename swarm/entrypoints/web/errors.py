"""Formats errors for clients: ``{"error": {"code", "message", "hint"}}``, with ``fields`` for wrong values."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarm.domain.errors import (
    BadRequest,
    Invalid,
    NotFound,
    RateLimited,
    SwarmError,
    TokenEnded,
    TooLarge,
    Unauthorized,
)
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.identity import CALL

INTERNAL_MESSAGE: Final = "Something went wrong in the coordinator; see its log."

_MOST_PROBLEMS: Final = 50
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_log = structlog.get_logger(__name__)


class MethodNotAllowed(BadRequest):
    """This route does not support that method."""

    status = 405

    def __init__(self, allowed: str) -> None:
        super().__init__(f"This route supports only {allowed}.")
        self.allowed = allowed


class RequestTimeout(BadRequest):
    """The body of the request did not arrive in time."""

    status = 408


def describe(error: SwarmError) -> dict[str, Any]:
    """Returns the public part of an error. An unexpected error has only a general message."""
    if _is_crash(error):
        return {"code": "internal", "message": INTERNAL_MESSAGE, "hint": None}
    shown: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, Invalid):
        shown["fields"] = error.fields
    return shown


def answer(error: SwarmError) -> Answer:
    """Returns the HTTP response for an error."""
    headers: dict[str, str] = {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allowed
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    return Answer({"error": describe(error)}, error.status, headers)


def invalid(problems: Sequence[Mapping[str, Any]]) -> Invalid:
    """Converts the first of pydantic's errors to our own messages, by field, without the rejected values."""
    fields = {_field(problem["loc"]): _expectation(problem) for problem in problems[:_MOST_PROBLEMS]}
    return Invalid(f"Not valid: {', '.join(sorted(fields))}.", hint="See 'fields' for what is expected.", fields=fields)


def translate(app: FastAPI) -> None:
    """Answers errors raised by the framework in this form. `Guard` handles all other errors."""
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


class Guard:
    """The outermost layer, which refuses malformed addresses and turns every error into a response.

    Unexpected errors are logged with a traceback, and the client gets a general message. If the agent's token ends
    during a request, the request is cancelled and answered with 401.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if b"%00" in scope["query_string"] or "\0" in scope["path"]:
            await answer(Invalid("The address contains a NUL character.", fields={"url": "no %00"}))(
                scope, receive, send
            )
            return
        sending = send if isinstance(send, RecordedSend) else RecordedSend(send)
        try:
            await self._within_token(scope, receive, sending)
        except asyncio.CancelledError:
            if not _ended_with_token(scope):
                raise
            if sending.began:
                raise TokenEnded() from None  # the server cuts the connection
            await answer(TokenEnded(hint="Use the agent's new token."))(scope, receive, send)
        except Exception as error:
            known = error if isinstance(error, SwarmError) else SwarmError()
            if _is_crash(known):
                log_crash(error, action="http_request", method=scope["method"], path=scope["path"])
            if sending.began:
                raise  # a response has begun, so the server can only close the connection
            await answer(known)(scope, receive, send)

    async def _within_token(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if CALL in scope:
                scope[CALL].close()


def _ended_with_token(scope: Scope) -> bool:
    """Whether a request was cancelled only because its token ended."""
    task = asyncio.current_task()
    return CALL in scope and scope[CALL].is_cancelled and task is not None and task.uncancel() == 0


def log_crash(error: Exception, **where: str) -> None:
    """Logs an unexpected error."""
    _log.error("A request failed.", exc_info=error, **where)


class RecordedSend:
    """A ``send`` function that records the status of the response, once the response has begun."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    @property
    def began(self) -> bool:
        return self.status is not None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


async def _on_validation_error(request: Request, error: Exception) -> Answer:
    assert isinstance(error, RequestValidationError)
    return answer(invalid(error.errors()))


async def _on_http_exception(request: Request, error: Exception) -> Answer:
    """Answers the framework's errors: an unknown route, a wrong method, an unreadable body."""
    assert isinstance(error, HTTPException)
    return answer(_refusal(request, error))


def _refusal(request: Request, error: HTTPException) -> SwarmError:
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return NotFound("This route does not exist.", hint="GET /openapi.json lists all routes.")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed(", ".join(_allowed_methods(request)))
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return TooLarge()
        case _:
            return BadRequest(str(error.detail))


def _allowed_methods(request: Request) -> list[str]:
    """Returns all HTTP methods that a path supports. Each method may be a separate route, and the framework names only
    the first route's methods.

    A new scope is used, since the framework stores the matched route in the scope.
    """
    scope = {"type": "http", "path": request.scope["path"], "root_path": "", "headers": []}
    asked = {method: {**scope, "method": method} for method in _METHODS}
    routes = request.app.router.routes
    return [name for name, one in asked.items() if any(route.matches({**one})[0] is Match.FULL for route in routes)]


def _is_crash(error: SwarmError) -> bool:
    return error.status == HTTPStatus.INTERNAL_SERVER_ERROR


def _field(place: Sequence[Any]) -> str:
    """Returns the location of a value in the request, such as ``tokens.3``, or ``body`` for the complete body."""
    inner = [str(part) for part in (place[1:] if place and place[0] in ("body", "query", "path") else place)]
    return ".".join(inner) or "body"


def _expectation(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "extra_forbidden":
        return "this field does not exist"
    return str(problem["msg"])
