"""A polling agent in one small file: it needs nothing but HTTP and MCP, and follows rules instead of a model.

It shows the whole life of a message: poll, keep the lease, read, answer through ``slack-reply``. An agent of your own
would do the same with something cleverer in `answer`.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import httpx2
import structlog
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

POLL_SECONDS: Final = 25
RENEW_SECONDS: Final = 20
PAUSE_AFTER_FAILURE_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


def answer(name: str, entries: Sequence[dict[str, Any]], context: Sequence[dict[str, Any]]) -> str:
    """What to say to the new messages. Rules in place of a model, and it says so."""
    text = " ".join(str(entry["text"]) for entry in entries)
    said = re.sub(r"(?:@|swarm#)[\w-]+", " ", text).strip().lower()
    person = entries[-1]["user"]["name"]
    earlier = sum(1 for message in context if message["kind"] == "agent")
    if re.search(r"\bhelp\b", said):
        return (
            "I am a small rule-driven program, no model. Try `hello`, `what time is it?`, `repeat after me: …`, "
            "or write again in this thread without a mention: it reaches me, since I own the thread."
        )
    if repeat := re.search(r"repeat(?: after me)?:\s*(.+)", text, re.DOTALL | re.IGNORECASE):
        return repeat.group(1)
    if re.search(r"\btime\b", said):
        return f"It is {datetime.now(UTC):%H:%M} UTC."
    if earlier:
        return f"You said: {said or 'nothing'}. The thread has {len(context)} messages now, and I have read them all."
    if re.match(r"(hello|hi|hey|good (morning|evening))\b", said):
        return f"Hello {person}! I am **{name}**, a rule-driven program. Ask for `help`, or write on in this thread."
    return f"You said: {said or 'nothing'}. I am **{name}**, a small rule-driven program; ask for `help`."


class DemoAgent:
    """Polls until it is stopped, and works on each trigger in a task of its own."""

    def __init__(self, base_url: str, token: str, name: str) -> None:
        self._base_url = base_url.rstrip("/")
        self._name = name
        self._http = httpx2.AsyncClient(
            base_url=self._base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=POLL_SECONDS + 15,
            trust_env=False,  # a proxy does not reach this machine
        )
        self._work: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Poll until ``stop``; then finish what was begun."""
        while not stop.is_set():
            poll = asyncio.ensure_future(self._poll())
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait({poll, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not poll.done():
                poll.cancel()  # a caller that goes away leaves nothing claimed
                await asyncio.gather(poll, return_exceptions=True)
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._http.aclose()

    async def _poll(self) -> None:
        try:
            answer = await self._http.get("/poll", params={"wait_seconds": POLL_SECONDS, "limit": 5})
            answer.raise_for_status()
        except httpx2.HTTPError as error:
            _log.warning("the coordinator did not answer", action="poll", error=str(error))
            await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
            return
        for trigger in answer.json()["triggers"]:
            task = asyncio.create_task(self._handle(trigger))
            self._work.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """A run that failed is heard of; its lease lapses, and the work comes again."""
        self._work.discard(task)
        if not task.cancelled() and task.exception():
            _log.error("a trigger could not be handled", action="handle", exc_info=task.exception())

    async def _handle(self, trigger: dict[str, Any]) -> None:
        """Work on one trigger, and keep its lease meanwhile."""
        token = trigger["lease"]["token"]
        renewing = asyncio.create_task(self._renew(token))
        try:
            if trigger["kind"] == "slack_inbox_message":
                await self._reply(trigger, token)
            else:
                await self._http.post("/leases/finish", json={"tokens": [token], "outcome": "done"})
        finally:
            renewing.cancel()

    async def _reply(self, trigger: dict[str, Any], token: str) -> None:
        entries = trigger["inbox_messages"]
        message = answer(self._name, entries, trigger["thread_context"])
        headers = {**self._http.headers, "X-Swarm-Lease": token}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
            Client(streamable_http_client(f"{self._base_url}/mcp", http_client=http)) as mcp,
        ):
            result = await mcp.call_tool("slack-reply", {"inbox_message_id": entries[-1]["id"], "message": message})
        if result.is_error:
            _log.warning("the answer was refused", action="reply", error=str(result.structured_content))

    async def _renew(self, token: str) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            await self._http.post("/leases/renew", json={"tokens": [token]})


async def main() -> None:
    """Run with SWARM_URL, SWARM_AGENT_TOKEN and SWARM_AGENT_NAME from the environment."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    agent = DemoAgent(
        os.environ.get("SWARM_URL", "http://127.0.0.1:8080"),
        os.environ["SWARM_AGENT_TOKEN"],
        os.environ.get("SWARM_AGENT_NAME", "lead"),
    )
    await agent.run(stop)


if __name__ == "__main__":
    if "SWARM_AGENT_TOKEN" not in os.environ:
        sys.exit("SWARM_AGENT_TOKEN is not set; `swarm agents add lead --role lead` gives a token")
    asyncio.run(main())
