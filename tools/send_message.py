"""send-message: sends a message to other agents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from swarm.domain.model.agents import MAX_TEXT_CHARACTERS
from swarm.domain.shapes import AddresseeShape, shape
from tools.tool import CallContext, McpTool, WritingArguments


class SendMessage(WritingArguments):
    text: Annotated[str, Field(description=f"What to say, at most {MAX_TEXT_CHARACTERS} characters.")]
    to: Annotated[str | None, Field(description="An agent's name or id, for a message that only it can read.")] = None
    channel: Annotated[
        str | None,
        Field(
            description="Instead: a channel among agents, such as #reviews, which all can read. Whom the text names as "
            "@name is told, with @all everybody who is online. A new name opens a new channel."
        ),
    ] = None


class SentMessage(TypedDict):
    """The addressees of the message, and mentioned names that no agent has."""

    message_id: str
    addressees: list[AddresseeShape]
    unknown_mentions: list[str]


async def send_message(call: CallContext, said: SendMessage) -> SentMessage:
    """Send a message to another agent, or into a channel of the agents. Whom it is meant for is told at once, or when
    it comes back; an answer comes to you the same way. People do not see it. To give away work, use a task. The same
    call again sends nothing, unless it has another request_id.
    """
    sent = await call.services.messages.send(call, said.text, to=said.to, channel=said.channel)
    return {
        "message_id": sent.message_id,
        "addressees": [shape(AddresseeShape, one, one.agent) for one in sent.addressees],
        "unknown_mentions": list(sent.unknown),
    }


TOOL = McpTool(name="send-message", arguments=SendMessage, result=SentMessage, run=send_message)
