"""The door of agents that speak the Agent Client Protocol (https://agentclientprotocol.com).

The agent gets neither our file system nor our terminals: it uses its own, in the run's folder. A session counts as
resumed only if the agent lists it or replays its history, since some agents answer a resume of anything with success.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from acp import PROTOCOL_VERSION
from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, CLIENT_METHODS

from swarm_base.processes.child import to_the_end
from swarm_runner.doors.acp_updates import TurnUpdates, permission_of
from swarm_runner.doors.lines import TOO_LONG, LineProcess, object_of, text_of
from swarm_runner.doors.repository import ALL_TOOLS, OWN_NAMES, OWN_TOOLS, system_prompt
from swarm_runner.endings import failed_of, is_no_answer
from swarm_runner.port import (
    CliEvent,
    CliSession,
    QuestionAsked,
    SessionMissing,
    SessionWanted,
    StartFailed,
    TurnEnded,
    TurnOutcome,
)

_AUTH_REQUIRED: Final = -32000
_API_KEYS: Final = ("CODEX_API_KEY", "OPENAI_API_KEY")
_MOST_ASKS: Final = 100
_MOST_PAGES: Final = 50
_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
_HARMLESS: Final = ("read", "glob", "grep", "list", "todowrite", "skill", *(f"swarm_{tool}" for tool in OWN_TOOLS))
_ASKING: Final[Mapping[str, Mapping[str, str]]] = {
    "codex-acp": {
        "INITIAL_AGENT_MODE": "read-only",
        "CODEX_CONFIG": json.dumps({"features": {"default_mode_request_user_input": True}}),
    },
    "claude-agent-acp": {**ALL_TOOLS, "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"},
    "opencode": {
        "OPENCODE_PERMISSION": json.dumps({"*": "ask", **dict.fromkeys(_HARMLESS, "allow")}),
    },
}
"""Variables by which an agent asks people, and sees all tools. By default codex lets a model decide, opencode asks
nothing, and claude's adapter asks the model what people could write next. The operator's own, by ``--env``, count."""
_ASKING_MODE: Final = "default"
"""The mode in which claude's and gemini's agents ask people. An agent may begin in another one, or continue a session
in one that its earlier run has chosen."""
_READS_ITSELF: Final = ("codex-acp",)  # the texts with instructions, whatever it is told

_ALONE: Final = {"opencode": {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}}
"""Variables by which an agent leaves the repository's settings alone; opencode 1.18 still loads its plugins."""

_OF_CLAUDE: Final = {"claudeCode": {"options": {"settingSources": ["user"], "strictMcpConfig": True}}}
"""The same for claude's adapter, in the request for a session."""

_KNOWN: Final = ("codex-acp", "opencode", "claude-agent-acp")
"""The agents that are known to say in words, as if it were an answer, why they could not work."""

_REASONS: Final = {
    "max_tokens": "the model's limit of tokens is reached",
    "max_turn_requests": "the agent's limit of model requests is reached",
}


def codex_door() -> AcpDoor:
    """Codex, by its adapter."""
    return AcpDoor(["codex-acp"])


def opencode_door() -> AcpDoor:
    """OpenCode."""
    return AcpDoor(["opencode", "acp"])


class AcpDoor:
    """An agent, as the words of its command line."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)

    async def open(self, wanted: SessionWanted) -> CliSession:
        """Starts the agent, and a new session or the one to resume. Raises StartFailed and SessionMissing."""
        program = Path(self._words[0]).name
        alone = {} if wanted.trusts_repository else _ALONE.get(program, {})
        wanted = replace(wanted, environment={**_ASKING.get(program, {}), **wanted.environment, **alone})
        session = _AcpSession(await LineProcess.start(self._words, wanted), wanted, Path(self._words[0]).name)
        try:
            await session.start()
        except (SessionMissing, StartFailed):
            await to_the_end(session.close(0))
            raise
        except RequestError as error:
            await to_the_end(session.close(0))
            raise StartFailed(f"The agent answered with an error: {_words_of(error)}.") from error
        except ConnectionError as error:
            reason = await session.process.why_gone()
            await to_the_end(session.close(0))
            raise StartFailed(f"The agent did not start: {reason}.") from error
        except BaseException:
            await to_the_end(session.close(0))
            raise
        return session


class _Messages:
    """The messages of the agent, for the package's connection. Updates are taken out, in their order."""

    def __init__(self, process: LineProcess, updated: Callable[[Mapping[str, Any]], Any]) -> None:
        self._process = process
        self._updated = updated

    async def send(self, message: dict[str, Any]) -> None:
        try:
            await self._process.send(message)
        except ConnectionError:
            if "method" in message:  # an agent that is gone needs no answer
                raise

    async def receive(self) -> dict[str, Any] | None:
        while (message := await self._process.receive()) is not None:
            if message.get("method") == CLIENT_METHODS["session_update"]:
                await self._updated(object_of(message.get("params")))
            elif message.get("type") == TOO_LONG:
                if answer := await self._skipped(message, object_of(message.get("members"))):
                    return answer
            elif _is_message(message):
                return message
            else:
                await self._process.log(f"(A message that is not understood: {str(message)[:200]})")
        return None

    async def _skipped(self, message: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any] | None:
        """Refuses a request that was too long. Returns what counts in place of an answer: it ends the turn, too."""
        if (id := members.get("id")) is None:
            return None
        if "method" in members:
            error = {"code": -32600, "message": "The request is too long to be shown."}
            await self.send({"jsonrpc": "2.0", "id": id, "error": error})
            return None
        if stop := re.search(r'"stopReason":"(\w+)"', f"{message['head']} {message['tail']}"):
            return {"jsonrpc": "2.0", "id": id, "result": {"stopReason": stop[1]}}
        error = {"code": -32603, "message": "what the agent answered is too long to be read"}
        return {"jsonrpc": "2.0", "id": id, "error": error}

    async def close(self) -> None:
        """The session closes the process."""


class _AcpSession:
    """An open session of an agent."""

    def __init__(self, process: LineProcess, wanted: SessionWanted, program: str) -> None:
        self.id: str | None = None
        self.process = process
        self._wanted, self._program = wanted, program
        self._connection = Connection(self._handle, _Messages(process, self._update))
        self._updates = TurnUpdates()  # of the agent that it says to be, see `start`
        self._replayed = 0
        self._preface = wanted.system_prompt if program in _READS_ITSELF else system_prompt(wanted)
        self._capabilities: Mapping[str, Any] = {}
        self._methods: list[Mapping[str, Any]] = []
        self._asks: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._options: dict[str, tuple[str, Mapping[str, str]]] = {}  # the tool and its options, by the ask
        self._refused: list[str] = []
        self._count = 0

    async def start(self) -> None:
        """Introduces us and opens the session. Raises RequestError, ConnectionError, StartFailed, SessionMissing."""
        answer = await self._call(
            "initialize",
            protocolVersion=PROTOCOL_VERSION,
            clientCapabilities={
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
                "elicitation": {"form": {}},
            },
            clientInfo={"name": "swarm", "version": version("swarm-runner")},
        )
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            raise StartFailed(f"The agent speaks version {answer.get('protocolVersion')} of ACP, not 1.")
        named = text_of(object_of(answer.get("agentInfo")).get("name"))
        self._updates = TurnUpdates(self._wanted.spent, f"{self._program} {named}")
        self._capabilities = object_of(answer.get("agentCapabilities"))
        self._methods = [one for one in answer.get("authMethods") or () if isinstance(one, dict)]
        opening: dict[str, Any] = {"cwd": str(self._wanted.cwd), "mcpServers": await self._mcp_servers()}
        opening |= {} if self._wanted.trusts_repository else {"_meta": _OF_CLAUDE}
        if self._wanted.resume is not None:
            await self._ask_people(await self._resume(self._wanted.resume, opening))
            return
        opened = await self._authenticated("session_new", **opening)
        self.id = text_of(opened.get("sessionId"))
        if not self.id:
            raise StartFailed("The agent began a session without an id.")
        await self._ask_people(opened)

    async def turn(self, prompt: str) -> AsyncIterator[CliEvent]:
        """Sends a prompt; the first one of a new session has the system prompt in front."""
        text = f"{self._preface}\n\n{prompt}" if self._preface else prompt
        self._preface = ""
        self._updates.begin()
        self._refused = []
        async for event in self.process.turn(lambda: self._prompt(text)):
            yield event
        self._cancel_asks()

    async def permit(self, ask_id: str, *, allowed: bool, always: bool = False, reason: str = "") -> None:
        """Answers with the option that says it. Allowing once is never answered with "always"."""
        ask, (tool, options) = self._asks.get(ask_id), self._options.get(ask_id, ("", {}))
        if ask is None or ask.done() or ask_id not in self._options:
            return
        wishes = ("reject_once", "reject_always")
        if allowed:
            wishes = ("allow_always" if always else "allow_once", "allow_once")
        if not allowed:
            self._refused.append(tool)
        ask.set_result(_selected(options, wishes))

    async def answer(self, ask_id: str, values: Mapping[str, Any] | None) -> None:
        """Answers a question."""
        ask = self._asks.get(ask_id)
        if ask is not None and not ask.done() and ask_id not in self._options:
            ask.set_result({"action": "decline"} if values is None else {"action": "accept", "content": dict(values)})

    async def cancel(self) -> None:
        """Asks the agent to end the turn, and withdraws what it asked."""
        self._cancel_asks()
        if self.id:
            try:
                await self._connection.send_notification(AGENT_METHODS["session_cancel"], {"sessionId": self.id})
            except ConnectionError:
                return  # the turn ends by that

    async def close(self, grace_seconds: float) -> None:
        """Ends the agent."""
        self._cancel_asks()
        await self.process.close(grace_seconds)
        await self._connection.close()

    async def _call(self, method: str, **params: Any) -> Mapping[str, Any]:
        return object_of(await self._connection.send_request(AGENT_METHODS[method], params))

    async def _authenticated(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Makes a call, and uses an API key of the environment if the agent wants one. Otherwise raises StartFailed."""
        try:
            return await self._call(method, **params)
        except RequestError as error:
            if error.code != _AUTH_REQUIRED:
                raise
        key = next((self._wanted.environment[name] for name in _API_KEYS if self._wanted.environment.get(name)), None)
        if key is None or not any(one.get("id") == "api-key" for one in self._methods):
            ways = ", ".join(str(one.get("description") or one.get("name")) for one in self._methods)
            raise StartFailed(f"The agent is not logged in. Log in with its own command first. {ways[:300]}".rstrip())
        await self._call("authenticate", methodId="api-key", _meta={"api-key": {"apiKey": key}})
        return await self._call(method, **params)

    async def _mcp_servers(self) -> list[dict[str, Any]]:
        if not object_of(self._capabilities.get("mcpCapabilities")).get("http"):
            await self.process.log("(The agent takes no MCP servers over HTTP: it has no tools of the swarm.)")
            return []
        headers = [{"name": name, "value": value} for name, value in self._wanted.mcp.headers.items()]
        return [{"type": "http", "name": "swarm", "url": self._wanted.mcp.url, "headers": headers}]

    async def _ask_people(self, opened: Mapping[str, Any]) -> None:
        """Leaves a mode in which not people decide, if the agent offers the one in which it asks them."""
        modes = object_of(opened.get("modes"))
        offered = [object_of(mode).get("id") for mode in modes.get("availableModes") or ()]
        if _ASKING_MODE in offered and modes.get("currentModeId") != _ASKING_MODE:
            await self._call("session_set_mode", sessionId=self.id, modeId=_ASKING_MODE)

    async def _resume(self, wanted: str, opening: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the answer of the agent. Raises SessionMissing without a proof that the agent has the session."""
        offered = object_of(self._capabilities.get("sessionCapabilities"))
        try:
            is_listed = offered.get("list") is not None and await self._is_listed(wanted)
            if is_listed and offered.get("resume") is not None:
                answer = await self._authenticated("session_resume", sessionId=wanted, **opening)
            elif self._capabilities.get("loadSession"):
                self.id = wanted
                answer = await self._authenticated("session_load", sessionId=wanted, **opening)
            else:
                raise SessionMissing("The agent does not list the session, or cannot resume any.")
        except RequestError as error:
            raise SessionMissing(f"The agent did not resume the session: {_words_of(error)}.") from error
        if answer.get("sessionId", wanted) != wanted or not (is_listed or self._replayed):
            raise SessionMissing("The agent did not show that it has the session.")
        self.id, self._preface = wanted, ""
        return answer

    async def _is_listed(self, wanted: str) -> bool:
        cursor: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            page = await self._authenticated("session_list", cwd=str(self._wanted.cwd), **cursor)
            sessions = page.get("sessions")
            if any(object_of(one).get("sessionId") == wanted for one in sessions or ()):
                return True
            if not page.get("nextCursor"):
                return False
            cursor = {"cursor": page["nextCursor"]}
        return False

    async def _prompt(self, text: str) -> TurnEnded:
        try:
            answer = await self._call("session_prompt", sessionId=self.id, prompt=[{"type": "text", "text": text}])
        except RequestError as error:
            return failed_of(_words_of(error), tuple(self._refused))
        counted, usage = object_of(answer.get("usage")), self._updates.total(object_of(answer.get("usage")))
        if usage:
            await self.process.put(usage)
        stop = str(answer.get("stopReason"))
        match stop:
            case "end_turn" if self._says_no_answer(counted):
                return failed_of(self._updates.text.strip(), tuple(self._refused))
            case "end_turn":
                outcome, reason = TurnOutcome.DONE, ""
            case "cancelled":
                outcome, reason = TurnOutcome.CANCELLED, ""
            case "refusal":
                outcome, reason = TurnOutcome.REFUSED, "the agent refused"
            case _:
                outcome, reason = TurnOutcome.FAILED, _REASONS.get(stop, f"the agent stopped: {stop:.100}")
        return TurnEnded(outcome=outcome, reason=reason, refused_tools=tuple(self._refused))

    def _says_no_answer(self, usage: Mapping[str, Any]) -> bool:
        has_worked = self._updates.has_worked or usage.get("outputTokens")
        return self._program in _KNOWN and not has_worked and is_no_answer(self._updates.text)

    async def _update(self, params: Mapping[str, Any]) -> None:
        if params.get("sessionId") != self.id:
            if said := text_of(object_of(object_of(params.get("update")).get("content")).get("text")).strip():
                await self.process.log(f"(of another session) {said}")
            return
        update = object_of(params.get("update"))
        if str(update.get("sessionUpdate")).endswith("_message_chunk"):
            self._replayed += 1
        for event in self._updates.events(update):
            await self.process.put(event)

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        params = object_of(params)
        if method == CLIENT_METHODS["session_request_permission"] and not is_notification:
            return await self._permission(params)
        if method == CLIENT_METHODS["elicitation_create"] and not is_notification:
            return await self._question(params)
        if is_notification:
            return None
        raise RequestError.method_not_found(method)

    async def _permission(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self.process.is_in_turn or len(self._asks) >= _MOST_ASKS:
            return _CANCELLED
        asked, options = permission_of(self._next_id(), params, self._updates)
        if asked.tool in OWN_NAMES and "allow_once" in options:  # the coordinator checks each call
            return _selected(options, ("allow_once",))
        if "allow_once" not in options:  # an approval could not be told
            self._refused.append(asked.tool)
            await self.process.log(f"(The agent does not offer to allow {asked.tool} once, so it was refused.)")
            return _selected(options, ("reject_once", "reject_always"))
        self._options[asked.id] = (asked.tool, options)
        return await self._asked(asked.id, asked)

    async def _question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self.process.is_in_turn or params.get("mode", "form") != "form" or len(self._asks) >= _MOST_ASKS:
            return {"action": "cancel"}
        message, schema = text_of(params.get("message")), object_of(params.get("requestedSchema"))
        id = self._next_id()
        return await self._asked(id, QuestionAsked(id=id, message=message, schema=schema))

    async def _asked(self, id: str, event: CliEvent) -> dict[str, Any]:
        ask: asyncio.Future[dict[str, Any]]
        ask = self._asks[id] = asyncio.get_running_loop().create_future()
        try:
            await self.process.put(event)
            return await ask
        finally:
            self._asks.pop(id, None)
            self._options.pop(id, None)

    def _cancel_asks(self) -> None:
        for id, ask in self._asks.items():
            if not ask.done():
                ask.set_result(_CANCELLED if id in self._options else {"action": "cancel"})

    def _next_id(self) -> str:
        self._count += 1
        return f"ask-{self._count}"


def _is_message(message: Mapping[str, Any]) -> bool:
    """Whether the package's connection can take a message. A line of a log in JSON has neither id nor method."""
    id, method = message.get("id"), message.get("method")
    is_named = id is not None or method is not None
    return is_named and isinstance(id, int | str | None) and isinstance(method, str | None)


def _words_of(error: RequestError) -> str:
    data = error.data if isinstance(error.data, dict) else {}
    details = data.get("details") or data.get("message")
    return f"{error} ({details})"[:500] if details else str(error)[:500]


def _selected(options: Mapping[str, str], wishes: Sequence[str]) -> dict[str, Any]:
    """Returns the answer with the first of these kinds that the agent offers."""
    option = next((options[kind] for kind in wishes if kind in options), None)
    return _CANCELLED if option is None else {"outcome": {"outcome": "selected", "optionId": option}}
