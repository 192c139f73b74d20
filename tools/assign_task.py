"""assign-task: gives an unassigned task to a worker."""

from __future__ import annotations

from swarm.domain.model.tasks import TaskView
from tools.tool import CallContext, McpTool, TaskId, Worker, WritingArguments


class _AssignTask(WritingArguments):
    task_id: TaskId
    agent: Worker


async def _assign_task(call: CallContext, said: _AssignTask) -> TaskView:
    """Give a worker a task that was created without an agent, or that was returned because its worker was removed
    (task_returned). A delegated task brings its thread along, unless another worker now has the thread.
    """
    return await call.services.tasks.assign(call, said.task_id, said.agent)


TOOL = McpTool(name="assign-task", arguments=_AssignTask, result=TaskView, run=_assign_task)
