"""Which addresses a browser at AWS may open.

Not private ones: there is nothing behind them but the machine that the browser runs on, whose metadata service holds
credentials, or a network of the operator's. Only an address that is spelled out can be told; a name is resolved at AWS,
and what it stands for there cannot be known here.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

MOST_CHARACTERS: Final = 4096

_LOCAL_NAMES: Final = ("localhost", "local", "internal", "intranet", "lan", "home.arpa")
_FORBIDDEN: Final = re.compile(r"[\s\x00-\x1f\x7f\\]")
"""Browsers read these in ways of their own: a backslash as a slash, a line break as nothing."""


def refusal(url: str, *, has_private_addresses: bool = False) -> str | None:
    """Why an address is not opened, in a sentence; None: it may be."""
    if len(url) > MOST_CHARACTERS or _FORBIDDEN.search(url):
        return "This is no address of a page: it has spaces, backslashes or control characters, or is too long."
    try:
        parts = urlsplit(url)
        host = _host(parts)
        _ = parts.port
    except ValueError:
        return "This is no address of a page; one such as https://example.org/ is expected."
    if parts.scheme not in ("http", "https") or not host:
        return "Only addresses that begin with http:// or https:// can be opened."
    if parts.username is not None or parts.password is not None:
        return "An address with a user name or password in it is not opened."
    if not has_private_addresses and _is_private(host):
        return f"'{host}' is an address in a private network, which is not opened."
    return None


def _host(parts: SplitResult) -> str:
    """The host as a browser reads it: percent signs decoded, names of other scripts as they are looked up (IDNA).

    That makes plain digits and dots of their full-width cousins, and drops what cannot be seen. Raises ValueError.
    """
    host = unquote(parts.hostname or "")
    return (host if host.isascii() else host.encode("idna").decode()).lower().rstrip(".")


def _is_private(host: str) -> bool:
    if (address := _address(host)) is None:
        return any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES)
    return not address.is_global or address.is_multicast


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host spells out, also in the forms 127.1, 0x7f000001 and 2130706433; None: it is a name."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    return _within(address)


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that an IPv6 address carries, if it does."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour or _translated(address)
        return carried or address
    return address


def _translated(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Of NAT64 (RFC 6052)."""
    is_translated = address in ipaddress.IPv6Network("64:ff9b::/96")
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_translated else None
