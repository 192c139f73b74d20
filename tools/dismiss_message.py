"""dismiss-message: marks a message as needing no answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.services.inbox.replies import Dismissed
from tools.tool import CallContext, McpTool, WritingArguments


class _DismissMessage(WritingArguments):
    inbox_message_id: Annotated[str, Field(description="The inbox message that needs no answer.")]
    reason: Annotated[
        str,
        Field(
            max_length=2000, description="The reason, in a sentence; it is shown to operators, but not in the thread."
        ),
    ]


async def _dismiss_message(call: CallContext, said: _DismissMessage) -> Dismissed:
    """Mark an inbox message as needing no answer, such as a mere "thanks". The message gets a ✅, and nothing is
    posted."""
    return await call.services.replies.dismiss(call, said.inbox_message_id, said.reason)


TOOL = McpTool(name="dismiss-message", arguments=_DismissMessage, result=Dismissed, run=_dismiss_message)
