"""How often each tool may be called in one run, and what a call too many is answered.

A tool that has been called often enough answers that, in words that name it, and all others go on. Only a turn of the
model that consists of nothing but such calls leads nowhere: then the model is asked to conclude.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from swarm.agents.toolbox.tool import Tool, ToolAnswer

CONCLUDE: Final = (
    "The tools that you keep calling have been called often enough for this question. Call no more tools: answer now, "
    "with what you have found out, and say what is missing."
)


@dataclass(slots=True)
class CallCaps:
    """The calls of one run."""

    _calls: Counter[str] = field(default_factory=Counter)
    _refused: Counter[int] = field(default_factory=Counter)  # by the model's turn: its calls that were one too many

    def refusal(self, tool: Tool, step: int) -> ToolAnswer | None:
        """Count a call that the model wants in its turn ``step``; what to answer where the tool was called enough."""
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
        """Whether every one of the so many calls of the model's turn ``step`` was one too many."""
        return 0 < calls <= self._refused[step]
