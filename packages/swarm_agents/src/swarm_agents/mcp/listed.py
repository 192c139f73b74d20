"""A server's list of tools, judged tool by tool, so that one odd tool takes no other along.

The library reads a page of the list whole, and so do models: a single tool that breaks the protocol, or whose schema is
none, would fail the connection, or every run of the agent. Providers read schemas as JSON Schema 2020-12, whatever
``$schema`` says.

https://modelcontextprotocol.io/specification/2025-11-25/server/tools#listing-tools
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from hashlib import sha256
from typing import Any, Final

import mcp_types as types
import orjson
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from swarm.domain.patterns import TooCostly, WorkLimit
from swarm.domain.requests.schema_checks import fill_in

_MOST_SCHEMA_BYTES: Final = 64 * 1024
_MOST_SCHEMA_VALUES: Final = 10_000
"""Of one tool, with its references filled in: the models' library reads it for each request, on the event loop."""

_READ: Final = ("name", "title", "description", "inputSchema", "annotations")
"""The fields of a tool that are read; the others may hold anything."""


def sound(page: Any, version: str, allowed: Collection[str], refuse: Callable[[str, str, object], None]) -> Any:
    """Returns a page of the list without the tools that break the protocol, which ``refuse`` gets with the reason.

    The same tools without ``type`` in the schema, or with null for what is absent, are as they were meant. Only names
    are left of those that are not ``allowed``, and nothing of what nobody reads, since the library reads the page on
    the event loop.
    """
    if not isinstance(page, dict) or not isinstance(page.get("tools"), list):
        return page  # the library refuses it
    whole = {key: value for key, value in page.items() if not isinstance(value, dict | list)}
    kept: list[object] = []
    for at, listed in enumerate(page["tools"]):
        tool = _meant(listed)
        name = str(tool.get("name") or "") if isinstance(tool, dict) else ""
        if why := "" if name.strip() else "it has no name":
            refuse(f"number {at + 1} of the list", why, listed)
        elif name not in allowed:
            kept.append({"name": name, "inputSchema": {"type": "object"}})
        elif why := _broken_rule(whole, tool, version):
            refuse(name, why, listed)
        else:
            kept.append(tool)
    return {**whole, "tools": kept}


def _meant(tool: object) -> Any:
    if not isinstance(tool, dict):
        return tool
    read = {key: tool[key] for key in _READ if tool.get(key) is not None}
    if isinstance(schema := read.get("inputSchema"), dict):
        read["inputSchema"] = {"type": "object"} | {key: part for key, part in schema.items() if part is not None}
    return read


def _broken_rule(page: Mapping[str, Any], tool: dict[str, Any], version: str) -> str:
    """Returns which rule of the protocol a tool breaks; empty if none, or if the page itself breaks one."""
    alone = {**page, "tools": [tool]}
    try:
        methods.validate_server_result("tools/list", version, alone)
        types.ListToolsResult.model_validate(alone, by_name=False)
    except KeyError:
        return ""
    except ValidationError as error:
        found = (one for one in error.errors(include_url=False, include_input=False) if one["loc"][:1] == ("tools",))
        return next((f"{'.'.join(map(str, one['loc'][2:]))}: {one['msg']}" for one in found), "")
    is_odd = version in MODERN_PROTOCOL_VERSIONS and find_invalid_x_mcp_header(tool["inputSchema"])
    return "an x-mcp-header in its schema is invalid" if is_odd else ""


def why_unusable(schema: Mapping[str, Any]) -> str:
    """Returns why models cannot be given a schema; empty if they can. Takes a while, so not for an event loop."""
    try:
        if len(orjson.dumps(schema)) > _MOST_SCHEMA_BYTES:
            return f"it is larger than {_MOST_SCHEMA_BYTES // 1024} KiB"
        fill_in(schema, WorkLimit(_MOST_SCHEMA_VALUES))
        error = next(_of_schemas().iter_errors(schema), None)
    except (orjson.JSONEncodeError, RecursionError):
        return "it is nested too deeply"
    except TooCostly:
        return f"it has more than {_MOST_SCHEMA_VALUES:,} values with its references filled in"
    if error is not None:
        where = ".".join(map(str, error.absolute_path))
        return f"its {where[:200] or 'root'} is no JSON Schema: {error.message[:200]}"
    return _unread(schema)


@cache
def _of_schemas() -> Any:
    """Returns a validator for schemas: with the short rules of draft 7, as checking by the newest takes ten times as
    long, and what providers refuse since then.
    """
    from jsonschema import Draft7Validator

    rules: Any = {key: part for key, part in Draft7Validator.META_SCHEMA.items() if key != "$id"}
    one = {"$ref": "#"}
    newer = {"items": one, "prefixItems": rules["properties"]["allOf"], "$defs": rules["properties"]["definitions"]}
    return Draft7Validator(rules | {"properties": rules["properties"] | newer})


def _unread(schema: Mapping[str, Any]) -> str:
    """Returns why the models' library cannot fill in the references; empty if it can."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.profiles import InlineDefsJsonSchemaTransformer

    try:
        InlineDefsJsonSchemaTransformer(dict(schema)).walk()
    except UserError as error:
        return f"models cannot read it: {str(error)[:200]}"
    except RecursionError:
        return "it is nested too deeply"
    return ""


def digest(listed: object) -> bytes:
    """Returns a value that tells whether a tool has changed."""
    return sha256(repr(listed).encode(errors="surrogatepass")).digest()
