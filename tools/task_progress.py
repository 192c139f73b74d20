"""task-progress: reports a task's progress."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.json_shapes import TaskShape, shape
from swarm.domain.model.agents import Role
from tools.tool import CallContext, McpTool, TaskId, WritingArguments


class _TaskProgress(WritingArguments):
    task_id: TaskId
    message: Annotated[str, Field(max_length=2000, description="What you are doing now, in a sentence.")]
    percent: Annotated[int | None, Field(ge=0, le=100, description="How much is done, if known.")] = None


async def _task_progress(call: CallContext, said: _TaskProgress) -> TaskShape:
    """Report the progress of your task. The thread shows the progress as one message, which each call updates and which
    has a button to stop the task.
    """
    task = await call.services.task_work.progress(call, said.task_id, said.message, said.percent)
    return shape(TaskShape, task)


TOOL = McpTool(
    name="task-progress", arguments=_TaskProgress, result=TaskShape, run=_task_progress, roles=(Role.WORKER,)
)
