"""slack-upload-file: puts a file into a thread."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import Field

from swarm.domain.errors import Invalid
from swarm.domain.model.files import Shared
from swarm.services.work.fencing import ThreadReference
from swarm_base.secrets import without_secrets
from tools.tool import CallContext, McpTool, WritingArguments


class _SlackUploadFile(WritingArguments):
    inbox_message_id: Annotated[
        str | None, Field(description="The inbox message whose thread gets the file. Give this or task_id.")
    ] = None
    task_id: Annotated[str | None, Field(description="The task whose thread gets the file.")] = None
    name: Annotated[str, Field(max_length=1000, description="The file's name, such as 'report.csv', without a path.")]
    text: Annotated[str | None, Field(description="The content of a text file. Give this or content_base64.")] = None
    content_base64: Annotated[str | None, Field(description="The content of any other file, in base64.")] = None
    redact: Annotated[bool, Field(description="Remove secrets from text. Otherwise a file with one is refused.")] = (
        False
    )
    title: Annotated[str | None, Field(max_length=1000, description="A title to show instead of the name.")] = None
    comment: Annotated[str | None, Field(max_length=10_000, description="A sentence to post with the file.")] = None


async def _slack_upload_file(call: CallContext, said: _SlackUploadFile) -> Shared:
    """Put a file of up to 700 kB into the Slack thread of an inbox message or a task; a larger one goes to POST /files
    as the body of the request. This does not answer the message: answer with slack-reply afterwards, since the last
    answer may end your lease. Repeating the same call uploads nothing.
    """
    return await call.services.uploads.upload_content(
        call,
        ThreadReference(inbox_message_id=said.inbox_message_id, task_id=said.task_id),
        said.name,
        _content(said),
        title=said.title,
        comment=said.comment,
    )


def _content(said: _SlackUploadFile) -> bytes:
    if (said.text is None) == (said.content_base64 is None):
        expected = "exactly one of text and content_base64"
        raise Invalid("The file's content is not clear.", fields={"text": expected, "content_base64": expected})
    if said.text is not None:
        return (without_secrets(said.text) if said.redact else said.text).encode()
    try:
        return base64.b64decode(said.content_base64 or "", validate=True)
    except ValueError as error:  # binascii.Error is a ValueError
        raise Invalid("Not valid: content_base64.", fields={"content_base64": "standard base64"}) from error


TOOL = McpTool(name="slack-upload-file", arguments=_SlackUploadFile, result=Shared, run=_slack_upload_file)
