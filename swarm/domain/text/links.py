"""Deceptive links: the label names another host than the link's target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SUFFIXES: Final = re.compile(
    "com|org|net|edu|gov|mil|int|info|biz|name|pro|app|dev|cloud|tech|online|site|store|shop|xyz|top|club|live|news|"
    "blog|page|link|click|web|bank|finance|money|support|email|zone|world|today|example|test|invalid|localhost|local|"
    "internal|corp|home|lan|onion|xn--.*"
)
_FILES: Final = re.compile("cc|cs|db|go|hs|js|kt|md|ml|mm|nu|pl|ps|py|rb|rs|sh|so|st|tf|ts|vb")
"""Country domains that are also file suffixes: ``README.md`` in a label is a file."""

_HOST: Final = re.compile(
    r"(?<![\w@./-])(?P<sure>[a-z][a-z0-9+.-]{0,20}://(?:[^\s/@]{0,200}@)?|www\.)?"
    r"(?P<host>(?:[^\W_][\w-]{0,62}\.){1,8}(?P<suffix>[^\W\d_]{2,24}|xn--[a-z0-9-]{1,60}))(?![\w-])",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"(?P<scheme>https?://)(?P<authority>[^/?#\\]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_MAIL: Final = re.compile(r"mailto:[^?]*@(?P<host>[^?@]+)", re.IGNORECASE)


def real_target(label: str, url: str) -> str | None:
    """Returns the address to show beside a label that names another host than the link's; None for an honest label."""
    host = _host_of(url)
    if host is None or all(_is_same(named, host) for named in _hosts_in(label)):
        return None
    return plain_address(url, whole=True)


def plain_address(url: str, *, whole: bool = False) -> str:
    """Returns an address without a user part that imitates a host.

    With ``whole`` the host is also written in ASCII, as browsers do for letters of similar scripts.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return url
    user, at, host = found["authority"].rpartition("@")
    host = _in_ascii(host) if whole else host
    return f"{found['scheme']}{'' if '.' in user else user + at}{host}{found['rest']}"


def _host_of(url: str) -> str | None:
    if found := _ADDRESS.fullmatch(url):
        return _bare(found["authority"].rpartition("@")[2].partition(":")[0])
    found = _MAIL.match(url)
    return _bare(found["host"]) if found else None


def _hosts_in(label: str) -> Iterator[str]:
    for found in _HOST.finditer(label):
        suffix = found["suffix"].lower()
        is_country = len(suffix) == 2 and not _FILES.fullmatch(suffix)
        if found["sure"] or is_country or _SUFFIXES.fullmatch(suffix) or not suffix.isascii():
            yield _bare(found["host"])


def _is_same(named: str, host: str) -> bool:
    """Whether the hosts are equal or one is a subdomain of the other."""
    return named == host or host.endswith(f".{named}") or named.endswith(f".{host}")


def _bare(host: str) -> str:
    return _in_ascii(host.strip(".").lower()).removeprefix("www.")


def _in_ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host
