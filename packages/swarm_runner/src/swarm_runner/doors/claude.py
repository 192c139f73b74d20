"""The door of Claude Code, by its own protocol: JSON in lines, with control requests in both directions.

The swarm's MCP server is given in a file that only its owner can read, and that is deleted at the end; no other MCP
server is used. The swarm's own tools are allowed, since the coordinator checks each call; everything else is asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from swarm_base.processes.child import to_the_end
from swarm_runner.doors import lines
from swarm_runner.doors.claude_messages import (
    QUESTION_TOOL,
    TurnMessages,
    answers_of,
    ended_of,
    permission_of,
    question_of,
    usage_of,
)
from swarm_runner.doors.lines import LineProcess, object_of, text_of
from swarm_runner.doors.repository import ALL_TOOLS, OWN_NAMES, system_prompt
from swarm_runner.port import CliEvent, CliSession, QuestionAsked, SessionMissing, SessionWanted, StartFailed, TurnEnded

_ARGUMENTS: Final = (
    "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
    "--permission-prompt-tool", "stdio", "--strict-mcp-config", "--allowedTools", ",".join(sorted(OWN_NAMES)),
)  # fmt: skip
_CONNECTED: Final = ("connected", "pending")
_MOST_ASKS: Final = 100
_ID: Final = re.compile(r"\w[\w-]{0,99}")  # of a session: an argument of the next run, and no option
_MISSING: Final = "No conversation found"
_AS_ROOT: Final = (
    "Claude Code refuses to skip its permissions as root, which its own settings ask for: start the runner as another "
    "user, or remove that mode from the settings"
)
_PROMPT_BYTES: Final = 100_000  # an argument has at most 128 KiB


class ClaudeDoor:
    """Claude Code, as the words of its command line."""

    def __init__(self, words: Sequence[str] = ("claude",)) -> None:
        self._words = list(words)

    async def open(self, wanted: SessionWanted) -> CliSession:
        """Starts the CLI and waits until it speaks the protocol. Raises StartFailed and SessionMissing."""
        id = wanted.resume or str(uuid4())
        wanted = replace(wanted, environment={**ALL_TOOLS, **wanted.environment})
        config = _config_file(wanted)
        try:
            words = [*self._words, *_ARGUMENTS, *_arguments(wanted, id, config)]
            process = await LineProcess.start(words, wanted, _with_file(wanted.wrap, config))
        except BaseException:
            config.unlink(missing_ok=True)
            raise
        session = _ClaudeSession(process, wanted, id, config)
        try:
            await session.start()
        except BaseException:
            await to_the_end(session.close(0))
            raise
        return session


class _ClaudeSession:
    """An open session. One task reads messages as long as the process runs."""

    def __init__(self, process: LineProcess, wanted: SessionWanted, id: str, config: Path) -> None:
        self.id: str | None = id
        self._process = process
        self._wanted = wanted
        self._config = config
        self._messages = TurnMessages(wanted.spent)
        self._asks: dict[str, Mapping[str, Any]] = {}  # open control requests of the CLI
        self._answers: dict[str, asyncio.Future[Mapping[str, Any]]] = {}  # to control requests of ours
        self._result: asyncio.Future[Mapping[str, Any]] | None = None
        self._is_cancelled = self._is_gone = False
        self._refused: dict[str, None] = {}
        self._complaint = ""  # why the CLI could not resume
        self._reading = asyncio.create_task(self._read(), name="claude messages")

    async def start(self) -> None:
        """Raises StartFailed, and SessionMissing if the CLI says so of a session to resume."""
        try:
            answer = await self._control("initialize")
        except ConnectionError as error:
            why = await self._process.why_gone()
            if self._wanted.resume and _MISSING in f"{why} {self._complaint}":
                raise SessionMissing(f"The CLI has no session {self._wanted.resume}.") from error
            if "root/sudo" in f"{why} {self._complaint}":
                raise StartFailed(_AS_ROOT) from error
            raise StartFailed(f"The CLI did not start: {why} {self._complaint}".rstrip()) from error
        if answer.get("subtype") != "success":
            raise StartFailed(f"The CLI refused to start: {text_of(answer.get('error'))[:300]}")

    async def turn(self, prompt: str) -> AsyncIterator[CliEvent]:
        """Sends a prompt and yields the events until its result."""
        self._messages.begin()
        self._refused, self._is_cancelled = {}, False
        try:
            async for event in self._process.turn(lambda: self._prompt(prompt)):
                yield event
        finally:
            self._result = None
            self._asks.clear()

    async def permit(self, ask_id: str, *, allowed: bool, always: bool = False, reason: str = "") -> None:
        """Answers a permission. The CLI learns the reason of a refusal."""
        if (request := self._asks.get(ask_id)) is None:
            return
        if not allowed:
            self._refused[text_of(request.get("tool_name"))] = None
            await self._reply(ask_id, {"behavior": "deny", "message": reason or "This was not allowed."})
            return
        granted = request.get("permission_suggestions") if always else None
        given = {"updatedPermissions": granted} if granted else {}
        await self._reply(ask_id, {"behavior": "allow", "updatedInput": request.get("input") or {}, **given})

    async def answer(self, ask_id: str, values: Mapping[str, Any] | None) -> None:
        """Answers a question."""
        request = self._asks.get(ask_id)
        if request is None:
            return
        if request.get("subtype") == "elicitation":
            said = {"action": "decline"} if values is None else {"action": "accept", "content": dict(values)}
            await self._reply(ask_id, said)
        elif values is None:
            await self._reply(ask_id, {"behavior": "deny", "message": "The question was not answered."})
        else:
            asked = object_of(request.get("input"))
            given = {**asked, "answers": answers_of(asked, values)}
            await self._reply(ask_id, {"behavior": "allow", "updatedInput": given})

    async def cancel(self) -> None:
        """Interrupts the turn, and what it asks."""
        self._is_cancelled = True
        stopped = {"behavior": "deny", "message": "The work was stopped.", "interrupt": True}
        for id, request in list(self._asks.items()):
            await self._reply(id, {"action": "cancel"} if request.get("subtype") == "elicitation" else stopped)
        with suppress(ConnectionError):
            await self._process.send(_request(str(uuid4()), "interrupt"))

    async def close(self, grace_seconds: float) -> None:
        """Ends the CLI and deletes the file with the agent's token."""
        try:
            await self._process.close(grace_seconds)
        finally:
            self._reading.cancel()
            await asyncio.wait({self._reading})
            self._config.unlink(missing_ok=True)

    async def _prompt(self, prompt: str) -> TurnEnded:
        self._result = asyncio.get_running_loop().create_future()
        if self._is_gone:
            raise ConnectionResetError("the CLI is gone")
        message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
        await self._process.send({"type": "user", "message": message, "parent_tool_use_id": None})
        result = await self._result
        if usage := usage_of(result, self._messages.model):
            await self._process.put(self._messages.settle(usage))
        return ended_of(result, self._messages, is_cancelled=self._is_cancelled, refused=self._refused)

    async def _control(self, subtype: str) -> Mapping[str, Any]:
        """Sends a control request. Returns the CLI's answer. Raises ConnectionError if the CLI ends."""
        id = str(uuid4())
        answer: asyncio.Future[Mapping[str, Any]]
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        await self._process.send(_request(id, subtype))
        return await answer

    async def _read(self) -> None:
        try:
            while (message := await self._process.receive()) is not None:
                try:
                    await self._take(message)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    await self._process.log(f"(A message that is not understood: {error!r:.200})")
        except ConnectionError:
            pass  # an answer could not be sent; the CLI is gone
        finally:
            self._is_gone = True
            for waiting in (*self._answers.values(), self._result):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(ConnectionResetError("the CLI is gone"))
                    waiting.exception()  # marks the error as retrieved: nobody may wait

    async def _take(self, message: Mapping[str, Any]) -> None:
        match message.get("type"):
            case "control_request":
                await self._asked(text_of(message.get("request_id")), object_of(message.get("request")))
            case "control_cancel_request":
                self._asks.pop(text_of(message.get("request_id")), None)
            case "control_response":
                self._answered(object_of(message.get("response")))
            case lines.TOO_LONG:
                await self._skipped(f"{message['head']} {message['tail']}")
            case "result":
                self._ended(message)
            case "system" if message.get("subtype") == "init":
                await self._begun(message)
            case _:
                for event in self._messages.events(message):
                    await self._process.put(event)

    async def _skipped(self, ends: str) -> None:
        """Goes on after a message that was too long: a result counts without its text, and a request is refused."""
        asked = re.search(r'"request_id":"([^"]+)"', ends)
        if '"type":"result"' in ends:
            self._ended({"subtype": "success", "is_error": '"is_error":true' in ends})
        elif asked and '"type":"control_request"' in ends:
            error = {"subtype": "error", "request_id": asked[1], "error": "The request is too long to be shown."}
            await self._process.send({"type": "control_response", "response": error})

    async def _begun(self, message: Mapping[str, Any]) -> None:
        self._messages.model = text_of(message.get("model")) or None
        servers = message.get("mcp_servers")
        status = next((one.get("status") for one in servers or () if object_of(one).get("name") == "swarm"), "missing")
        if status not in _CONNECTED:
            await self._process.log(f"(The swarm's MCP server is not connected: {str(status)[:100]}.)")
        session_id = text_of(message.get("session_id"))
        if session_id != self.id and _ID.fullmatch(session_id):
            await self._process.log(f"(The CLI goes on as the session {session_id}.)")
            self.id = session_id

    async def _asked(self, id: str, request: Mapping[str, Any]) -> None:
        event = _event_of(id, request, self._wanted.cwd)
        if event is None:
            error = {"subtype": "error", "request_id": id, "error": "This is not offered."}
            await self._process.send({"type": "control_response", "response": error})
        elif not self._process.is_in_turn or len(self._asks) >= _MOST_ASKS:
            self._asks[id] = request
            refusal = {"behavior": "deny", "message": "Nobody can be asked now."}
            await self._reply(id, {"action": "cancel"} if request.get("subtype") == "elicitation" else refusal)
        else:
            self._asks[id] = request
            await self._process.put(event)

    async def _reply(self, id: str, said: Mapping[str, Any]) -> None:
        """Answers a control request, once. A CLI that is gone is noticed by its reader."""
        if self._asks.pop(id, None) is not None:
            response = {"subtype": "success", "request_id": id, "response": said}
            with suppress(ConnectionError):
                await self._process.send({"type": "control_response", "response": response})

    def _answered(self, response: Mapping[str, Any]) -> None:
        answer = self._answers.pop(text_of(response.get("request_id")), None)
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _ended(self, message: Mapping[str, Any]) -> None:
        if self._result is not None and not self._result.done():
            self._result.set_result(message)
        else:
            self._complaint = " ".join(str(error) for error in message.get("errors") or ())[:300]


def _event_of(id: str, request: Mapping[str, Any], cwd: Path) -> CliEvent | None:
    """Returns what is to be asked, or None for a control request that nobody answers."""
    tool, given = text_of(request.get("tool_name")), object_of(request.get("input"))
    match request.get("subtype"):
        case "can_use_tool" if tool == QUESTION_TOOL:
            return question_of(id, given)
        case "can_use_tool":
            can_grant = bool(request.get("permission_suggestions"))
            return permission_of(id, tool, given, cwd, can_grant=can_grant)
        case "elicitation" if request.get("mode", "form") == "form":
            schema = object_of(request.get("requested_schema"))
            return QuestionAsked(id=id, message=text_of(request.get("message")), schema=schema)
    return None


def _request(id: str, subtype: str) -> dict[str, Any]:
    return {"type": "control_request", "request_id": id, "request": {"subtype": subtype}}


def _arguments(wanted: SessionWanted, id: str, config: Path) -> list[str]:
    words = ["--mcp-config", str(config), "--resume" if wanted.resume else "--session-id", id]
    if prompt := system_prompt(wanted):
        words += ["--append-system-prompt", prompt.encode()[:_PROMPT_BYTES].decode(errors="ignore")]
    if not wanted.trusts_repository:
        words += ["--setting-sources", "user"]
    if wanted.cost_limit_dollars is not None:
        words += ["--max-budget-usd", f"{wanted.cost_limit_dollars:g}"]
    return words


def _config_file(wanted: SessionWanted) -> Path:
    # Otherwise claude may hide the tools behind a search, or begin without them.
    server = {"type": "http", "url": wanted.mcp.url, "headers": dict(wanted.mcp.headers), "alwaysLoad": True}
    try:
        file, name = tempfile.mkstemp(prefix="swarm-mcp-", suffix=".json")  # only its owner can read it
        with os.fdopen(file, "w") as writing:
            json.dump({"mcpServers": {"swarm": server}}, writing)
    except OSError as error:
        raise StartFailed(f"A temporary file cannot be written: {error.strerror}.") from error
    return Path(name)


def _with_file(wrap: Sequence[str], config: Path) -> list[str]:
    """Shows the file in the sandbox, whose /tmp is private."""
    return [*wrap[:-1], "--ro-bind", str(config), str(config), "--"] if wrap else []
