"""An ACP agent with one habit, by the agent's side of the protocol's package. ``python acp_agent.py HABIT STATE``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, cast

from acp import (
    PROTOCOL_VERSION,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    helpers,
    run_agent,
)
from acp.exceptions import RequestError
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    AuthenticateResponse,
    AuthMethodAgent,
    Cost,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationUrlSessionMode,
    Implementation,
    ListSessionsResponse,
    McpCapabilities,
    PermissionOption,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SessionResumeCapabilities,
    SetSessionModeResponse,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)
from pydantic import AnyUrl

HABIT, STATE = (*sys.argv[1:3], "", "")[0], Path((*sys.argv[1:3], "", "")[1])
OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="ever", name="Always", kind="allow_always"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]

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


def modes() -> SessionModeState | None:
    """The modes by the habit."""
    offered = [SessionMode(id=mode, name=mode) for mode in MODES.get(HABIT, ())]
    return SessionModeState(current_mode_id=offered[0].id, available_modes=offered) if offered else None


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
    """Writes bytes that are no message of the package."""
    os.set_blocking(1, True)
    data = line.encode()
    while data:
        data = data[os.write(1, data) :]


class Agent:
    """The agent. It notes what it is told in STATE, a line each."""

    def __init__(self) -> None:
        self.client: Any = None
        self.cancelled = asyncio.Event()
        self.turns = 0
        self.key = ""

    def on_connect(self, client: Any) -> None:
        self.client = client

    def note(self, **what: Any) -> None:
        with STATE.open("a") as file:
            file.write(json.dumps(what) + "\n")

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> InitializeResponse:
        self.note(capabilities=client_capabilities.model_dump(mode="json", exclude_none=True))
        if HABIT == "dead":
            sys.stderr.write("no licence\n")
            os._exit(3)
        sessions = SessionCapabilities(list=SessionListCapabilities(), resume=SessionResumeCapabilities())
        return InitializeResponse(
            protocol_version=99 if HABIT == "new protocol" else PROTOCOL_VERSION,
            agent_info=Implementation(name=KNOWN_AS.get(HABIT, "fake"), version="1"),
            agent_capabilities=AgentCapabilities(
                load_session=HABIT in ("replays", "replays nothing"),
                mcp_capabilities=McpCapabilities(http=HABIT != "no mcp"),
                session_capabilities=SessionCapabilities() if HABIT.startswith("replays") else sessions,
            ),
            auth_methods=[AuthMethodAgent(id="api-key", name="API key")] if HABIT == "wants a key" else [],
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> AuthenticateResponse:
        self.key = method_id
        return AuthenticateResponse()

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> NewSessionResponse:
        self.note(new=cwd, mcp=[one.model_dump(mode="json", by_alias=True) for one in mcp_servers or ()])
        if HABIT == "wants a key" and not self.key:
            raise RequestError(-32000, "Authentication required")
        return NewSessionResponse(session_id="s-1", modes=modes())

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        if HABIT == "has pages" and cursor is None:
            return ListSessionsResponse(sessions=[], next_cursor="2")
        return ListSessionsResponse(sessions=[SessionInfo(session_id="s-1", cwd=cwd or "/")])

    async def resume_session(self, session_id: str, **_: Any) -> ResumeSessionResponse:
        self.note(resumed=session_id)
        return ResumeSessionResponse(modes=modes())

    async def set_session_mode(self, mode_id: str, **_: Any) -> SetSessionModeResponse:
        self.note(mode=mode_id)
        return SetSessionModeResponse()

    async def load_session(self, session_id: str, **_: Any) -> LoadSessionResponse:
        if HABIT == "replays":
            for _number in range(50):
                await self.client.session_update(session_id, helpers.update_agent_message_text("Earlier."))
        return LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.note(cancelled=session_id)
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> PromptResponse:
        self.note(prompt=prompt[0].text)
        return PromptResponse(stop_reason=await self.habit(session_id))

    async def say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id, helpers.update_agent_message_text(text))

    async def ask(self, session_id: str, number: int) -> str:
        call = ToolCallUpdate(
            tool_call_id=f"call-{number}", title=f"rm {number}", kind="execute", raw_input={"command": f"rm {number}"}
        )
        offered = OPTIONS[1:] if HABIT == "asks for always" else OPTIONS
        answer = await self.client.request_permission(session_id, call, offered)
        return answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else "cancelled"

    async def use(self, session_id: str, number: int, meta: Any, given: Any) -> str:
        """Asks about a tool of an MCP server, as claude's and codex's adapters do."""
        kind = {"claudeCode": {"toolName": meta}} if isinstance(meta, str) else None
        call = ToolCallUpdate(tool_call_id=f"use-{number}", kind="execute", raw_input=given, field_meta=kind)
        more = {"is_mcp_tool_approval": True} if meta is True else {}
        answer = await self.client.request_permission(session_id, call, OPTIONS, **more)
        return answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else "cancelled"

    async def habit(self, session_id: str) -> Any:
        match HABIT:
            case "works":
                await self.works(session_id)
            case "asks twice":
                answers = await asyncio.gather(self.ask(session_id, 1), self.ask(session_id, 2))
                await self.say(session_id, " ".join(answers))
            case "asks once" | "asks for always":
                await self.say(session_id, await self.ask(session_id, 1))
            case "asks without end":
                asks = [asyncio.create_task(self.ask(session_id, number)) for number in range(102)]
                done, _ = await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
                await self.say(session_id, " ".join(one.result() for one in done))
                await self.say(session_id, f" {(await asyncio.gather(*asks)).count('cancelled')}")
            case "dies while it asks":
                asyncio.get_running_loop().call_later(0.2, os._exit, 7)
                await self.ask(session_id, 1)
            case "uses tools":
                for number, (meta, given) in enumerate(USES):
                    await self.say(session_id, f"{await self.use(session_id, number, meta, given)} ")
            case "shows its environment":
                names = ("INITIAL_AGENT_MODE", "CODEX_CONFIG", "OPENCODE_PERMISSION")
                await self.say(session_id, json.dumps({name: os.environ.get(name) for name in names}))
            case "questions":
                schema = ElicitationSchema.model_validate(
                    {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}}
                )
                mode = ElicitationFormSessionMode(session_id=session_id, mode="form", requested_schema=schema)
                answer = await self.client.create_elicitation("Which colour?", mode)
                await self.say(session_id, json.dumps(answer.model_dump(mode="json", exclude_none=True)))
            case "names an address":
                address = AnyUrl("https://example.org")
                by_url = ElicitationUrlSessionMode(session_id=session_id, mode="url", elicitation_id="u", url=address)
                answer = await self.client.create_elicitation("Log in.", by_url)
                await self.say(session_id, answer.action)
            case "limited":
                await self.say(session_id, "You've hit your usage limit. Try again in 3 hours 5 minutes.")
            case "too long to ask":
                call = ToolCallUpdate(tool_call_id="c", kind="edit", raw_input={"content": "x" * (11 << 20)})
                try:
                    await self.client.request_permission(session_id, call, OPTIONS)
                except RequestError as error:
                    await self.say(session_id, str(error))
            case "speaks of another session":
                await self.say("s-2", "Not mine.")
                await self.say(session_id, "Mine.")
            case "waits":
                await self.say(session_id, "I begin.")
                await self.cancelled.wait()
                return "cancelled"
            case "spends":
                return await self.spends(session_id)
            case "counts by session" | "counts by process" | "counts tokens by session":
                await self.counts(session_id)
            case "waits for leave":
                answer = await self.ask(session_id, 1)
                await self.say(session_id, answer)
                return "cancelled" if answer == "cancelled" else "end_turn"
            case "refuses":
                return "refusal"
            case "too long":
                return "max_tokens"
            case "fails":
                raise RequestError(-32603, "the model is away", {"details": "503"})
            case "dies":
                await self.say(session_id, "Half of ")
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
                await self.say(session_id, "Still here.")
            case "silent":
                await asyncio.Event().wait()
            case "ignores":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                await self.say(session_id, "I begin.")
                await asyncio.Event().wait()
            case "forks":
                fork_away()
                await self.say(session_id, "Hello.")
            case "mute":
                pass
            case "stays":
                await self.say(session_id, "Hello.")
                asyncio.get_running_loop().call_later(0.2, time.sleep, 3600)  # not even the end of its input ends it
            case "floods":
                for _ in range(256):
                    raw("x" * (1 << 20) + "\n")
                    await self.say(session_id, "y" * (1 << 20))
            case _:
                await self.say(session_id, "Hello.")
        return "end_turn"

    async def works(self, session_id: str) -> None:
        update = self.client.session_update
        await update(session_id, helpers.update_plan([helpers.plan_entry("Look", status="in_progress")]))
        await self.say(session_id, "I look. ")
        await update(session_id, helpers.start_tool_call("call-1", "ls", kind="execute", status="pending"))
        await update(session_id, helpers.update_tool_call("call-1", status="completed"))
        await self.say(session_id, "Found.")
        cost = Cost(amount=0.25, currency="USD")
        await update(session_id, UsageUpdate(session_update="usage_update", used=10, size=100, cost=cost))

    async def spends(self, session_id: str) -> str:
        """Spends more than a dollar and waits until it is cancelled; the next time it ends by itself."""
        self.turns += 1
        cost = Cost(amount=0.75 + self.turns / 2, currency="USD")
        await self.say(session_id, "I went on." if self.turns > 1 else "I spend. ")
        await self.client.session_update(
            session_id, UsageUpdate(session_update="usage_update", used=10, size=100, cost=cost)
        )
        if self.turns > 1:
            return "end_turn"
        await self.cancelled.wait()
        return "cancelled"

    async def counts(self, session_id: str) -> None:
        """Tells what the session has cost, or this process: a quarter of a dollar a turn."""
        self.turns += 1
        turns = self.turns if HABIT == "counts by process" else turns_of_session()
        await self.say(session_id, f"Turn {turns_of_session()}.")
        cost = Cost(amount=turns / 4, currency="USD")
        await self.client.session_update(
            session_id, UsageUpdate(session_update="usage_update", used=10, size=100, cost=cost)
        )


def turns_of_session() -> int:
    """The turns of all processes."""
    return sum("prompt" in json.loads(line) for line in STATE.read_text().splitlines())


class CountingAgent(Agent):
    """Tells its usage at the end."""

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> PromptResponse:
        answer = await super().prompt(session_id, prompt)
        if HABIT == "works":
            answer.usage = Usage(total_tokens=15, input_tokens=10, output_tokens=5)
        elif HABIT.startswith("counts"):
            turns = turns_of_session() if HABIT == "counts tokens by session" else 1
            answer.usage = Usage(total_tokens=15 * turns, input_tokens=10 * turns, output_tokens=5 * turns)
        return answer


if __name__ == "__main__":
    if HABIT == "banner":
        raw('\ufeffWelcome to the agent!\n\x1b[1m{"level":"info","type":"log"}\n{"level":"info"}\n')
    asyncio.run(run_agent(cast("Any", CountingAgent()), use_unstable_protocol=True))
