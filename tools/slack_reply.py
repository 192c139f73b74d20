"""slack-reply: answers people in Slack."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.errors import Invalid
from swarm.services.inbox.replies import Replied
from tools.tool import CallContext, McpTool, WritingArguments


class _SlackReply(WritingArguments):
    message: Annotated[str, Field(description="The answer in Markdown, of any length; long texts are split for you.")]
    inbox_message_id: Annotated[str | None, Field(description="The inbox message that you answer.")] = None
    task_id: Annotated[
        str | None,
        Field(
            description="Instead of an inbox message, one of your tasks, to post something in its thread. The task "
            "may have just finished, and its state does not change."
        ),
    ] = None
    only: Annotated[bool, Field(description="Answer only this message, not the others of the lease.")] = False
    broadcast: Annotated[bool, Field(description="Show the answer in the channel as well.")] = False
    wait: Annotated[
        bool,
        Field(
            description="The text is a question. Stop afterwards: your work waits without a lease, and comes back "
            "when someone answers in the thread."
        ),
    ] = False


async def _slack_reply(call: CallContext, said: _SlackReply) -> Replied:
    """Answer in the Slack thread of an inbox message, and mark all messages of your lease as responded. Call this tool
    once for each answer: repeating the same call posts nothing, and a different text posts another message. People see
    only what you send with this tool or slack-stream.
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


TOOL = McpTool(name="slack-reply", arguments=_SlackReply, result=Replied, run=_slack_reply)
