"""The tool web-browse: a page in a browser that runs at AWS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import stamina
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus

from swarm.agents.toolbox.tool import Tool, ToolAnswer
from swarm.agents.tools.agentcore.addresses import refusal
from swarm.agents.tools.agentcore.calls import bounded, failed
from swarm.agents.tools.agentcore.cdp import MOST_MESSAGE_BYTES, BrowserError, Cdp
from swarm.agents.tools.agentcore.clients import Clients
from swarm.agents.tools.agentcore.options import AgentCoreOptions
from swarm.agents.tools.agentcore.page import NotOpened, PageText, read_page
from swarm.agents.tools.agentcore.passages import passages
from swarm.agents.tools.agentcore.sessions import AgentCoreSessions

if TYPE_CHECKING:
    from bedrock_agentcore.tools.browser_client import BrowserClient

TASK: Final = "extract content"
MOST_LOAD_SECONDS: Final = 25.0

CONNECT_ATTEMPTS: Final = 4
CONNECT_PATIENCE_SECONDS: Final = 10.0

_OURS: Final = frozenset({"authorization", "x-amz-date", "x-amz-security-token"})
"""Of the headers that the package makes those that prove who we are; the websocket's own are the library's business."""

_DESCRIPTION: Final = (
    "Open a page of the web in a browser, run its scripts, and get its title and text; of a long page the parts that "
    "the task is about. Mention links in the task to get the page's links too. It cannot click, type or sign in."
)
_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "minLength": 1, "description": "begins with http:// or https://"},
        "task": {"type": "string", "default": TASK, "description": "what you want to know from the page, in its words"},
    },
    "required": ["url"],
    "additionalProperties": False,
}

Automation = Callable[["BrowserClient"], tuple[str, Mapping[str, str]]]
"""The websocket's address of a browser that has been started, and the headers to open it with. It may block."""


def automation(browser: BrowserClient) -> tuple[str, Mapping[str, str]]:
    """As the package says: always at AWS."""
    return browser.generate_ws_headers()


def browse_tool(
    clients: Clients, sessions: AgentCoreSessions, options: AgentCoreOptions, automation: Automation = automation
) -> Tool:
    """The tool web-browse. Every call has a browser of its own, which knows nothing of any other."""

    async def browse(arguments: Mapping[str, Any]) -> ToolAnswer:
        url, task = str(arguments["url"]).strip(), str(arguments.get("task") or TASK)
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
    socket = await _connected(address, {name: value for name, value in headers.items() if name.lower() in _OURS})
    async with socket:
        return await read_page(Cdp(socket), url, load_seconds=min(MOST_LOAD_SECONDS, options.browse_seconds / 2))


async def _connected(address: str, headers: Mapping[str, str]) -> ClientConnection:
    """The websocket. A browser that has just been started may need a moment."""
    async for attempt in stamina.retry_context(
        on=_may_come, attempts=CONNECT_ATTEMPTS, timeout=CONNECT_PATIENCE_SECONDS, wait_initial=0.2
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
        return failed(f"The page went on to another address. {why}")
    text = passages(page.text.strip(), task, options.most_characters)
    notes = (
        f"Title: {page.title}" if page.title else "",
        f"Address: {page.address}",
        f"HTTP status: {page.status}" if page.status >= 400 else "",
        f"Of {page.length:,} characters these are the ones that fit the task." if page.length > len(text) + 100 else "",
        "" if page.is_loaded else "It had not loaded to its end.",
    )
    body = text or f"(This page has no text; it is of the kind {page.kind or 'unknown'}.)"
    return ToolAnswer(text="\n\n".join(filter(None, ("\n".join(filter(None, notes)), body, _links(page, task)))))


def _links(page: PageText, task: str) -> str:
    if "link" not in task.casefold() or not page.links:
        return ""
    return "Links:\n" + "\n".join(f"- {text}: {address}" for text, address in page.links)
