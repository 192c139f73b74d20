"""inbox-delegate: hands a message and its thread to a worker."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.agents import Role
from swarm.services.tasks.delegate import Delegation
from swarm.services.tasks.tasks import brief
from tools.tool import CallContext, DependsOn, McpTool, Priority, Worker, WritingArguments


class _InboxDelegate(WritingArguments):
    inbox_message_id: Annotated[str, Field(description="The inbox message that you hand over.")]
    agent: Worker
    task: Annotated[str, Field(description="What is to be done, in enough detail to do it without the thread.")]
    title: Annotated[
        str | None, Field(description="A one-line title for lists; by default the first line of the task.")
    ] = None
    priority: Priority = 50
    depends_on: DependsOn = ()
    offer: Annotated[
        bool, Field(description="First offer the task to the worker, which accepts or declines the offer.")
    ] = False
    only: Annotated[bool, Field(description="Hand over only this message, not the others of the lease.")] = False


async def _inbox_delegate(call: CallContext, said: _InboxDelegate) -> Delegation:
    """Hand an inbox message to a worker as a task. The thread goes with the message: what people write there from now
    on reaches the worker. When the task ends, you get the thread back, and a task_finished notice with the result. You
    may announce this once in the thread, which has no further effect.
    """
    wording = brief(said.task, said.title, said.priority, said.depends_on)
    return await call.services.delegations.delegate(
        call, said.inbox_message_id, said.agent, wording, offer=said.offer, only=said.only
    )


TOOL = McpTool(
    name="inbox-delegate", arguments=_InboxDelegate, result=Delegation, run=_inbox_delegate, roles=(Role.LEAD,)
)
