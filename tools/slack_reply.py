"""slack-reply: answer people in Slack."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from swarm.domain.errors import Invalid
from tools.tool import Call, Tool, WritingArguments


class SlackReply(WritingArguments):
    message: Annotated[
        str,
        Field(description="What to say, in Markdown, of any length: long texts are split without breaking code."),
    ]
    inbox_message_id: Annotated[str | None, Field(description="The id of the inbox message that you answer.")] = None
    task_id: Annotated[
        str | None, Field(description="Instead of an inbox message: your task, to say something in its thread.")
    ] = None
    only: Annotated[
        bool, Field(description="Answer only this message, not the others that came with it under the same lease.")
    ] = False
    broadcast: Annotated[bool, Field(description="Show the answer in the channel as well as in the thread.")] = False
    wait: Annotated[
        bool,
        Field(
            description="It is a question: your work waits, without a lease, and comes again when somebody answers in "
            "the thread."
        ),
    ] = False


class Replied(TypedDict):
    """The posts that will appear in Slack, in order, and what the inbox message or the task is now."""

    delivery_ids: list[str]
    status: str


async def slack_reply(call: Call, said: SlackReply) -> Replied:
    """Answer in the Slack thread of an inbox message, and mark it responded. All messages that came under the same
    lease count as answered by it, unless you say only=true. Call it once for each answer: the same call again posts
    nothing new, another text posts a further message. People see nothing that you do not send with this tool.
    With task_id it says something in the thread of your task, or of a task of yours that has just finished, and changes
    nothing. With wait=true it asks a question; stop then, for your work comes again with the answer.
    """
    if (said.inbox_message_id is None) == (said.task_id is None):
        raise Invalid(
            "Name either an inbox message or a task.",
            fields={"inbox_message_id": "its id, or leave it out", "task_id": "its id, or leave it out"},
        )
    caller, replies = call.caller(said), call.services.replies
    if said.inbox_message_id is not None:
        replied = await replies.reply(
            caller, said.inbox_message_id, said.message, only=said.only, broadcast=said.broadcast, wait=said.wait
        )
        return {"delivery_ids": list(replied.delivery_ids), "status": replied.status.value}
    assert said.task_id is not None  # one of the two is there
    spoken = await replies.reply_to_task(caller, said.task_id, said.message, broadcast=said.broadcast, wait=said.wait)
    return {"delivery_ids": list(spoken.delivery_ids), "status": spoken.status.value}


TOOL = Tool(name="slack-reply", arguments=SlackReply, result=Replied, run=slack_reply)
