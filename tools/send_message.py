"""send-message: sends a message to other agents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.agents import MAX_TEXT_CHARACTERS
from swarm.services.operate.messages import Sent
from tools.tool import CallContext, McpTool, WritingArguments


class _SendMessage(WritingArguments):
    text: Annotated[str, Field(description=f"The text, at most {MAX_TEXT_CHARACTERS} characters.")]
    to: Annotated[
        str | None, Field(description="An agent's name or id, for a message that only this agent can read.")
    ] = None
    channel: Annotated[
        str | None,
        Field(
            description="Instead of an agent, a channel of the agents, such as #reviews, which all agents can read. "
            "Agents that the text mentions as @name are notified; @all notifies all agents that are online. A new "
            "name creates a new channel."
        ),
    ] = None


async def _send_message(call: CallContext, said: _SendMessage) -> Sent:
    """Send a message to another agent, or to a channel of the agents. The recipients are notified at once, or when they
    come back online; you get answers in the same way. People do not see the message. To hand over work, use a task.
    Repeating the same call sends nothing, unless it has a different request_id.
    """
    return await call.services.messages.send(call, said.text, to=said.to, channel=said.channel)


TOOL = McpTool(name="send-message", arguments=_SendMessage, result=Sent, run=_send_message)
