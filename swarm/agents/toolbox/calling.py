"""Calling a tool, so that a run survives whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from swarm.agents.toolbox.output import capped
from swarm.agents.toolbox.tool import Tool, ToolAnswer

_log = structlog.get_logger(__name__)


async def answered(tool: Tool, arguments: Mapping[str, Any], most_characters: int) -> ToolAnswer:
    """What the tool answers to a call, cut to so many characters. Raises nothing but CancelledError.

    A tool keeps to the same. One that does not, for it has a defect, has failed, and that is logged.
    """
    try:
        return capped(await tool.call(arguments), most_characters)
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        _log.warning("A tool broke off.", action="tool_broken", tool=tool.name, server=tool.server)
        return ToolAnswer(text=f"{tool.name} broke off before it answered.", failed=True)
    except Exception as error:  # noqa: BLE001 - the run goes on: the model reads that the tool has failed
        _log.error("A tool failed inside.", action="tool_failed", tool=tool.name, server=tool.server, exc_info=error)
        return ToolAnswer(text=f"{tool.name} failed: something went wrong on our side.", failed=True)


def _is_cancelled() -> bool:
    """Whether somebody wants this task to end; a connection below that was cancelled raises the same."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
