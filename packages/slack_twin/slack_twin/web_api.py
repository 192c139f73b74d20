"""The Web API's endpoint: routes an HTTP request to a method, and applies tokens, scopes, rate limits and faults.

A method is a plain function over the workspace; this module handles everything that all methods share.
"""

import math
import re
import secrets
from collections.abc import Mapping
from urllib.parse import urlencode

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slack_twin.arguments import Arguments, charset_warnings, read_arguments
from slack_twin.clock import Clock
from slack_twin.errors import Json, SlackError, with_warnings
from slack_twin.faults import Fault, FaultKind, Faults
from slack_twin.journal import Call as CallRecord
from slack_twin.journal import Journal
from slack_twin.limits import Limits
from slack_twin.methods import METHODS, NOBODY, Call, Method, TokenKind, is_retired, missing_scope
from slack_twin.people import App
from slack_twin.socket_mode import Sockets
from slack_twin.workspace import Workspace

CUT_EXTENSION = "twin.cut"
_HOST = re.compile(r"([\w.\-]+|\[[0-9a-fA-F:]+\])(:\d{1,5})?", re.ASCII)


class Refused(Exception):
    """An HTTP error as the response: a rate limit or a fault."""

    def __init__(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


class CutConnection(Response):
    """No response: the TCP connection of the request is reset."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"][CUT_EXTENSION]["reset"]()
        while (await receive())["type"] != "http.disconnect":
            pass


class WebApi:
    """Handles `/api/{method}`."""

    def __init__(self, workspace: Workspace, sockets: Sockets, faults: Faults, limits: Limits) -> None:
        self.journal: Journal[CallRecord] = Journal()
        self._workspace = workspace
        self._sockets = sockets
        self._faults = faults
        self._limits = limits

    @property
    def _clock(self) -> Clock:
        return self._workspace.clock

    async def endpoint(self, request: Request) -> Response:
        """Answers one call: HTTP 200 with `ok` true or false, 429 with Retry-After, or the effect of a fault."""
        name = request.path_params["method"]
        record = CallRecord(at=self._clock.now(), app=None, method=name, args={}, ok=False, error=None, status=200)
        headers = {"x-slack-req-id": secrets.token_hex(16)}
        warnings = charset_warnings(request)
        body: Json
        fault: Fault | None = None
        try:
            args = await read_arguments(request)
            record.args = args.visible()
            app = self._caller(request, args, name)
            record.app = app.name or None
            headers |= {"x-oauth-scopes": ",".join(sorted(app.scopes))}
            headers |= {"x-accepted-oauth-scopes": ",".join(METHODS[name].scopes)}
            fault = self._faults.for_call(name, app.id)
            _refuse_by(fault)
            self._expire_stream(fault, args)
            body = {"ok": True} | self._perform(METHODS[name], app, args, request, warnings)
            record.ok = True
        except SlackError as refusal:
            body = {"ok": False, "error": refusal.code} | refusal.fields
            record.error = refusal.code
        except Refused as refusal:
            body = {"ok": False, "error": refusal.code}
            record.error, record.status = refusal.code, refusal.status
            headers |= refusal.headers
        except ClientDisconnect:
            return Response()
        self.journal.add(record)
        return await self._respond(fault, record, with_warnings(body, warnings), headers)

    def _expire_stream(self, fault: Fault | None, args: Arguments) -> None:
        """Ends the stream of the call, as if its time were over."""
        if fault is not None and fault.kind is FaultKind.EXPIRE_STREAM:
            channel = self._workspace.directory.channels.get(args.optional("channel"))
            if channel is not None:
                self._workspace.streams.expire(channel, args.optional("ts"))

    def _caller(self, request: Request, args: Arguments, name: str) -> App:
        """Returns the calling app. Raises `unknown_method`, `not_authed`, `invalid_auth`, `not_allowed_token_type`."""
        method = METHODS.get(name)
        if method is None:
            raise SlackError("method_deprecated") if is_retired(name) else SlackError("unknown_method", req_method=name)
        if method.token is TokenKind.NONE:
            return NOBODY
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        token = credential.strip() if scheme.lower() == "bearer" else args.optional("token")
        if not token:
            raise SlackError("not_authed")
        directory = self._workspace.directory
        by_bot, by_app = directory.app_by_bot_token(token), directory.app_by_app_token(token)
        app = by_bot or by_app
        if app is None:
            raise SlackError("token_revoked" if token in directory.revoked else "invalid_auth")
        if method.token is not TokenKind.EITHER and (method.token is TokenKind.BOT) != (by_bot is not None):
            raise SlackError("not_allowed_token_type")
        return app

    def _perform(self, method: Method, app: App, args: Arguments, request: Request, warnings: list[str]) -> Json:
        if method.scopes and not app.scopes.intersection(method.scopes):
            raise missing_scope(app, *method.scopes)
        self._keep_limits(method, app, args)
        base_url = self._served_at(request)

        def open_socket(caller: App) -> str:
            query = urlencode({"ticket": self._sockets.new_ticket(caller), "app_id": caller.id})
            return f"ws{base_url.removeprefix('http')}socket?{query}"

        call = Call(
            workspace=self._workspace,
            app=app,
            args=args,
            base_url=base_url,
            open_socket=open_socket,
            warnings=warnings,
        )
        return method.handle(call)

    def _served_at(self, request: Request) -> str:
        """Returns the base URL that the caller used, so that returned links work for the caller."""
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            return self._workspace.base_url
        return f"{request.scope['scheme']}://{host}/"

    def _keep_limits(self, method: Method, app: App, args: Arguments) -> None:
        """Applies the rate limits. Raises Refused with 429 and Retry-After in full seconds."""
        wait = self._limits.retry_after(app.id, method.name, method.tier)
        if wait is None and method.is_post:
            channel = self._workspace.directory.channel(args.optional("channel"))
            wait = self._limits.retry_post_after(app.id, channel.id if channel else "")
        if wait is not None:
            raise Refused(429, "ratelimited", {"Retry-After": str(wait)})

    async def _respond(
        self, fault: Fault | None, record: CallRecord, body: Json, headers: Mapping[str, str]
    ) -> Response:
        if fault is not None and fault.kind is FaultKind.DELAY:
            await self._clock.sleep(fault.seconds or 1.0)
        if fault is not None and fault.kind is FaultKind.CUT_AFTER_ACCEPT:
            record.status = 0
            return CutConnection()
        content = orjson.dumps(body)
        return Response(content, status_code=record.status, headers=headers, media_type="application/json")


def _refuse_by(fault: Fault | None) -> None:
    """Raises the error of a fault that prevents the call."""
    match fault.kind if fault else None:
        case FaultKind.HTTP_429:
            seconds = fault.seconds if fault and fault.seconds else 1.0
            raise Refused(429, "ratelimited", {"Retry-After": str(math.ceil(seconds))})
        case FaultKind.HTTP_500:
            raise Refused(500, "internal_error")
        case FaultKind.ERROR:
            raise SlackError(fault.error if fault and fault.error else "internal_error")
