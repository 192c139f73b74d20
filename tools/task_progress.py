"""task-progress: reports a task's progress."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import TaskView
from tools.tool import CallContext, McpTool, TaskId, WritingArguments


class _TaskProgress(WritingArguments):
    task_id: TaskId
    message: Annotated[str, Field(max_length=2000, description="What you are doing now, in a sentence.")]
    percent: Annotated[int | None, Field(ge=0, le=100, description="How much is done, if known.")] = None


async def _task_progress(call: CallContext, said: _TaskProgress) -> TaskView:
    """Report the progress of your task. The thread shows the progress as one message, which each call updates and which
    has a button to stop the task.
    """
    return await call.services.task_work.progress(call, said.task_id, said.message, said.percent)


TOOL = McpTool(name="task-progress", arguments=_TaskProgress, result=TaskView, run=_task_progress, roles=(Role.WORKER,))
