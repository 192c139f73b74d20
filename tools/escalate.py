"""escalate: asks for a human in a thread."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.services.operate.on_call import EscalationResult
from swarm.services.requests.human_requests import AskedWork
from tools.tool import CallContext, McpTool, WritingArguments


class _Escalate(WritingArguments):
    inbox_message_id: Annotated[str | None, Field(description="Or task_id.")] = None
    task_id: Annotated[str | None, Field(description="Or inbox_message_id.")] = None
    reason: Annotated[str, Field(max_length=2000, description="Why, in one sentence, for the people in the thread.")]


async def _escalate(call: CallContext, said: _Escalate) -> EscalationResult:
    """Call a human into the thread, once per thread, where the channel offers it. It settles nothing: answer as
    well."""
    work = AskedWork(inbox_message_id=said.inbox_message_id or None, task_id=said.task_id or None)
    return await call.services.escalations.escalate(call, work, said.reason)


TOOL = McpTool(name="escalate", arguments=_Escalate, result=EscalationResult, run=_escalate)
