"""accept-task: accepts a task that was offered."""

from __future__ import annotations

from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import TaskView
from tools.tool import CallContext, McpTool, TaskId, WritingArguments


class _AcceptTask(WritingArguments):
    task_id: TaskId


async def _accept_task(call: CallContext, said: _AcceptTask) -> TaskView:
    """Accept a task that was offered to you. You then receive it as task_assigned. Its thread becomes yours, unless it
    has gone to another agent since the offer.
    """
    return await call.services.delegations.accept(call, said.task_id)


TOOL = McpTool(name="accept-task", arguments=_AcceptTask, result=TaskView, run=_accept_task, roles=(Role.WORKER,))
