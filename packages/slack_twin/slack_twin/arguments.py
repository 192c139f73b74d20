"""The arguments of a Web API call: merged from the query, a form, JSON and multipart, then read by type.

Slack's clients send most arguments in the query string, some as a form and some as JSON; the twin accepts all of them.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl

import orjson
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request

from slack_twin.errors import Json, SlackError

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 100

_TIMESTAMP = re.compile(r"\d{1,12}(\.\d{1,6})?")
_KINDS = ("application/json", "application/x-www-form-urlencoded", "text/plain")
_CHARSET = re.compile(r"charset=\"?([\w.\-]*)")
_NAME = re.compile(r"\w{1,100}", re.ASCII)
_SECRET = ("token", "client_secret")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


class Arguments:
    """Arguments by name. The readers raise SlackError if a value is missing or has the wrong type."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)

    def visible(self) -> Json:
        """Returns all arguments except secrets."""
        return {name: value for name, value in self._values.items() if name not in _SECRET}

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        """Returns a required string."""
        value = self.optional(name)
        if not value:
            raise SlackError("invalid_arguments", messages=[f"[ERROR] missing required field: {name}"])
        return value

    def optional(self, name: str, default: str = "") -> str:
        """Returns a string; numbers are converted. NUL is removed, as in Slack."""
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _wrong(name, "a string")
        return str(value).replace("\x00", "")

    def flag(self, name: str, default: bool = False) -> bool:
        """Returns a boolean in any format that Slack's SDKs send: true, "true", 1, "1"."""
        value = self._values.get(name)
        if value is None:
            return default
        if str(value).lower() in _TRUE:
            return True
        if str(value).lower() in _FALSE:
            return False
        raise _wrong(name, "a boolean")

    def count(self, name: str, *, default: int, highest: int) -> int:
        """Returns an integer from 1 to `highest`; larger values become `highest`. Raises `invalid_limit`."""
        value = self.optional(name)
        if not value:
            return default
        if not re.fullmatch(r"\d{1,9}", value, re.ASCII) or int(value) == 0:
            raise SlackError("invalid_limit")
        return min(int(value), highest)

    def timestamp(self, name: str) -> str:
        """Returns an optional message timestamp, `""` if absent."""
        value = self.optional(name)
        if value and not _TIMESTAMP.fullmatch(value):
            raise _wrong(name, "a message timestamp like 1700000000.000100")
        return value

    def json(self, name: str) -> object:
        """Returns a JSON structure, given directly or as a string; None if absent."""
        value = self._values.get(name)
        if not isinstance(value, str):
            return value
        if not value:
            return None
        try:
            return loads(value)
        except ValueError:
            raise _wrong(name, "JSON") from None


def loads(raw: str | bytes) -> object:
    """Parses JSON that can be serialised again. Raises ValueError, also for more than 100 nested levels."""
    value = orjson.loads(raw)
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in _children(node)]
        if not level:
            return value
    raise ValueError(f"nested more than {MAX_DEPTH} deep")


def _children(node: object) -> Iterable[object]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _wrong(name: str, wanted: str) -> SlackError:
    return SlackError("invalid_arguments", messages=[f"[ERROR] {name} must be {wanted}"])


async def read_arguments(request: Request) -> Arguments:
    """Merges the query, the body and the credentials of HTTP Basic; the body takes precedence.

    Raises SlackError with `invalid_json`, `json_not_object`, `invalid_form_data`, `invalid_arguments`,
    `invalid_arg_name` or `invalid_array_arg`, and the errors of content types.
    """
    values = _form(request.scope["query_string"], "invalid_arguments")
    values |= _basic(request) | await _body(request)
    if refused := [name for name in values if not _NAME.fullmatch(name)]:
        raise SlackError("invalid_array_arg" if refused[0].endswith("]") else "invalid_arg_name")
    return Arguments(values)


def _basic(request: Request) -> Json:
    """Returns `client_id` and `client_secret` from HTTP Basic; other credentials are ignored."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return {}
    try:
        client_id, _, secret = base64.b64decode(credentials.strip(), validate=True).decode("utf-8").partition(":")
    except ValueError:
        return {}
    return {"client_id": client_id, "client_secret": secret}


def charset_warnings(request: Request) -> list[str]:
    """Returns Slack's warnings about the content type: JSON must name its charset, and a form must not."""
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    has_charset = "charset=" in parameters.replace(" ", "")
    match kind.strip():
        case "application/json":
            return [] if has_charset else ["missing_charset"]
        case "application/x-www-form-urlencoded":
            return ["superfluous_charset"] if has_charset else []
    return []


async def _body(request: Request) -> Json:
    """Returns the arguments of a body. Raises also `missing_post_type`, `invalid_post_type`, `invalid_charset`."""
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    if (kind := kind.strip()) == "multipart/form-data":
        return await _multipart(request)
    raw = await limited_body(request)
    if not raw.strip():
        return {}
    if kind not in _KINDS:
        raise SlackError("invalid_post_type" if kind else "missing_post_type")
    if (charset := _CHARSET.search(parameters)) and charset[1] not in ("utf-8", "iso-8859-1"):
        raise SlackError("invalid_charset")
    return _json_object(raw) if kind == "application/json" else _form(raw, "invalid_form_data")


async def limited_body(request: Request) -> bytes:
    """Returns the complete body. Raises SlackError `request_too_large` above 8 MiB."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise SlackError("request_too_large")
        chunks.append(chunk)
    return b"".join(chunks)


def _json_object(raw: bytes) -> Json:
    try:
        value = loads(raw)
    except ValueError:
        raise SlackError("invalid_json") from None
    if not isinstance(value, dict):
        raise SlackError("json_not_object")
    return value


def _form(raw: bytes, refusal: str) -> Json:
    try:
        return dict(parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=1000))
    except ValueError:
        raise SlackError(refusal) from None


async def _multipart(request: Request) -> Json:
    """Returns the text fields of a multipart body; only upload methods read its files."""
    if int(request.headers.get("content-length", "0")) > MAX_BODY_BYTES:
        raise SlackError("request_too_large")
    try:
        form: FormData = await request.form(max_part_size=MAX_BODY_BYTES)
    except (HTTPException, ValueError, KeyError):
        raise SlackError("invalid_form_data") from None
    return {name: value for name, value in form.multi_items() if isinstance(value, str)}
