"""Checks the Host and Origin headers, to protect against pages of other sites in a browser on this machine.

The guard stops two attacks. In the first, a page of another site sends a cross-origin request, which has an ``Origin``
or a ``Sec-Fetch-Site`` header. In the second, the page's own host name is made to resolve to our address (DNS
rebinding). The browser then takes our server for the other site, and only the ``Host`` header reveals the attack.
Requests with a bearer token are not exempt: the check is made before any token is read.

Accepted hosts, with any port:

- loopback addresses, ``localhost`` and names below it;
- the name or address that the server listens on;
- the hosts in the settings; ``*.example.org`` stands for every name below example.org;
- for a server that listens on more than loopback: every IP address, since an address cannot be rebound (probes of a
  container's address), and every name without a dot, since nobody can own one in the public DNS (services of Compose,
  machines).

Accepted origins: no origin (not a browser), the same host and port as the request's and, on the paths for pages, the
origins in the settings. Answers on these paths also have CORS headers. ``null`` is never accepted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from swarm.entrypoints.web.answers import Refusal

LOOPBACK: Final = "127.0.0.1"

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_HOST_HEADER: Final = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\[\]:/?#@\s]+))(?::(?P<port>[0-9]{1,5}))?")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_OTHER_SITES: Final = (b"cross-site", b"same-site")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The hosts and origins that a server accepts. Refusals name the two settings."""

    bound_to: str = LOOPBACK  # the address or name that the server listens on
    hosts: Sequence[str] = ()  # additional hosts, each as returned by `checked_host`
    origins: Sequence[str] = ()  # origins of other pages, each as returned by `checked_origin`
    origin_paths: tuple[str, ...] = ("/",)  # prefixes of the paths that these pages may call
    hosts_option: str = "http.allowed_hosts"
    origins_option: str = "http.allowed_origins"

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Returns an application that serves only allowed callers."""
        if self.origins:
            app = CORSMiddleware(
                app,
                allow_origins=self.origins,
                allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
                allow_headers=("*",),  # with a bearer token, and without cookies
                expose_headers=("Retry-After",),
                allow_private_network=True,
            )
        return _AccessGuard(app, self)

    def refusal(self, scope: Scope) -> Refusal | None:
        """Returns the refusal of a request, or None if the request is allowed."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        # Browsers always send a Host header; probes with HTTP/1.0 may not.
        if len(hosts) > 1 or (not hosts and scope.get("http_version") != "1.0"):
            return _bad_request("A request must have exactly one Host header.")
        host = hosts[0].decode("latin-1").lower() if hosts else ""
        if hosts and not self._answers(host):
            return self._other_host()
        return self._refused_origin(scope, host)

    def _answers(self, host: str) -> bool:
        found = _HOST_HEADER.fullmatch(host)
        if found is None:
            return False
        name = found["six"] or found["name"].removesuffix(".")
        address = _address(name)
        if address is not None and (address.is_loopback or not self._on_loopback_only):
            return True
        if address is None and not found["six"] and self._is_known_name(name):
            return True
        return any(_fits(name, allowed) for allowed in (self.bound_to.lower(), *self.hosts))

    @property
    def _on_loopback_only(self) -> bool:
        return is_this_machine(self.bound_to)

    def _is_known_name(self, name: str) -> bool:
        return _is_localhost(name) or (not self._on_loopback_only and "." not in name)

    def _other_host(self) -> Refusal:
        return _forbidden(
            "The Host header does not name a host of this server.",
            f"Use an address that it listens on, or add the name to {self.hosts_option}.",
        )

    def _refused_origin(self, scope: Scope, host: str) -> Refusal | None:
        headers = dict(scope["headers"])
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if not origins:
            return None if _may_lack_origin(scope, headers) else self._other_site()
        origin = origins[0].decode("latin-1").lower()
        if len(origins) != 1:
            return self._other_site()
        if _is_same(origin, host):
            return None
        if origin not in self.origins:
            return self._other_site()
        return None if scope["path"].startswith(self.origin_paths) else self._other_path()

    def _other_site(self) -> Refusal:
        return _forbidden(
            "Pages of other sites may not call this server.",
            f"To allow a page, add its origin to {self.origins_option}.",
        )

    def _other_path(self) -> Refusal:
        paths = " and ".join(f"{path}*" for path in self.origin_paths)
        return _forbidden(
            f"Pages of {self.origins_option} may call {paths} only.",
            "Call this route from a program, which sends no Origin header.",
        )


class _AccessGuard:
    """ASGI middleware that refuses requests and WebSockets according to `Access`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._access.refusal(scope) if scope["type"] != "lifespan" else None
        await (refusal or self._app)(scope, receive, send)


def checked_host(text: str) -> str:
    """Returns a host from the settings in the form that `Access` uses. Raises ValueError for anything but a name,
    *.name or address."""
    host = text.strip().lower().removesuffix(".")
    bare = host.removeprefix("[").removesuffix("]")
    if _address(bare) is not None:
        return bare
    if not _NAME.fullmatch(host.removeprefix("*.")):
        raise ValueError(
            f"'{text}' is not a valid host; a name without scheme and port is expected, such as swarm.example.org "
            "or *.example.org"
        )
    return host


def checked_origin(text: str) -> str:
    """Returns an origin from the settings in the form that browsers use. Raises ValueError for anything but
    scheme://host[:port]."""
    origin = text.strip().lower()
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.netloc.rpartition(":")[0] if port is not None else parts.netloc
    bare = host.removeprefix("[").removesuffix("]")
    is_host = bool(_NAME.fullmatch(host)) or _address(bare) is not None
    if parts.scheme not in _DEFAULT_PORTS or not is_host or origin != f"{parts.scheme}://{parts.netloc}":
        raise ValueError(
            f"'{text}' is not a valid origin; scheme, host and port are expected, such as https://chat.example.org "
            "or http://localhost:3000"
        )
    return f"{parts.scheme}://{_without_default_port(parts.scheme, parts.netloc)}"


def _may_lack_origin(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Whether the request comes from a program other than a browser, from one of our pages, or from a followed link."""
    if headers.get(b"sec-fetch-site") not in _OTHER_SITES:
        return True
    return scope.get("method") in ("GET", "HEAD") and headers.get(b"sec-fetch-mode") == b"navigate"


def _is_same(origin: str, host: str) -> bool:
    """Whether a page comes from the requested host. The scheme is not compared, since a proxy may have terminated
    TLS."""
    scheme, _, netloc = origin.partition("://")
    return bool(host) and scheme in _DEFAULT_PORTS and _without_default_port(scheme, host) == netloc


def _without_default_port(scheme: str, netloc: str) -> str:
    return netloc.removesuffix(f":{_DEFAULT_PORTS[scheme]}")


def is_this_machine(host: str) -> bool:
    """Whether a name or an address refers to this machine."""
    address = _address(host)
    return address.is_loopback if address else _is_localhost(host.lower())


def _is_localhost(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _fits(name: str, allowed: str) -> bool:
    return name.endswith(allowed[1:]) if allowed.startswith("*.") else name == allowed


@lru_cache(maxsize=256)  # almost all requests name the same few hosts
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _forbidden(message: str, hint: str) -> Refusal:
    return Refusal(status=403, code="forbidden", message=message, hint=hint, closes=False)


def _bad_request(message: str) -> Refusal:
    return Refusal(status=400, code="bad_request", message=message, hint="", closes=False)
