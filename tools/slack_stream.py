"""slack-stream: answers people in Slack while the answer is being written."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from swarm.domain.answers.events import StepStatus
from swarm.domain.errors import Invalid
from swarm.services.runs.stream import Streamed
from tools.tool import CallContext, McpTool, WritingArguments

Action = Literal["open", "append", "task", "status", "close"]
Status = Literal["pending", "in_progress", "complete", "error"]


class _SlackStream(WritingArguments):
    action: Annotated[
        Action,
        Field(
            description="open: begin an answer. append: add text. task: show a step of your work as a card, or change "
            "the card. status: show what you are doing while there is no text. close: add the last text and end the "
            "answer."
        ),
    ]
    inbox_message_id: Annotated[str | None, Field(description="open: the inbox message that you answer.")] = None
    task_id: Annotated[
        str | None, Field(description="open: instead of an inbox message, your task, to post something in its thread.")
    ] = None
    turn_id: Annotated[str | None, Field(description="All actions except open: the turn_id that open returned.")] = None
    text: Annotated[
        str | None,
        Field(
            description="open, append, close: more of the answer, in Markdown; it continues exactly where the last "
            "piece ended. At most 12,000 characters in one call and 200,000 in one answer."
        ),
    ] = None
    id: Annotated[
        str | None, Field(description="task: a short id that you choose; using the same id again changes the card.")
    ] = None
    title: Annotated[str | None, Field(description="task, status: a few words that people see.")] = None
    status: Annotated[Status, Field(description="task: the state of the step.")] = "in_progress"
    result: Annotated[
        str | None, Field(description="close, of a task only: its result; the task is completed with it.")
    ] = None
    failed: Annotated[
        str | None,
        Field(
            description="close: why the answer is incomplete, as a clause that people see. Your work is then set aside."
        ),
    ] = None


async def _slack_stream(call: CallContext, said: _SlackStream) -> Streamed:
    """Answer in the Slack thread of an inbox message while you write: people see the text as you write it. First open
    with inbox_message_id; then append as often as you like, and show steps with task; then close, which marks every
    message of your lease as answered and ends the lease, as slack-reply does. If you already have the complete answer,
    use slack-reply instead; never send the same text with both. Text that you append twice is shown twice, unless both
    calls have the same request_id. If people stop you, the next call says so; then stop and post nothing more. With
    task_id, the text is posted in the thread of your task; close with result to complete the task as well.
    """
    _check_taken(said)
    return await _ACTIONS[said.action](call, said)


async def _open(call: CallContext, said: _SlackStream) -> Streamed:
    return await call.services.streams.open(
        call, inbox_message_id=said.inbox_message_id or None, task_id=said.task_id or None, text=said.text or ""
    )


async def _append(call: CallContext, said: _SlackStream) -> Streamed:
    return await call.services.streams.append(call, _given(said, "turn_id"), _given(said, "text"))


async def _task(call: CallContext, said: _SlackStream) -> Streamed:
    turn_id, step_id, title = (_given(said, field) for field in ("turn_id", "id", "title"))
    return await call.services.streams.task(call, turn_id, step_id, title, StepStatus(said.status))


async def _status(call: CallContext, said: _SlackStream) -> Streamed:
    return await call.services.streams.status(call, _given(said, "turn_id"), _given(said, "title"))


async def _close(call: CallContext, said: _SlackStream) -> Streamed:
    turn_id = _given(said, "turn_id")
    return await call.services.streams.close(call, turn_id, said.text or "", said.result, said.failed)


_ACTIONS = {"open": _open, "append": _append, "task": _task, "status": _status, "close": _close}
_TAKEN: dict[Action, frozenset[str]] = {
    "open": frozenset({"inbox_message_id", "task_id", "text"}),
    "append": frozenset({"turn_id", "text"}),
    "task": frozenset({"turn_id", "id", "title", "status"}),
    "status": frozenset({"turn_id", "title"}),
    "close": frozenset({"turn_id", "text", "result", "failed"}),
}


def _check_taken(said: _SlackStream) -> None:
    """Raises Invalid for arguments that the action would ignore. Empty values and defaults are allowed."""
    own = _SlackStream.model_fields.keys() - WritingArguments.model_fields.keys() - {"action"} - _TAKEN[said.action]
    given = {field: getattr(said, field) for field in own}
    dropped = sorted(
        field for field, value in given.items() if value not in ("", _SlackStream.model_fields[field].default)
    )
    if dropped:
        belongs = {field: _SlackStream.model_fields[field].description or "" for field in dropped}
        raise Invalid(
            f"Action '{said.action}' takes no {' and no '.join(dropped)}, so nothing was done.",
            hint="Leave it out, or pass it with an action that accepts it.",
            fields=belongs,
        )


def _given(said: _SlackStream, field: str) -> str:
    """Returns a required argument of an action. Raises Invalid if the argument is missing."""
    value: str | None = getattr(said, field)
    if value is None:
        needed = _SlackStream.model_fields[field].description or ""
        raise Invalid(f"Action '{said.action}' needs {field}.", fields={field: needed})
    return value


TOOL = McpTool(name="slack-stream", arguments=_SlackStream, result=Streamed, run=_slack_stream)
