"""``write-plan``: the steps of longer work, which people see in the answer while the agent works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swarm.domain.answers.events import PlanStep, StepStatus
from swarm_agents.toolbox.tool import Tool, ToolAnswer, object_schema

_MOST_STEPS: Final = 20
_DESCRIPTION: Final = (
    "Show people the steps of your work, if it has three or more. Give all steps each time, in the same words and "
    "order, with their current status: call this before you begin, and again whenever a step begins or ends."
)


def plan_tool() -> Tool:
    """Returns the tool. A call replaces the plan of the answer."""
    step = object_schema(
        {
            "title": {"type": "string", "minLength": 1, "maxLength": 100, "description": "A few words"},
            "status": {"type": "string", "enum": [status.value for status in StepStatus]},
        },
        required=("title", "status"),
    )
    steps = {"type": "array", "items": step, "minItems": 1, "maxItems": _MOST_STEPS}
    return Tool(
        name="write-plan",
        description=_DESCRIPTION,
        parameters=object_schema({"steps": steps}, required=("steps",)),
        call=_shown,
        is_read_only=True,
    )


async def _shown(arguments: Mapping[str, Any]) -> ToolAnswer:
    steps = (
        PlanStep(id=str(at), title=step["title"], status=StepStatus(step["status"]))
        for at, step in enumerate(arguments["steps"])
    )
    return ToolAnswer(text="People see the plan.", plan=tuple(steps))
