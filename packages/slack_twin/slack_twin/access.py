"""Checks the Host and Origin headers of requests, so that pages of other sites cannot post as people of the workspace.

``Origin`` or ``Sec-Fetch-Site`` identifies a page of another site. Only ``Host`` identifies a page whose name resolves
to this machine (DNS rebinding). Programs send no ``Origin`` and may call everything.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = "127.0.0.1"

_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_HOST_HEADER = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\[\]:/?#@\s]+))(?::[0-9]{1,5})?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, kw_only=True)
class Access:
    """The hosts and origins that a twin accepts in addition to its own.

    The twin's own hosts are loopback addresses, ``localhost`` and its subdomains, and the address that the twin listens
    on. If this is not loopback, they also include every IP address and every name without a dot, because neither can be
    rebound. The twin's own origin is the request's host. Raises ValueError for an invalid host or origin.
    """

    bound_to: str = LOOPBACK  # the address or name that the twin listens on
    hosts: Sequence[str] = ()  # ``*.example.org`` matches every subdomain of example.org
    origins: Sequence[str] = ()  # scheme://host[:port]

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(map(_checked_host, self.hosts)))
        object.__setattr__(self, "origins", tuple(map(_checked_origin, self.origins)))

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Wraps the application so that it accepts only permitted callers."""
        if self.origins:
            app = CORSMiddleware(
                app,
                allow_origins=self.origins,
                allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
                allow_headers=("*",),
                expose_headers=("Retry-After",),
                allow_private_network=True,
            )
        return _Guard(app, self)

    def refusal(self, scope: Scope) -> JSONResponse | None:
        """Returns the response for a refused request; None if the request is accepted."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) > 1 or (not hosts and scope.get("http_version") != "1.0"):
            return _refused(400, "bad_request", "A request must have exactly one Host header.", "")
        host = "".join(hosts).lower()
        if hosts and not self._is_own(host):
            return _refused(
                403,
                "forbidden",
                "The Host header does not name this twin.",
                "Use an address that the twin listens on, or start it with --allow-host and this name.",
            )
        if _comes_from_elsewhere(scope, headers) if not origins else not self._may_call(origins, host):
            return _refused(
                403,
                "forbidden",
                "Pages of other sites may not call this twin.",
                "To allow a page, start the twin with --allow-origin and the page's origin.",
            )
        return None

    def _is_own(self, host: str) -> bool:
        found = _HOST_HEADER.fullmatch(host)
        if found is None:
            return False
        name = found["six"] or found["name"].removesuffix(".")
        address, own = _address(name), _address(self.bound_to)
        is_local = own.is_loopback if own else _is_localhost(self.bound_to.lower())
        if address is not None and (address.is_loopback or not is_local):
            return True
        if address is None and not found["six"] and (_is_localhost(name) or (not is_local and "." not in name)):
            return True
        return any(
            name.endswith(allowed[1:]) if allowed.startswith("*.") else name == allowed
            for allowed in (self.bound_to.lower(), *self.hosts)
        )

    def _may_call(self, origins: Sequence[str], host: str) -> bool:
        if len(origins) != 1:
            return False
        scheme, _, netloc = (origin := origins[0].lower()).partition("://")
        port = _DEFAULT_PORTS.get(scheme)
        is_own = bool(host) and port is not None and host.removesuffix(port) == netloc
        return is_own or origin in self.origins


class _Guard:
    """ASGI middleware that refuses requests and WebSockets according to `Access`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._access.refusal(scope) if scope["type"] != "lifespan" else None
        await (refusal or self._app)(scope, receive, send)


def _comes_from_elsewhere(scope: Scope, headers: Headers) -> bool:
    """Returns whether a browser sent a request without an Origin for another site. A followed link does not count."""
    is_link = scope.get("method") in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    return headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_link


def _refused(status: int, code: str, message: str, hint: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "hint": hint}}, status)


def _checked_host(text: str) -> str:
    host = text.strip().lower().removesuffix(".")
    bare = host.removeprefix("[").removesuffix("]")
    if _address(bare) is not None:
        return bare
    if not _NAME.fullmatch(host.removeprefix("*.")):
        raise ValueError(f"'{text}' is not a host; expected a name without scheme and port, such as twin.example.org")
    return host


def _checked_origin(text: str) -> str:
    origin = text.strip().lower()
    found = re.fullmatch(r"(https?)://(\[[0-9a-f:.]+\]|[^\[\]:/?#@\s]+)(:[0-9]{1,5})?", origin)
    if found and (_address(found[2].strip("[]")) or _NAME.fullmatch(found[2])):
        return origin.removesuffix(_DEFAULT_PORTS[found[1]])
    raise ValueError(f"'{text}' is not an origin; expected scheme, host and port, such as http://localhost:3000")


def _is_localhost(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
