"""The demo's lead, and the polling agent that the lead and the workers share.

The agent polls, needs only HTTP and MCP, and follows openly declared rules instead of a model.

It shows everything that an agent does: poll, renew the lease, read, answer through tools, and receive the notices that
a renewal returns. Your own agent would do the same with a model instead of the rules in this module and in
`swarm_lab.demo.agents.workers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import structlog

from swarm_base.processes.background import BackgroundTasks
from swarm_lab.demo.agents.workers import Counter, Finder
from swarm_lab.demo.tools import Refused, Tools

_JOBS: Final = (
    (re.compile(r"\bhow many lines\b|\bcount\b"), "counter", "Count the lines of code"),
    (re.compile(r"\bfix\b.*\btest\b|\bfailing test\b"), "coder", "Fix the failing test"),
    (re.compile(r"\badd a (?P<what>test\b.*)"), "coder", "Add a {what}"),
    (re.compile(r"\b(?:find|search(?: for)?|where is)\b\s*(?P<what>.*)"), "finder", "Find {what}"),
)
"""The patterns of requests, each with the worker and the title of the task."""

_HELP: Final = (
    "I am a small rule-driven program, not a model. I answer `hello`, `what time is it?` and `repeat after me: …` "
    "myself, and delegate other work to my workers: `fix the failing test` (the coder), `how many lines of Python are "
    "in this repository?` (the counter), `find Ingest` (the finder). While a worker is working, your messages in the "
    "thread reach it without a mention; `stop` stops it."
)


class _Lead:
    """A lead that answers itself, or delegates to a worker, which then owns the thread until the task is done."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def act(self, trigger: dict[str, Any], tools: Tools) -> None:
        """Handles one trigger."""
        task = trigger["task"]
        match trigger["kind"]:
            case "slack_inbox_message":
                await self._answer(trigger, tools)
            case "task_returned":
                await tools.call("cancel-task", task_id=task["id"], reason=f"{task['title']}: its worker was removed")
            case _:
                pass  # the worker itself has posted the end of its task

    async def _answer(self, trigger: dict[str, Any], tools: Tools) -> None:
        inbox_messages = trigger["inbox_messages"]
        text = _words(inbox_messages)
        for pattern, worker, title in _JOBS:
            found = pattern.search(text)
            if found and await self._delegate(
                inbox_messages[-1], worker, title.format(**found.groupdict()), text, tools
            ):
                return
        message = _answer(self._name, inbox_messages, trigger["thread_context"])
        await tools.call("slack-reply", inbox_message_id=inbox_messages[-1]["id"], message=message)

    async def _delegate(self, inbox_message: dict[str, Any], worker: str, title: str, text: str, tools: Tools) -> bool:
        """Delegates the message, and says so in a post under the same lease. The post has no further effect."""
        try:
            await tools.call(
                "inbox-delegate", inbox_message_id=inbox_message["id"], agent=worker, title=title, task=text
            )
        except Refused as refused:
            await tools.call(
                "slack-reply", inbox_message_id=inbox_message["id"], message=f"I cannot delegate that: {refused}"
            )
            return True
        await tools.call(
            "slack-reply", inbox_message_id=inbox_message["id"], message=f"I have delegated this to **{worker}**."
        )
        return True


def _words(inbox_messages: Sequence[dict[str, Any]]) -> str:
    """Returns the text of the messages without the addressed names."""
    text = " ".join(str(inbox_message["text"]) for inbox_message in inbox_messages)
    return re.sub(r"(?:@|swarm#)[\w-]+", " ", text).strip().lower()


def _answer(name: str, inbox_messages: Sequence[dict[str, Any]], context: Sequence[dict[str, Any]]) -> str:
    text = " ".join(str(inbox_message["text"]) for inbox_message in inbox_messages)
    said = _words(inbox_messages)
    person = inbox_messages[-1]["user"]["name"]
    earlier = sum(1 for message in context if message["kind"] == "agent")
    if re.search(r"\bhelp\b", said):
        return _HELP
    if repeat := re.search(r"repeat(?: after me)?:\s*(.+)", text, re.DOTALL | re.IGNORECASE):
        return repeat.group(1)
    if re.search(r"\btime\b", said):
        return f"It is {datetime.now(UTC):%H:%M} UTC."
    if earlier:
        return f"You said: {said or 'nothing'}. The thread has {len(context)} messages now, and I have read them all."
    if re.match(r"(hello|hi|hey|good (morning|evening))\b", said):
        return f"Hello {person}! I am **{name}**, a rule-driven program. Try `fix the failing test`, or ask for `help`."
    return f"You said: {said or 'nothing'}. I am **{name}**, a small rule-driven program; ask for `help`."


POLL_SECONDS: Final = 25
RENEW_SECONDS: Final = 5
"""The interval between renewals. Leases last a minute, but frequent renewals deliver notices of follow-ups sooner."""

PAUSE_AFTER_FAILURE_SECONDS: Final = 1.0

TOKEN_SECONDS: Final = 0.1
"""The interval for checking whether the token file exists."""

Trigger = dict[str, Any]
Act = Callable[[Trigger, Tools], Awaitable[None]]

_log = structlog.get_logger(__name__)


class _DemoAgent:
    """An agent that polls until stopped, and works on each trigger in a separate task."""

    def __init__(self, base_url: str, token: str, act: Act) -> None:
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._act = act
        self._http = httpx2.AsyncClient(
            base_url=self._base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=POLL_SECONDS + 15,
            trust_env=False,  # a proxy cannot reach this machine
            verify=base_url.startswith("https:"),  # loading certificates takes a tenth of a second
        )
        self._work = BackgroundTasks(_log_failure)

    async def run(self, stop: asyncio.Event) -> None:
        """Polls until ``stop`` is set, then finishes the current work."""
        while not stop.is_set():
            poll = asyncio.ensure_future(self._poll())
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait({poll, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not poll.done():
                poll.cancel()  # closing the connection leaves nothing claimed
                await asyncio.gather(poll, return_exceptions=True)
        await self._work.wait()
        await self._http.aclose()

    async def _poll(self) -> None:
        try:
            answer = await self._http.get("/poll", params={"wait_seconds": POLL_SECONDS, "limit": 5})
            answer.raise_for_status()
        except httpx2.HTTPError as error:
            _log.warning("the coordinator did not answer", action="poll", error=str(error))
            await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
            return
        self._take(answer.json()["triggers"])

    def _take(self, triggers: list[Trigger]) -> None:
        for trigger in triggers:
            self._work.start(self._handle(trigger))

    async def _handle(self, trigger: Trigger) -> None:
        """Works on one trigger and renews its lease meanwhile. Notices are finished here, other work by its tools."""
        token = trigger["lease"]["token"]
        renewing = asyncio.create_task(self._renew(token))
        try:
            async with Tools.connected(self._base_url, self._token, token) as tools:
                await self._use(tools, trigger)
        finally:
            renewing.cancel()
        if trigger["notice"]:
            answer = await self._http.post("/leases/finish", json={"tokens": [token], "outcome": "done", "next": 5})
            answer.raise_for_status()
            self._take(answer.json()["triggers"])

    async def _use(self, tools: Tools, trigger: Trigger) -> None:
        try:
            await self._act(trigger, tools)
        except Refused as refused:  # caught here, since the connection would wrap the error in exception groups
            _log.warning("a tool refused", action="handle", trigger=trigger["kind"], error=str(refused))

    async def _renew(self, token: str) -> None:
        """Renews the lease, and handles the notices in the answers, such as a follow-up to a running task."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                answer = await self._http.post("/leases/renew", json={"tokens": [token]})
                answer.raise_for_status()
            except httpx2.HTTPError as error:
                _log.warning("a lease could not be renewed", action="renew", error=str(error))
            else:
                self._take(answer.json()["notices"])


def _log_failure(error: Exception) -> None:
    """Logs the error of a failed run. The run's lease expires, and its work becomes due again."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, httpx2.HTTPError):
        _log.warning("the coordinator did not answer", action="handle", error=str(error))
    else:
        _log.error("a trigger could not be handled", action="handle", exc_info=error)


def _agent(name: str, root: str) -> Act:
    """Returns the behaviour of the demo's agent of this name."""
    match name:
        case "counter":
            return Counter(root).act
        case "finder":
            return Finder(root).act
        case _:
            return _Lead(name).act


async def main() -> None:
    """Runs an agent, configured by SWARM_URL, SWARM_AGENT_TOKEN (or SWARM_AGENT_TOKEN_FILE), SWARM_AGENT_NAME and
    DEMO_ROOT."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    token = os.environ.get("SWARM_AGENT_TOKEN") or await _token_in(Path(os.environ["SWARM_AGENT_TOKEN_FILE"]), stop)
    demo_agent = _DemoAgent(
        os.environ.get("SWARM_URL", "http://127.0.0.1:8080"),
        token,
        _agent(os.environ.get("SWARM_AGENT_NAME", "lead"), os.environ.get("DEMO_ROOT", ".")),
    )
    await demo_agent.run(stop)


async def _token_in(file: Path, stop: asyncio.Event) -> str:
    """Waits for a file with a token and returns the token, or an empty string if stopped first."""
    while not stop.is_set():
        with contextlib.suppress(FileNotFoundError):
            return (await asyncio.to_thread(file.read_text, "utf-8")).strip()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), TOKEN_SECONDS)
    return ""


if __name__ == "__main__":
    if not {"SWARM_AGENT_TOKEN", "SWARM_AGENT_TOKEN_FILE"} & os.environ.keys():
        sys.exit("SWARM_AGENT_TOKEN is not set; `swarm agents add lead --role lead` gives a token")
    asyncio.run(main())
