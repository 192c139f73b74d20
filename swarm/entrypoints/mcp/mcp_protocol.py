"""The messages of MCP, as far as a server of tools needs them: one JSON-RPC request in, one JSON response out.

There are two generations of the protocol. Up to 2025-11-25, a client begins with ``initialize``, names the version in a
header afterwards, and gets errors with status 200. From 2026-07-28, every request contains its version and the client's
capabilities in ``_meta``, headers repeat the parts that proxies route by, and errors have statuses.
See https://modelcontextprotocol.io/specification, "Streamable HTTP" and "Base Protocol".

The official SDK is not used on this side, because its server takes half a second and 20 MB to load and each call passes
through several tasks. The SDK's clients are used in the tests.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_CLIENT: Final = "io.modelcontextprotocol/clientInfo"

_VERSION_HEADER: Final = "mcp-protocol-version"
_METHOD_HEADER: Final = "mcp-method"
_NAME_HEADER: Final = "mcp-name"

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

_BASE64_BEGIN, _BASE64_END = "=?base64?", "?="

BATCH: Final = (
    "This is a JSON-RPC batch, which MCP has not supported since 2025-06-18. Send each message in a separate request."
)


class ProtocolError(Exception):
    """A message that is not a valid request. ``status`` is the status of the HTTP response."""

    def __init__(
        self, code: int, message: str, *, data: object = None, status: int = HTTPStatus.BAD_REQUEST, call_id: Any = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.status = status
        self.call_id = call_id

    @property
    def response(self) -> dict[str, Any]:
        """Returns the JSON-RPC response."""
        error = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.call_id, "error": error}


@dataclass(frozen=True, kw_only=True, slots=True)
class McpRequest:
    """A valid request."""

    id: int | str
    method: str
    is_modern: bool  # of the generation without a handshake
    params: Mapping[str, Any] = field(default_factory=dict)

    def error(self, code: int, message: str, data: object = None) -> ProtocolError:
        """Returns an error in the form of the request's generation."""
        status = HTTPStatus.NOT_FOUND if code == METHOD_NOT_FOUND else HTTPStatus.BAD_REQUEST
        return ProtocolError(
            code, message, data=data, status=status if self.is_modern else HTTPStatus.OK, call_id=self.id
        )

    def invalid(self) -> ProtocolError:
        return self.error(INVALID_PARAMS, "Invalid request parameters", "")

    def response(self, result: Mapping[str, Any], server: Mapping[str, str]) -> dict[str, Any]:
        """Returns the JSON-RPC response with a result. ``server`` is the name and version of the server."""
        if self.is_modern:
            meta = {**result.get("_meta", {}), SERVER_INFO: server}
            result = {**result, "resultType": "complete", "_meta": meta}
        return {"jsonrpc": "2.0", "id": self.id, "result": result}


def check_media_types(headers: Headers) -> None:
    """Raises ProtocolError unless the body is JSON and the client accepts JSON."""
    sent, *_ = headers.get("content-type", "").split(",")
    if _media_type(sent) != "application/json":
        raise ProtocolError(INVALID_REQUEST, "Content-Type must be application/json")
    accepted = {_media_type(each) for each in headers.get("accept", "").split(",")}
    if not accepted & {"application/json", "application/*", "*/*"}:
        raise ProtocolError(
            INVALID_REQUEST,
            "Not Acceptable: Client must accept application/json",
            status=HTTPStatus.NOT_ACCEPTABLE,
        )


def read_request(body: object, headers: Headers) -> McpRequest | None:
    """Returns the request. Returns None for a notification or a response, which are only acknowledged.

    Raises ProtocolError.
    """
    is_modern = headers.get(_VERSION_HEADER, HANDSHAKE_VERSIONS[0]) not in HANDSHAKE_VERSIONS
    match body:
        case list():
            raise ProtocolError(INVALID_REQUEST, BATCH)
        case {"jsonrpc": "2.0", "method": str(method), **others} if _has_params(others):
            if "id" not in others:
                if is_modern:
                    _check_version(headers[_VERSION_HEADER], None)
                return None
            call_id = others["id"]
            if isinstance(call_id, int | str) and not isinstance(call_id, bool):
                request = McpRequest(id=call_id, method=method, params=others.get("params") or {}, is_modern=is_modern)
                _check(request, headers)
                return request
        case {"jsonrpc": "2.0", "id": _, "result": dict()} | {"jsonrpc": "2.0", "id": _, "error": dict()}:
            if not is_modern:  # clients must not send responses any more
                return None
    raise ProtocolError(INVALID_REQUEST, "Body must be a single JSON-RPC request or notification object")


def negotiated(request: McpRequest) -> str:
    """Returns the version for a client that initializes: its own if possible, otherwise the latest with a handshake.

    Raises ProtocolError for invalid parameters.
    """
    match request.params:
        case {"protocolVersion": str(version), "capabilities": dict(), "clientInfo": client} if _is_program(client):
            return version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    raise request.invalid()


def _check(request: McpRequest, headers: Headers) -> None:
    """Raises ProtocolError if the request's ``_meta`` or headers are invalid."""
    if request.is_modern:
        _check_envelope(request, headers)
    meta = request.params.get("_meta")
    if meta is None:
        return
    token = meta.get("progressToken") if isinstance(meta, dict) else False
    if isinstance(token, bool) or not isinstance(token, int | str | None):
        raise request.invalid()


def _check_envelope(request: McpRequest, headers: Headers) -> None:
    meta = request.params.get("_meta")
    if not isinstance(meta, dict):
        raise request.error(
            INVALID_PARAMS,
            f"params._meta must be an object carrying the required '{_VERSION}' and '{_CAPABILITIES}' envelope keys",
        )
    if missing := [key for key in (_VERSION, _CAPABILITIES) if key not in meta]:
        raise request.error(
            INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {', '.join(missing)}"
        )
    for name in (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER):
        if len(headers.getlist(name)) > 1:  # two readers could disagree
            raise request.error(HEADER_MISMATCH, f"{name} header appears more than once")
    if headers[_VERSION_HEADER] != meta[_VERSION]:
        raise request.error(
            HEADER_MISMATCH, f"{_VERSION_HEADER} header does not match the request envelope's protocol version"
        )
    if headers.get(_METHOD_HEADER) != request.method:
        raise request.error(HEADER_MISMATCH, f"{_METHOD_HEADER} header does not match the request body's method")
    name = request.params.get("name")
    if request.method == "tools/call" and name is not None and _decoded(headers.get(_NAME_HEADER)) != name:
        raise request.error(
            HEADER_MISMATCH, f"{_NAME_HEADER} header does not match the request body's 'name' parameter"
        )
    _check_version(meta[_VERSION], request.id)
    client = meta.get(_CLIENT)
    if not isinstance(meta[_CAPABILITIES], dict) or not (client is None or _is_program(client)):
        raise request.invalid()


def _check_version(version: str, call_id: int | str | None) -> None:
    if version not in MODERN_VERSIONS:
        known = {"supported": MODERN_VERSIONS, "requested": version}
        raise ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data=known, call_id=call_id)


def _has_params(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("params"), dict | None)


def _is_program(info: object) -> bool:
    """Whether this is a valid name and version of a client."""
    return isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _decoded(header: str | None) -> str | None:
    """Returns a header's value, which may be in base64. Returns None for a value that is not valid."""
    if header is None or not (header.startswith(_BASE64_BEGIN) and header.endswith(_BASE64_END)):
        return header
    encoded = header[len(_BASE64_BEGIN) : -len(_BASE64_END)]
    try:
        content = base64.b64decode(encoded, validate=True)
        return content.decode() if base64.b64encode(content).decode() == encoded else None
    except (binascii.Error, UnicodeDecodeError):
        return None
