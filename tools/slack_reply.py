"""slack-reply: answers people in Slack."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.errors import Invalid
from swarm.services.rules.reply import Replied
from tools.tool import CallContext, McpTool, WritingArguments


class SlackReply(WritingArguments):
    message: Annotated[str, Field(description="In Markdown, of any length: long texts are split for you.")]
    inbox_message_id: Annotated[str | None, Field(description="The inbox message that you answer.")] = None
    task_id: Annotated[
        str | None,
        Field(
            description="Instead: a task of yours, also one that has just finished, to say something in its thread. "
            "That changes nothing."
        ),
    ] = None
    only: Annotated[bool, Field(description="Answer only this message, not the others of the lease.")] = False
    broadcast: Annotated[bool, Field(description="Show the answer in the channel as well.")] = False
    wait: Annotated[
        bool,
        Field(
            description="It is a question. Stop then: your work waits without a lease, and comes again when somebody "
            "answers in the thread."
        ),
    ] = False


async def slack_reply(call: CallContext, said: SlackReply) -> Replied:
    """Answer in the Slack thread of an inbox message, and mark all messages of your lease responded. Call it once for
    each answer: the same call again posts nothing new, another text posts a further message. People see nothing that
    you do not send with this tool or slack-stream.
    """
    if (said.inbox_message_id is None) == (said.task_id is None):
        raise Invalid(
            "Name either an inbox message or a task.",
            fields={"inbox_message_id": "its id, or leave it out", "task_id": "its id, or leave it out"},
        )
    replies = call.services.replies
    if said.inbox_message_id is not None:
        return await replies.reply(
            call, said.inbox_message_id, said.message, only=said.only, broadcast=said.broadcast, wait=said.wait
        )
    assert said.task_id is not None  # exactly one of the two is given
    return await replies.reply_to_task(call, said.task_id, said.message, broadcast=said.broadcast, wait=said.wait)


TOOL = McpTool(name="slack-reply", arguments=SlackReply, result=Replied, run=slack_reply)
