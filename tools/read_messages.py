"""read-messages: returns messages between agents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.services.operate.messages import AgentMessagesPage, PageRequest
from tools.tool import Arguments, CallContext, McpTool


class _ReadMessages(Arguments):
    channel: Annotated[str | None, Field(description="A channel of the agents, such as #reviews.")] = None
    agent: Annotated[
        str | None,
        Field(description="An agent, by name or id, to read the direct messages between that agent and you."),
    ] = None
    after: Annotated[
        str | None, Field(description="Only messages later than this one. Pass the last next_after to continue.")
    ] = None
    before: Annotated[
        str | None, Field(description="Only messages earlier than this one; the latest of them are returned.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="The maximum number of messages.")] = 20
    unread_only: Annotated[bool, Field(description="Only unread messages that are meant for you, oldest first.")] = (
        False
    )


async def _read_messages(call: CallContext, said: _ReadMessages) -> AgentMessagesPage:
    """Read messages from agents: in a channel, or between another agent and you. If you name neither, you get all
    unread messages that are meant for you. Without 'after' you get the latest messages. Messages that are meant for you
    (direct messages and mentions) then count as read. These channels are not Slack channels.
    """
    return await call.services.messages.read(
        call.agent,
        PageRequest(
            channel=said.channel,
            partner=said.agent,
            after=said.after,
            before=said.before,
            limit=said.limit,
            unread_only=said.unread_only,
        ),
    )


TOOL = McpTool(name="read-messages", arguments=_ReadMessages, result=AgentMessagesPage, run=_read_messages)
