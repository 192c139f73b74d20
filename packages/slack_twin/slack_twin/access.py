"""Which Host and Origin headers the twin answers, so that no page of another site posts as a person of the workspace.

A page of another site is known by its ``Origin`` or by ``Sec-Fetch-Site``; a page whose own name is made to resolve to
this machine (DNS rebinding) only by its ``Host``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = "127.0.0.1"

_HOST = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.?)+")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The hosts and origins that a twin answers, beside its own.

    Own hosts are loopback addresses, ``localhost`` and the address that it listens on; beyond loopback also every IP
    address and every name without a dot, since nobody can rebind one of these. Raises ValueError for a host or an
    origin that makes no sense.
    """

    bound_to: str = LOOPBACK  # the address or name that the twin listens on
    hosts: Sequence[str] = ()  # ``*.example.org`` stands for every name below example.org
    origins: Sequence[str] = ()  # as browsers send them: scheme://host[:port]

    def __post_init__(self) -> None:
        for host in self.hosts:
            if _address(host) is None and not _HOST.fullmatch(host.lower()):
                raise ValueError(f"'{host}' is no host; expected is a name such as twin.example.org, without a port")
        for origin in self.origins:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or origin.lower() != f"{parts.scheme}://{parts.netloc}".lower():
                raise ValueError(f"'{origin}' is no origin; expected is scheme://host[:port], without a path")

    def guard(self, app: ASGIApp) -> ASGIApp:
        """The application, for allowed callers only."""
        if self.origins:
            app = CORSMiddleware(
                app,
                allow_origins=[origin.lower() for origin in self.origins],
                allow_methods=("*",),
                allow_headers=("*",),
                expose_headers=("Retry-After",),
                allow_private_network=True,
            )
        return _Guard(app, self)

    def refusal(self, scope: Scope) -> str:
        """The reason to refuse a request; an empty text if it may pass."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) > 1 or len(origins) > 1:
            return "A request has one Host header, and one Origin at most."
        host = hosts[0].lower() if hosts else ""
        if host and not self._is_own(urlsplit(f"//{host}").hostname or ""):
            return "The Host header names no host of this twin. Use an address that it listens on, or --allow-host."
        if origins:
            is_allowed = urlsplit(origins[0].lower()).netloc == host or origins[0].lower() in map(
                str.lower, self.origins
            )
        else:
            is_allowed = headers.get("sec-fetch-site") not in ("cross-site", "same-site") or (
                scope.get("method") in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
            )
        return "" if is_allowed else "Pages of other sites may not call this twin. To allow one, use --allow-origin."

    def _is_own(self, name: str) -> bool:
        name = name.removesuffix(".")
        address, own = _address(name), _address(self.bound_to)
        is_local = own.is_loopback if own else _is_localhost(self.bound_to)
        if address is not None and (address.is_loopback or not is_local):
            return True
        if address is None and (_is_localhost(name) or (not is_local and "." not in name)):
            return True
        return any(
            name.endswith(host[1:]) if host.startswith("*.") else name == host
            for host in map(str.lower, (self.bound_to, *self.hosts))
        )


class _Guard:
    """ASGI: refuses requests and WebSockets by `Access`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reason = self._access.refusal(scope) if scope["type"] != "lifespan" else ""
        except ValueError:  # of urlsplit
            reason = "The Host or the Origin header makes no sense."
        refused = JSONResponse({"error": {"code": "forbidden", "message": reason}}, 403)
        await (refused if reason else self._app)(scope, receive, send)


def _is_localhost(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
