"""task-fail: ends a task that cannot be done."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import TaskView
from tools.tool import CallContext, McpTool, TaskId, WritingArguments


class _TaskFail(WritingArguments):
    task_id: TaskId
    error: Annotated[str, Field(description="The reason, for the agent that gave you the task.")]
    reply: Annotated[
        str | None, Field(description="What to tell the people in the thread; without it, the error is posted.")
    ] = None


async def _task_fail(call: CallContext, said: _TaskFail) -> TaskView:
    """End your task because it cannot or should not be done. A clear early failure is better than a late guess. Tasks
    that depend on it fail as well.
    """
    return await call.services.task_work.fail(call, said.task_id, said.error, said.reply)


TOOL = McpTool(name="task-fail", arguments=_TaskFail, result=TaskView, run=_task_fail, roles=(Role.WORKER,))
