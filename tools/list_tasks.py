"""list-tasks: lists the newest tasks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.tasks import FoundTasks, TaskStatus
from tools.tool import Arguments, CallContext, McpTool


class _ListTasks(Arguments):
    status: Annotated[TaskStatus | None, Field(strict=False, description="Only tasks in this state.")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="The maximum number of tasks, newest first.")] = 20


async def _list_tasks(call: CallContext, said: _ListTasks) -> FoundTasks:
    """List tasks, newest first. Leads see all tasks, workers those that they have or have created. Long texts
    (descriptions, results, errors) are cut to 1,000 characters that end in "…"; get-task returns the full text.
    """
    found = await call.services.tasks.latest(call.agent, said.status, said.limit, bound_to=call.bound_to)
    return {"tasks": found}


TOOL = McpTool(name="list-tasks", arguments=_ListTasks, result=FoundTasks, run=_list_tasks)
