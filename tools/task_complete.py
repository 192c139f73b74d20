"""task-complete: ends a task with its result."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import TaskView
from tools.tool import CallContext, McpTool, TaskId, WritingArguments


class _TaskComplete(WritingArguments):
    task_id: TaskId
    result: Annotated[
        str, Field(description="The complete result, for the agent that gave you the task; people do not see it.")
    ]
    reply: Annotated[
        str | None,
        Field(description="What to post for the people in the thread, in Markdown; without it nothing is posted."),
    ] = None


async def _task_complete(call: CallContext, said: _TaskComplete) -> TaskView:
    """End your task as done. The thread returns to the agent that delegated the task, with any messages that people
    wrote meanwhile and that you have not answered.
    """
    return await call.services.task_work.complete(call, said.task_id, said.result, said.reply)


TOOL = McpTool(name="task-complete", arguments=_TaskComplete, result=TaskView, run=_task_complete, roles=(Role.WORKER,))
