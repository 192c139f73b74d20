"""cancel-task: stops a task that has not ended."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.tasks import TaskView
from tools.tool import CallContext, McpTool, TaskId, WritingArguments


class _CancelTask(WritingArguments):
    task_id: TaskId
    reason: Annotated[
        str, Field(max_length=2000, description="The reason, in a sentence; it is posted in the thread.")
    ] = ""


async def _cancel_task(call: CallContext, said: _CancelTask) -> TaskView:
    """Cancel a task and all its subtasks. The task's agent is notified at once and can post nothing more; the thread
    returns to the agent that delegated the task.
    """
    return await call.services.tasks.cancel(call, said.task_id, said.reason)


TOOL = McpTool(name="cancel-task", arguments=_CancelTask, result=TaskView, run=_cancel_task)
