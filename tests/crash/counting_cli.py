"""A coding CLI that notes each of its runs. ``counting_cli.py KIND NOTES SECONDS``, KIND is ``command``, ``acp`` or
``claude``.

A run works on the job that its prompt names (``job-NUMBER``) for so many seconds, and says when it begins and ends.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any, cast

KINDS = ("command", "acp", "claude")


def note(prompt: str) -> str:
    """Notes the run, and returns its job."""
    (job,) = set(re.findall(r"job-\d+", prompt))
    with Path(sys.argv[2]).open("a") as file:
        file.write(f"{job}\n")
    return str(job)


def command() -> None:
    job = note(sys.stdin.read())
    print(f"Begun {job}.", flush=True)  # noqa: T201
    time.sleep(float(sys.argv[3]))
    print(f"Finished {job}.", flush=True)  # noqa: T201


async def acp() -> None:
    from acp import PROTOCOL_VERSION, InitializeResponse, NewSessionResponse, PromptResponse, helpers, run_agent
    from acp.schema import AgentCapabilities, McpCapabilities

    class Agent:
        client: Any = None

        def on_connect(self, client: Any) -> None:
            self.client = client

        async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
            able = AgentCapabilities(mcp_capabilities=McpCapabilities(http=True))
            return InitializeResponse(protocol_version=PROTOCOL_VERSION, agent_capabilities=able)

        async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
            return NewSessionResponse(session_id="s-1")

        async def cancel(self, session_id: str, **_: Any) -> None: ...

        async def prompt(self, session_id: str, prompt: Any, **_: Any) -> PromptResponse:
            job = note("".join(block.text for block in prompt))
            await self.say(session_id, f"Begun {job}.\n")
            await asyncio.sleep(float(sys.argv[3]))
            await self.say(session_id, f"Finished {job}.")
            return PromptResponse(stop_reason="end_turn")

        async def say(self, session_id: str, text: str) -> None:
            await self.client.session_update(session_id, helpers.update_agent_message_text(text))

    await run_agent(cast("Any", Agent()), use_unstable_protocol=True)


def claude() -> None:
    """Claude Code's protocol, as far as one turn needs it."""

    def write(**message: object) -> None:
        print(json.dumps(message), flush=True)  # noqa: T201

    def say(text: str) -> None:
        delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
        write(type="stream_event", event=delta, parent_tool_use_id=None)

    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            done = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            write(type="control_response", response=done)
        elif message["type"] == "user":
            write(type="system", subtype="init", mcp_servers=[{"name": "swarm", "status": "connected"}])
            write(type="stream_event", event={"type": "message_start", "message": {"id": "m"}})
            job = note(line)
            say(f"Begun {job}.\n")
            time.sleep(float(sys.argv[3]))
            say(f"Finished {job}.")
            write(type="result", subtype="success", is_error=False, result=f"Finished {job}.")


if __name__ == "__main__":
    if sys.argv[1] == "acp":
        asyncio.run(acp())
    else:
        {"claude": claude, "command": command}[sys.argv[1]]()
