"""Calls of tools in a run: limits on their number and on the length of answers; a failing tool fails no run.

A tool that reached its limit answers so, by name, and all other tools go on. If a step of the model has only such
calls, the model is asked to conclude.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from swarm.agents.toolbox.tool import Tool, ToolAnswer
from swarm.domain.model.sessions import storable

CONCLUDE: Final = (
    "The tools that you keep calling have been called often enough for this question. Call no more tools: answer now, "
    "with what you have found out, and say what is missing."
)

_NOTE_CHARACTERS: Final = 60
"""The longest note about left out text."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class CallCaps:
    """The calls of one run."""

    _calls: Counter[str] = field(default_factory=Counter)
    _refused: Counter[int] = field(default_factory=Counter)  # refused calls, by the model's step

    def refusal(self, tool: Tool, step: int) -> ToolAnswer | None:
        """Counts a call of the model's step ``step``. Returns an answer in place of the call after the limit."""
        is_capped = tool.most_calls is not None and self._calls[tool.name] >= tool.most_calls
        if not is_capped:
            self._calls[tool.name] += 1
            return None
        self._refused[step] += 1
        times = "once" if tool.most_calls == 1 else f"{tool.most_calls} times"
        limit = f"{times}, which is the limit for one question" if tool.most_calls else "as often as one question may"
        return ToolAnswer(
            text=f"{tool.name} has been called {limit}. Go on without {tool.name}; other tools still work."
        )

    def must_conclude(self, step: int, calls: int) -> bool:
        """Whether all ``calls`` of the model's step ``step`` were refused."""
        return 0 < calls <= self._refused[step]


async def answered(tool: Tool, arguments: Mapping[str, Any], most_characters: int) -> ToolAnswer:
    """Returns the tool's answer, cut to ``most_characters``. Raises nothing but CancelledError.

    A tool should not raise either; an unexpected error is logged and returned as a failure.
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
    """Whether this task itself is cancelled; a cancelled connection below raises the same error."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def capped(answer: ToolAnswer, most_characters: int) -> ToolAnswer:
    """Limits an answer to ``most_characters``, with the note if the limit leaves room for text.

    A long answer loses its middle: the beginning and end of a program's output are most useful. Halves of characters,
    which no provider accepts, are replaced.
    """
    return replace(answer, text=shortened(storable(answer.text), most_characters))


def shortened(text: str, most_characters: int) -> str:
    """Returns the text, without its middle if too long."""
    if len(text) <= most_characters:
        return text
    kept = max(most_characters - _NOTE_CHARACTERS, most_characters // 2)
    head = kept * 2 // 3
    note = f"\n\n[… {len(text) - kept:,} characters left out …]\n\n"
    return text[:head] + note + text[len(text) - (kept - head) :]
