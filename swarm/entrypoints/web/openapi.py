"""The parts of the OpenAPI document that FastAPI cannot derive: bodies that we read ourselves, errors, and hot
routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from swarm.entrypoints.web.schema import Finish, FinishedNextShape, Polled, Release, Released, Renewal, RenewedShape

CODES: Final[Mapping[int, tuple[str, ...]]] = {
    400: ("bad_request",),
    401: ("unauthorized",),
    403: ("forbidden",),
    404: ("not_found",),
    409: ("conflict", "lease_lost", "withdrawn", "unresolved"),
    413: ("too_large",),
    422: ("invalid",),
    429: ("rate_limited",),
    500: ("internal",),
    503: ("unavailable",),
}
"""The error codes of each HTTP status."""

BEARER: Final = {
    "securitySchemes": {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An agent's token, the operator's token, or an enrolment key.",
        }
    }
}

_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the error responses of a route for its description."""
    return {status: _problem(status) for status in (*statuses, 500)}


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the request body of a route for its description."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _schema(model)}}}}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Returns FastAPI's document with the hot routes and the authentication added."""
    document["paths"] = dict(sorted((document["paths"] | _hot_paths()).items()))
    document.setdefault("components", {}).update(BEARER)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["security"] = [] if path in _OPEN_PATHS else [{"bearer": []}]
    return document


def _hot_paths() -> dict[str, Any]:
    """Returns the descriptions of ``/poll`` and ``/leases/…``."""
    return {
        "/poll": {"get": _POLL | _answers(Polled, 401, 403, 409, 422, 429, 503)},
        "/leases/renew": _post("Renew leases, and receive notices", Renewal, RenewedShape, 409, instance=True),
        "/leases/release": _post("Give work back without counting an attempt", Release, Released),
        "/leases/finish": _post("End work", Finish, FinishedNextShape, 409, instance=True),
    }


_INSTANCE: Final[dict[str, Any]] = {
    "name": "X-Swarm-Instance",
    "in": "header",
    "description": "The id of the program that serves the agent. While it is there, another one is refused with 409.",
    "schema": {"type": "string", "format": "uuid"},
}

_POLL: Final[dict[str, Any]] = {
    "tags": ["agent"],
    "summary": "Lease the work that is due, or wait for work",
    "description": "Empty if no work became due. If a client disconnects while waiting, nothing is claimed.",
    "parameters": [
        {
            "name": "wait_seconds",
            "in": "query",
            "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 25},
        },
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5}},
        {
            "name": "hold",
            "in": "query",
            "description": "Keep the lease and its thread until the lease is finished, even if everything is answered.",
            "schema": {"type": "boolean", "default": False},
        },
        _INSTANCE,
    ],
}


def _post(
    summary: str, body: type[BaseModel], result: type[Any], *more_statuses: int, instance: bool = False
) -> dict[str, Any]:
    answers = _answers(result, 400, 401, 403, *more_statuses, 413, 422, 503)
    parameters: dict[str, Any] = {"parameters": [_INSTANCE]} if instance else {}
    return {"post": {"tags": ["agent"], "summary": summary} | parameters | takes(body) | answers}


def _answers(result: type[Any], *statuses: int) -> dict[str, Any]:
    good = {"description": "OK", "content": {"application/json": {"schema": _schema(result)}}}
    return {"responses": {"200": good, **{str(status): problem for status, problem in problems(*statuses).items()}}}


def _problem(status: int) -> dict[str, Any]:
    codes = CODES[status]
    error: dict[str, Any] = {
        "type": "object",
        "required": ["code", "message", "hint"],
        "properties": {
            "code": {"type": "string", "enum": list(codes)},
            "message": {"type": "string"},
            "hint": {"type": ["string", "null"]},
        },
    }
    if status == 422:
        error["properties"]["fields"] = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "required": ["error"], "properties": {"error": error}}
    return {"description": ", ".join(codes), "content": {"application/json": {"schema": schema}}}


def _schema(of: type[Any]) -> dict[str, Any]:
    """Returns a self-contained schema, in which references are replaced by their definitions."""
    schema = TypeAdapter(of).json_schema()
    definitions = schema.pop("$defs", {})
    inlined = _inline(schema, definitions)
    assert isinstance(inlined, dict)
    return inlined


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    match node:
        case {"$ref": str(reference)}:
            return _inline(definitions[reference.rsplit("/", 1)[1]], definitions)
        case {"discriminator": _, **rest}:  # only repeats the variants as references
            return _inline(rest, definitions)
        case dict():
            return {key: _inline(value, definitions) for key, value in node.items()}
        case list():
            return [_inline(value, definitions) for value in node]
        case _:
            return node
