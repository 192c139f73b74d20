"""``/docs``: the OpenAPI document as a page, rendered here, without any script.

Both are open to everyone who can reach the server: they describe the program, which is public, and none of its data.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

_TEMPLATE: Final = Path(__file__).with_suffix(".html")
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "section{border-top:1px solid #8886;padding:.5rem 0}h3{margin:.5rem 0}"
    "pre{overflow:auto;background:#8881;padding:.5rem}td,th{text-align:left;vertical-align:top;padding:0 1rem 0 0}"
    ":root{color-scheme:light dark}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

PAGE_HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def reference_route(document: Callable[[], dict[str, Any]]) -> Route:
    """``/docs`` for an application's document, which is read on the first request."""
    made: list[str] = []

    async def page(request: Request) -> Response:
        if not made:
            made.append(render(document()))
        return HTMLResponse(made[0], headers=PAGE_HEADERS)

    return Route("/docs", page, include_in_schema=False)


def render(document: Mapping[str, Any]) -> str:
    """An OpenAPI document as HTML, by the first tag of each operation."""
    environment = Environment(autoescape=True, trim_blocks=True)
    environment.filters |= {"json": _json, "pretty": _pretty}
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            group = groups.setdefault(operation.get("tags", ["other"])[0], [])
            group.append({**operation, "method": method.upper(), "path": path})
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(document=document, groups=dict(sorted(groups.items())), style=_STYLE)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _pretty(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() if value else "no content"
