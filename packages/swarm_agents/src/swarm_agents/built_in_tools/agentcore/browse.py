"""The tool web-browse: opens a page in a browser that runs at AWS.

Private addresses are not opened: they only lead to the browser's machine, whose metadata service holds credentials, or
to the operator's network. The check covers literal addresses. A name is resolved at AWS, so its address is not known
here.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import stamina
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus

from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.built_in_tools.agentcore.page import (
    MOST_MESSAGE_BYTES,
    BrowserError,
    Cdp,
    NotOpened,
    PageText,
    read_page,
)
from swarm_agents.built_in_tools.agentcore.sessions import AgentCoreSessions, Clients, bounded
from swarm_agents.toolbox.tool import Tool, ToolAnswer, failed, object_schema

if TYPE_CHECKING:
    from bedrock_agentcore.tools.browser_client import BrowserClient

_TASK: Final = "extract content"
_MOST_LOAD_SECONDS: Final = 25.0
_CONNECT_ATTEMPTS: Final = 4
_CONNECT_PATIENCE_SECONDS: Final = 10.0
_MOST_CHARACTERS: Final = 4096
_LOCAL_NAMES: Final = ("localhost", "local", "internal", "intranet", "lan", "home.arpa")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_FORBIDDEN: Final = re.compile(r"[\s\x00-\x1f\x7f\\]")
"""Characters that browsers interpret differently: a backslash is read as a slash, and a line break is ignored."""
_PASSAGE_CHARACTERS: Final = 1_000
_LEFT_OUT: Final = "\n[…]\n"

_OURS: Final = frozenset({"authorization", "x-amz-date", "x-amz-security-token"})
"""The package's headers for authentication. The library sets the websocket headers itself."""

_DESCRIPTION: Final = (
    "Open a web page in a browser, run its scripts, and get its title and text; for a long page, the parts that "
    "the task is about. Mention links in the task to get the page's links too. It cannot click, type or sign in."
)
_PARAMETERS: Final = object_schema(
    {
        "url": {"type": "string", "minLength": 1, "description": "begins with http:// or https://"},
        "task": {
            "type": "string",
            "default": _TASK,
            "description": "what you want to know from the page, in its words",
        },
    },
    required=("url",),
)

Automation = Callable[["BrowserClient"], tuple[str, Mapping[str, str]]]
"""Returns the websocket address of a started browser, and the headers for opening it. May block."""


def automation(browser: BrowserClient) -> tuple[str, Mapping[str, str]]:
    """Returns the address and headers from the package. The address is always at AWS."""
    return browser.generate_ws_headers()


def browse_tool(
    clients: Clients, sessions: AgentCoreSessions, options: AgentCoreOptions, automation: Automation = automation
) -> Tool:
    """Returns the tool web-browse. Every call has its own browser, which shares no state with other calls."""

    async def browse(arguments: Mapping[str, Any]) -> ToolAnswer:
        url, task = str(arguments["url"]).strip(), str(arguments.get("task") or _TASK)
        if why := refusal(url, has_private_addresses=options.has_private_addresses):
            return failed(why)
        try:
            async with sessions.open(clients.start_browser, lambda browser: browser.stop()) as session:
                address, headers = await session.call(automation)
                page = await _read(address, headers, url, options)
        except NotOpened as error:
            return failed(f"The page could not be opened: {error}.")
        except BrowserError as error:
            return failed(f"The browser failed: {error}.")
        return _answer(page, task, options)

    call = bounded("web-browse", options.browse_seconds, browse)
    return Tool(name="web-browse", description=_DESCRIPTION, parameters=_PARAMETERS, call=call)


async def _read(address: str, headers: Mapping[str, str], url: str, options: AgentCoreOptions) -> PageText:
    connection = await _connected(address, {name: value for name, value in headers.items() if name.lower() in _OURS})
    async with connection:
        return await read_page(Cdp(connection), url, load_seconds=min(_MOST_LOAD_SECONDS, options.browse_seconds / 2))


async def _connected(address: str, headers: Mapping[str, str]) -> ClientConnection:
    """Connects the websocket in a few attempts, because a browser that has just started may not be ready."""
    async for attempt in stamina.retry_context(
        on=_may_come, attempts=_CONNECT_ATTEMPTS, timeout=_CONNECT_PATIENCE_SECONDS, wait_initial=0.2
    ):
        with attempt:
            return await connect(
                address,
                additional_headers=headers,
                user_agent_header="swarm",
                compression=None,
                max_size=MOST_MESSAGE_BYTES,
                close_timeout=1,
            )
    raise AssertionError("stamina either returns or raises")


def _may_come(error: Exception) -> bool:
    if isinstance(error, InvalidStatus):
        return error.response.status_code >= 500
    return isinstance(error, OSError | InvalidHandshake)


def _answer(page: PageText, task: str, options: AgentCoreOptions) -> ToolAnswer:
    if why := refusal(page.address, has_private_addresses=options.has_private_addresses):
        return failed(f"The page redirected to another address. {why}")
    text = passages(page.text.strip(), task, options.most_characters)
    notes = (
        f"Title: {page.title}" if page.title else "",
        f"Address: {page.address}",
        f"HTTP status: {page.status}" if page.status >= 400 else "",
        f"Of {page.length:,} characters, these are the ones relevant to the task."
        if page.length > len(text) + 100
        else "",
        "" if page.is_loaded else "It had not finished loading.",
    )
    body = text or f"(This page has no text; its type is {page.kind or 'unknown'}.)"
    return ToolAnswer(text="\n\n".join(filter(None, ("\n".join(filter(None, notes)), body, _links(page, task)))))


def _links(page: PageText, task: str) -> str:
    if "link" not in task.casefold() or not page.links:
        return ""
    return "Links:\n" + "\n".join(f"- {text}: {address}" for text, address in page.links)


def refusal(url: str, *, has_private_addresses: bool = False) -> str | None:
    """Returns the reason for not opening an address, in a sentence; None if the address may be opened."""
    if len(url) > _MOST_CHARACTERS or _FORBIDDEN.search(url):
        return "This is not the address of a page: it has spaces, backslashes or control characters, or is too long."
    try:
        parts = urlsplit(url)
        host = _host(parts)
        _ = parts.port
    except ValueError:
        return "This is not the address of a page; one such as https://example.org/ is expected."
    if parts.scheme not in ("http", "https") or not host:
        return "Only addresses that begin with http:// or https:// can be opened."
    if parts.username is not None or parts.password is not None:
        return "An address with a user name or password in it is not opened."
    if not has_private_addresses and _is_private(host):
        return f"'{host}' is an address in a private network, which is not opened."
    return None


def _host(parts: SplitResult) -> str:
    """Returns the host as browsers read it: percent signs decoded, other scripts converted with IDNA.

    IDNA turns full-width digits and dots into ASCII ones, and drops invisible characters. Raises ValueError.
    """
    host = unquote(parts.hostname or "")
    return (host if host.isascii() else host.encode("idna").decode()).lower().rstrip(".")


def _is_private(host: str) -> bool:
    if (address := _address(host)) is None:
        return any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES)
    return not address.is_global or address.is_multicast


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the address of a host, including the forms 127.1, 0x7f000001 and 2130706433; None if the host is a name.

    For an IPv6 address that contains an IPv4 address, returns the latter.
    """
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    if isinstance(address, ipaddress.IPv6Address):
        is_nat64 = address in _NAT64
        carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_nat64 else None
        return address.ipv4_mapped or address.sixtofour or carried or address
    return address


def passages(text: str, task: str, most_characters: int) -> str:
    """Reduces a text to the passages that share most words with the task, in order, or to its beginning if there are
    none.
    """
    if len(text) <= most_characters:
        return text
    words = _words(task)
    pieces = list(_pieces(text))
    best = sorted(range(len(pieces)), key=lambda at: (-len(words & _words(pieces[at])), at))
    kept, room = set[int](), most_characters
    for at in best:
        if (room := room - len(pieces[at]) - len(_LEFT_OUT)) < 0:
            break
        kept.add(at)
    return _joined(pieces, kept) or text[:most_characters]


def _joined(pieces: list[str], kept: set[int]) -> str:
    parts = ((pieces[at] if at - 1 in kept or at == 0 else _LEFT_OUT + pieces[at]) for at in sorted(kept))
    return "".join(parts).strip("\n")


def _pieces(text: str) -> Iterator[str]:
    """Yields groups of lines of about a thousand characters; a longer line is split."""
    piece = ""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > _PASSAGE_CHARACTERS:
            yield piece
            piece = ""
        piece += line
        while len(piece) > _PASSAGE_CHARACTERS:
            yield piece[:_PASSAGE_CHARACTERS]
            piece = piece[_PASSAGE_CHARACTERS:]
    if piece:
        yield piece


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text.casefold()))
