"""slack-reply: answer people in Slack."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from tools.tool import Call, Tool, WritingArguments


class SlackReply(WritingArguments):
    inbox_message_id: Annotated[str, Field(description="The id of the inbox message that you answer.")]
    message: Annotated[
        str,
        Field(description="What to say, in Markdown, of any length: long texts are split without breaking code."),
    ]
    only: Annotated[
        bool, Field(description="Answer only this message, not the others that came with it under the same lease.")
    ] = False
    broadcast: Annotated[bool, Field(description="Show the answer in the channel as well as in the thread.")] = False


class Replied(TypedDict):
    """The posts that will appear in Slack, in order, and what the inbox message is now."""

    delivery_ids: list[str]
    status: str


async def slack_reply(call: Call, said: SlackReply) -> Replied:
    """Answer in the Slack thread of an inbox message, and mark it responded. All messages that came under the same
    lease count as answered by it, unless you say only=true. Call it once for each answer: the same call again posts
    nothing new, another text posts a further message. People see nothing that you do not send with this tool.
    """
    replied = await call.services.replies.reply(
        call.caller(said), said.inbox_message_id, said.message, only=said.only, broadcast=said.broadcast
    )
    return {"delivery_ids": list(replied.delivery_ids), "status": replied.status.value}


TOOL = Tool(name="slack-reply", arguments=SlackReply, result=Replied, run=slack_reply)
