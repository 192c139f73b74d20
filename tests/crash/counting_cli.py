"""A coding CLI that notes each of its runs. ``counting_cli.py KIND NOTES SECONDS``, KIND is ``command`` or ``acp``.

A run works on the job that its prompt names (``job-NUMBER``) for so many seconds, and says when it begins and ends.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path
from typing import Any, cast

KIND, NOTES, SECONDS = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])


def note(prompt: str) -> str:
    """Notes the run, and returns its job."""
    (job,) = set(re.findall(r"job-\d+", prompt))
    with NOTES.open("a") as file:
        file.write(f"{job}\n")
    return str(job)


def command() -> None:
    job = note(sys.stdin.read())
    print(f"Begun {job}.", flush=True)  # noqa: T201
    time.sleep(SECONDS)
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
            await asyncio.sleep(SECONDS)
            await self.say(session_id, f"Finished {job}.")
            return PromptResponse(stop_reason="end_turn")

        async def say(self, session_id: str, text: str) -> None:
            await self.client.session_update(session_id, helpers.update_agent_message_text(text))

    await run_agent(cast("Any", Agent()), use_unstable_protocol=True)


if __name__ == "__main__":
    if KIND == "acp":
        asyncio.run(acp())
    else:
        command()
