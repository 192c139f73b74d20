"""read-inbox-message: returns one inbox message in full, with its context."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.json_shapes import InboxMessageShape, MessageShape, TaskShape, ThreadShape, shape
from tools.tool import Arguments, CallContext, McpTool


class _ReadInboxMessage(Arguments):
    inbox_message_id: Annotated[str, Field(description="The id from your prompt, a trigger or your tray.")]


class _WholeInboxMessage(InboxMessageShape):
    """The inbox message with its thread, its routing reason, and your team's last answer in that thread."""

    status: str
    thread: ThreadShape
    thread_context: list[MessageShape]
    context_incomplete: bool
    previous_reply: str | None
    routing_reason: str
    task: TaskShape | None


async def _read_inbox_message(call: CallContext, said: _ReadInboxMessage) -> _WholeInboxMessage:
    """Read one of your inbox messages in full: the new message, the complete thread before it, where and by whom it was
    written, why it was routed to you, and your team's previous answer in the thread. Previews are truncated, so read a
    message before you act on it.
    """
    whole = await call.services.inbox.read(call.agent, said.inbox_message_id)
    return shape(_WholeInboxMessage, whole, whole.inbox_message)


TOOL = McpTool(
    name="read-inbox-message", arguments=_ReadInboxMessage, result=_WholeInboxMessage, run=_read_inbox_message
)
