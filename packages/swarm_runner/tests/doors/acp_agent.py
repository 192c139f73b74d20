"""An ACP agent with one habit, in plain JSON: the models of the protocol's package take a second to load. The desk of
the tests holds what it sends against them. ``python acp_agent.py HABIT STATE``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

HABIT, STATE = (*sys.argv[1:3], "", "")[0], Path((*sys.argv[1:3], "", "")[1])
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
PERMISSION, ELICITATION, UPDATE = "session/request_permission", "elicitation/create", "session/update"
MOST_NOTED = 100_000

KNOWN_AS = {"counts tokens by session": "Copilot", "counts by process": "claude-code-acp"}
"""The agents that have the habit."""

OWN, FOREIGN = {"server": "swarm", "tool": "get-task"}, {"server": "files", "tool": "delete"}
USES: list[tuple[Any, dict[str, Any]]] = [
    ("mcp__swarm__get-task", {}), (True, OWN), ("mcp__files__delete", OWN), (True, FOREIGN), (None, OWN),
    ("mcp__swarm__evil", {}), ("mcp__swarm__", {}), (True, {"server": "swarm", "tool": "evil"}),
    (True, {"server": "swarm__", "tool": "tray"}), ("MCP__swarm__tray", {}), ("mcp__swarm__tray ", {}),
]  # fmt: skip
"""Uses of tools: what the adapter says of the tool, and the arguments."""

MODES = {"decides itself": ("auto", "default"), "asks": ("default", "auto"), "has other modes": ("build", "plan")}
"""The modes of the agents that have any, the first of them the one in which it is."""


def modes() -> dict[str, Any]:
    """The modes by the habit."""
    offered = [{"id": mode, "name": mode} for mode in MODES.get(HABIT, ())]
    return {"modes": {"currentModeId": offered[0]["id"], "availableModes": offered}} if offered else {}


def fork_away() -> None:
    """Leaves a process behind that has a session of its own, other files, and ignores SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.closerange(0, 1000)
            time.sleep(3600)
        os._exit(0)


def raw(line: str) -> None:
    """Writes bytes, whatever they are."""
    data = line.encode()
    while data:
        data = data[os.write(1, data) :]


class RequestError(Exception):
    """The answer of an error, given or got."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.answer = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Agent:
    """The agent. It notes what it is told and what it sends in STATE, a line each."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.turns = 0
        self.key = ""
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def serve(self) -> None:
        """Answers until the input ends."""
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async with asyncio.TaskGroup() as answers:
            while line := await reader.readline():
                message = json.loads(line)
                if "method" in message:
                    answers.create_task(self._answer(message))
                else:
                    self._asked.pop(message["id"]).set_result(message)
            sys.exit(0)

    async def _answer(self, message: dict[str, Any]) -> None:
        called = getattr(self, message["method"].replace("/", "_"))
        try:
            answer: dict[str, Any] = {"result": await called(message["params"]) or {}}
        except RequestError as error:
            answer = {"error": error.answer}
        if "id" in message:
            self.send(message["method"], id=message["id"], **answer)

    def send(self, about: str, **message: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0"} | message)
        if len(line) < MOST_NOTED:
            self.note(sent=[about, message])
        raw(line + "\n")

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request to the client."""
        number, answered = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = answered
        self.send(method, id=number, method=method, params=params)
        answer = await answered
        if "error" in answer:
            raise RequestError(answer["error"]["code"], answer["error"]["message"])
        return dict(answer["result"])

    def update(self, session_id: str, name: str, /, **what: Any) -> None:
        self.send(UPDATE, method=UPDATE, params={"sessionId": session_id, "update": {"sessionUpdate": name, **what}})

    def note(self, **what: Any) -> None:
        with STATE.open("a") as file:
            file.write(json.dumps(what) + "\n")

    async def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self.note(capabilities=params["clientCapabilities"])
        if HABIT == "dead":
            sys.stderr.write("no licence\n")
            os._exit(3)
        return {
            "protocolVersion": 99 if HABIT == "new protocol" else 1,
            "agentInfo": {"name": KNOWN_AS.get(HABIT, "fake"), "version": "1"},
            "agentCapabilities": {
                "loadSession": HABIT in ("replays", "replays nothing"),
                "mcpCapabilities": {"http": HABIT != "no mcp"},
                "sessionCapabilities": {} if HABIT.startswith("replays") else {"list": {}, "resume": {}},
            },
            "authMethods": [{"id": "api-key", "name": "API key"}] if HABIT == "wants a key" else [],
        }

    async def authenticate(self, params: dict[str, Any]) -> None:
        self.key = params["methodId"]

    async def session_new(self, params: dict[str, Any]) -> dict[str, Any]:
        self.note(new=params["cwd"], mcp=params["mcpServers"])
        if HABIT == "wants a key" and not self.key:
            raise RequestError(-32000, "Authentication required")
        return {"sessionId": "s-1", **modes()}

    async def session_list(self, params: dict[str, Any]) -> dict[str, Any]:
        if HABIT == "has pages" and "cursor" not in params:
            return {"sessions": [], "nextCursor": "2"}
        return {"sessions": [{"sessionId": "s-1", "cwd": params["cwd"]}]}

    async def session_resume(self, params: dict[str, Any]) -> dict[str, Any]:
        self.note(resumed=params["sessionId"])
        return modes()

    async def session_set_mode(self, params: dict[str, Any]) -> None:
        self.note(mode=params["modeId"])

    async def session_load(self, params: dict[str, Any]) -> None:
        for _number in range(50 if HABIT == "replays" else 0):
            self.say(params["sessionId"], "Earlier.")

    async def session_cancel(self, params: dict[str, Any]) -> None:
        self.note(cancelled=params["sessionId"])
        self.cancelled.set()

    async def session_prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        text = "\n".join(part["text"] for part in params["prompt"])
        self.note(prompt=text)
        return await self.turn(params["sessionId"], text)

    async def turn(self, session_id: str, text: str) -> dict[str, Any]:
        answer = {"stopReason": await self.habit(session_id)}
        turns = turns_of_session() if HABIT == "counts tokens by session" else 1
        if HABIT == "works" or HABIT.startswith("counts"):
            answer["usage"] = {"totalTokens": 15 * turns, "inputTokens": 10 * turns, "outputTokens": 5 * turns}
        return answer

    def say(self, session_id: str, text: str) -> None:
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": text})

    async def permitted(
        self, session_id: str, id: str, offered: list[dict[str, str]] = OPTIONS, meta: object = None, **call: Any
    ) -> str:
        """The option that is chosen."""
        more = {} if meta is None else {"_meta": meta}
        call = {"toolCallId": id, **call}
        answer = await self.request(PERMISSION, sessionId=session_id, toolCall=call, options=offered, **more)
        return str(answer["outcome"].get("optionId", "cancelled"))

    async def ask(self, session_id: str, number: int) -> str:
        offered = OPTIONS[1:] if HABIT == "asks for always" else OPTIONS
        call = {"title": f"rm {number}", "kind": "execute", "rawInput": {"command": f"rm {number}"}}
        return await self.permitted(session_id, f"call-{number}", offered, **call)

    async def use(self, session_id: str, number: int, meta: Any, given: Any) -> str:
        """Asks about a tool of an MCP server, as claude's and codex's adapters do."""
        call: dict[str, Any] = {"kind": "execute", "rawInput": given}
        if isinstance(meta, str):
            call["_meta"] = {"claudeCode": {"toolName": meta}}
        of_codex = {"is_mcp_tool_approval": True} if meta is True else None
        return await self.permitted(session_id, f"use-{number}", meta=of_codex, **call)

    async def question(self, session_id: str, message: str, **schema: Any) -> dict[str, Any]:
        """What became of a form."""
        form = {"mode": "form", "message": message, "requestedSchema": {"type": "object", **schema}}
        return await self.request(ELICITATION, sessionId=session_id, **form)

    async def habit(self, session_id: str) -> Any:
        match HABIT:
            case "works":
                self.works(session_id)
            case "asks twice":
                answers = await asyncio.gather(self.ask(session_id, 1), self.ask(session_id, 2))
                self.say(session_id, " ".join(answers))
            case "asks once" | "asks for always":
                self.say(session_id, await self.ask(session_id, 1))
            case "asks without end":
                asks = [asyncio.create_task(self.ask(session_id, number)) for number in range(102)]
                done, _ = await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
                self.say(session_id, " ".join(one.result() for one in done))
                self.say(session_id, f" {(await asyncio.gather(*asks)).count('cancelled')}")
            case "dies while it asks":
                asyncio.get_running_loop().call_later(0.2, os._exit, 7)
                await self.ask(session_id, 1)
            case "uses tools":
                for number, (meta, given) in enumerate(USES):
                    self.say(session_id, f"{await self.use(session_id, number, meta, given)} ")
            case "shows its environment":
                names = ("INITIAL_AGENT_MODE", "CODEX_CONFIG", "OPENCODE_PERMISSION")
                self.say(session_id, json.dumps({name: os.environ.get(name) for name in names}))
            case "questions":
                colour = {"type": "string", "enum": ["red", "blue"]}
                answer = await self.question(session_id, "Which colour?", properties={"colour": colour})
                self.say(session_id, json.dumps(answer))
            case "names an address":
                url = {"mode": "url", "elicitationId": "u", "url": "https://example.org", "message": "Log in."}
                answer = await self.request(ELICITATION, sessionId=session_id, **url)
                self.say(session_id, answer["action"])
            case "limited":
                self.say(session_id, "You've hit your usage limit. Try again in 3 hours 5 minutes.")
            case "too long to ask":
                try:
                    await self.permitted(session_id, "c", kind="edit", rawInput={"content": "x" * (11 << 20)})
                except RequestError as error:
                    self.say(session_id, str(error))
            case "speaks of another session":
                self.say("s-2", "Not mine.")
                self.say(session_id, "Mine.")
            case "waits":
                self.say(session_id, "I begin.")
                await self.cancelled.wait()
                return "cancelled"
            case "spends":
                return await self.spends(session_id)
            case "counts by session" | "counts by process" | "counts tokens by session":
                self.counts(session_id)
            case "waits for leave":
                chosen = await self.ask(session_id, 1)
                self.say(session_id, chosen)
                return "cancelled" if chosen == "cancelled" else "end_turn"
            case "refuses":
                return "refusal"
            case "too long":
                return "max_tokens"
            case "fails":
                raise RequestError(-32603, "the model is away", {"details": "503"})
            case "dies":
                self.say(session_id, "Half of ")
                sys.stderr.write("out of luck\n")
                os._exit(7)
            case "half":
                raw('{"jsonrpc":"2.0","method":"session/upd')
                os._exit(0)
            case "exits":
                os._exit(0)
            case "junk":
                raw('not JSON\n[1]\n{"jsonrpc":"2.0","id":[1],"result":{}}\n{"jsonrpc":"2.0","id":999,"result":{}}\n')
                raw('{"jsonrpc":"2.0","method":"session/update","params":7}\n')
                raw("x" * (11 << 20) + "\n")
                self.say(session_id, "Still here.")
            case "silent":
                await asyncio.Event().wait()
            case "ignores":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self.say(session_id, "I begin.")
                await asyncio.Event().wait()
            case "forks":
                fork_away()
                self.say(session_id, "Hello.")
            case "mute":
                pass
            case "stays":
                self.say(session_id, "Hello.")
                asyncio.get_running_loop().call_later(0.2, time.sleep, 3600)  # not even the end of its input ends it
            case "floods":
                for _ in range(256):
                    raw("x" * (1 << 20) + "\n")
                    self.say(session_id, "y" * (1 << 20))
            case _:
                self.say(session_id, "Hello.")
        return "end_turn"

    def works(self, session_id: str) -> None:
        look = {"content": "Look", "priority": "medium", "status": "in_progress"}
        self.update(session_id, "plan", entries=[look])
        self.say(session_id, "I look. ")
        self.update(session_id, "tool_call", toolCallId="call-1", title="ls", kind="execute", status="pending")
        self.update(session_id, "tool_call_update", toolCallId="call-1", status="completed")
        self.say(session_id, "Found.")
        self.costs(session_id, 0.25)

    def costs(self, session_id: str, dollars: float) -> None:
        self.update(session_id, "usage_update", used=10, size=100, cost={"amount": dollars, "currency": "USD"})

    async def spends(self, session_id: str) -> str:
        """Spends more than a dollar and waits until it is cancelled; the next time it ends by itself."""
        self.turns += 1
        self.say(session_id, "I went on." if self.turns > 1 else "I spend. ")
        self.costs(session_id, 0.75 + self.turns / 2)
        if self.turns > 1:
            return "end_turn"
        await self.cancelled.wait()
        return "cancelled"

    def counts(self, session_id: str) -> None:
        """Tells what the session has cost, or this process: a quarter of a dollar a turn."""
        self.turns += 1
        self.say(session_id, f"Turn {turns_of_session()}.")
        self.costs(session_id, (self.turns if HABIT == "counts by process" else turns_of_session()) / 4)


def turns_of_session() -> int:
    """The turns of all processes."""
    return sum("prompt" in json.loads(line) for line in STATE.read_text().splitlines())


if __name__ == "__main__":
    if HABIT == "banner":
        raw('\ufeffWelcome to the agent!\n\x1b[1m{"level":"info","type":"log"}\n{"level":"info"}\n')
    asyncio.run(Agent().serve())
