"""read-inbox-message: returns one inbox message in full, with its context."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.services.inbox.inbox import InboxMessageDetails
from tools.tool import Arguments, CallContext, McpTool


class _ReadInboxMessage(Arguments):
    inbox_message_id: Annotated[str, Field(description="The id from your prompt, a trigger or your tray.")]


async def _read_inbox_message(call: CallContext, said: _ReadInboxMessage) -> InboxMessageDetails:
    """Read one of your inbox messages in full: the new message, the complete thread before it, where and by whom it was
    written, why it was routed to you, and your team's previous answer in the thread. Previews are truncated, so read a
    message before you act on it.
    """
    return await call.services.inbox.read(call.agent, said.inbox_message_id)


TOOL = McpTool(
    name="read-inbox-message", arguments=_ReadInboxMessage, result=InboxMessageDetails, run=_read_inbox_message
)
