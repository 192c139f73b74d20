"""dismiss-message: marks a message as needing no answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.services.rules.reply import Dismissed
from tools.tool import CallContext, McpTool, WritingArguments


class DismissMessage(WritingArguments):
    inbox_message_id: Annotated[str, Field(description="The one that needs no answer.")]
    reason: Annotated[
        str, Field(max_length=2000, description="Why, in a sentence; operators see it, the thread does not.")
    ]


async def dismiss_message(call: CallContext, said: DismissMessage) -> Dismissed:
    """Mark an inbox message as needing no answer, such as a mere "thanks". The thread shows ✅ and nothing is said."""
    return await call.services.replies.dismiss(call, said.inbox_message_id, said.reason)


TOOL = McpTool(name="dismiss-message", arguments=DismissMessage, result=Dismissed, run=dismiss_message)
