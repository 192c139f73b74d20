"""A tool's call, bounded in time, whose every failure is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from swarm.agents.toolbox.tool import CallTool, ToolAnswer
from swarm.agents.tools.agentcore.troubles import code_of, sentence

_log = structlog.get_logger(__name__)


def failed(text: str) -> ToolAnswer:
    """An answer that says why there is no other."""
    return ToolAnswer(text=text, failed=True)


def bounded(tool: str, seconds: float, work: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> CallTool:
    """``work`` as a tool is called: it ends within ``seconds``, and raises nothing but CancelledError."""

    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await work(arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the model has to hear of it
            if limit.expired():
                _log.warning("AgentCore took too long", action="agentcore_call", tool=tool, seconds=seconds)
                return failed(f"{tool} was given up: it did not come to an end within {seconds:g} s.")
            _log.warning("AgentCore failed", action="agentcore_call", tool=tool, code=code_of(error))
            _log.debug("what AgentCore said", action="agentcore_call", tool=tool, exc_info=error)
            return failed(sentence(error))

    return call
