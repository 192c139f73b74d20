"""decline-task: returns a task that was offered."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import TaskView
from tools.tool import CallContext, McpTool, TaskId, WritingArguments


class _DeclineTask(WritingArguments):
    task_id: TaskId
    reason: Annotated[
        str, Field(max_length=2000, description="The reason, in a sentence, for the agent that offered the task.")
    ]


async def _decline_task(call: CallContext, said: _DeclineTask) -> TaskView:
    """Return a task that was offered to you. Its message goes back to the agent that offered it, with your reason."""
    return await call.services.delegations.decline(call, said.task_id, said.reason)


TOOL = McpTool(name="decline-task", arguments=_DeclineTask, result=TaskView, run=_decline_task, roles=(Role.WORKER,))
