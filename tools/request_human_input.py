"""request-human-input: asks people for a decision or fills a form."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from swarm.domain.model.requests import (
    EXPIRES_SECONDS,
    MAX_EXPIRES_SECONDS,
    MAX_FIELDS,
    MAX_PROMPT_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    DecisionPolicy,
    FieldType,
    FileDiff,
    FormField,
    HumanDecision,
    NewRequest,
    Option,
    ToolRequest,
)
from swarm.services.requests.human_requests import AskedWork, key_of
from tools.tool import CallContext, McpTool, WritingArguments

_Decision = Literal["approve", "reject", "edit", "approve_thread", "approve_always", "answer"]


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Option(_Lenient):
    value: str
    label: str = ""


class _Field(_Lenient):
    name: str
    label: str = ""
    type: Annotated[
        str,
        Field(description="text, textarea, number, integer, url, email, select, multiselect or boolean; others: text."),
    ] = "text"
    required: bool = False
    default: Any = None
    placeholder: str = ""
    description: str = ""
    options: tuple[_Option, ...] = ()
    min: float | None = None
    max: float | None = None
    pattern: str | None = None
    secret: bool = False


class _Policy(_Lenient):
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    requester: bool = False
    not_requester: bool = False
    need: int = 1
    veto: bool = False


class _Diff(_Lenient):
    path: str
    old: Annotated[str | None, Field(description="null: a new file.")] = None
    new: str = ""


class _Tool(_Lenient):
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    diffs: Annotated[
        tuple[_Diff, ...], Field(strict=False, description="What the call does to files, with whole or partial texts.")
    ] = ()
    locations: Annotated[
        tuple[str, ...], Field(strict=False, description="The files that it is about: path, or path:line.")
    ] = ()
    schema_: Annotated[dict[str, Any], Field(alias="schema")] = Field(default_factory=dict)


class _RequestHumanInput(WritingArguments):
    inbox_message_id: Annotated[str | None, Field(description="The inbox message that you ask about; or task_id.")] = (
        None
    )
    task_id: Annotated[str | None, Field(description="Instead of an inbox message, your task.")] = None
    title: Annotated[str, Field(max_length=MAX_TITLE_CHARACTERS, description="What you ask, in a few words.")]
    prompt: Annotated[str, Field(max_length=MAX_PROMPT_CHARACTERS, description="The question, with its context.")] = ""
    fields: Annotated[
        tuple[_Field, ...], Field(strict=False, max_length=MAX_FIELDS, description="The form that people fill in.")
    ] = ()
    decisions: Annotated[
        tuple[_Decision, ...],
        Field(strict=False, description="What people can decide; with fields and no tool usually answer and reject."),
    ] = ("approve", "reject")
    tool: Annotated[_Tool | None, Field(strict=False, description="The call that you ask permission for.")] = None
    policy: Annotated[
        _Policy, Field(strict=False, description="Who may decide; by default the person you work for.")
    ] = _Policy(requester=True)
    expires_seconds: Annotated[
        float | None, Field(ge=1, le=MAX_EXPIRES_SECONDS, strict=False, description="null: never.")
    ] = EXPIRES_SECONDS
    wait: Annotated[
        bool, Field(description="true: keep your lease, renew it, and read GET /requests/{id} until it is decided.")
    ] = False


class RequestAsked(TypedDict):
    """The request and its status: ``open``, or decided already."""

    id: str
    status: str


async def _request_human_input(call: CallContext, said: _RequestHumanInput) -> RequestAsked:
    """Ask people for a decision, with a form or the approval of a tool call. They see it as a card in the thread. Your
    work then waits, so end your run: the work comes again with their decision. The same question is asked only once.
    """
    work = AskedWork(inbox_message_id=said.inbox_message_id or None, task_id=said.task_id or None)
    request = await call.services.requests.ask(call, work, _new(said), wait=said.wait)
    return {"id": request.id, "status": request.status.value}


def _new(said: _RequestHumanInput) -> NewRequest:
    asked = said.model_dump(mode="json", include={"title", "prompt", "fields", "decisions", "tool", "policy"})
    return NewRequest(
        key=key_of(**asked),
        title=said.title,
        prompt=said.prompt,
        fields=tuple(_field(field) for field in said.fields),
        decisions=tuple(HumanDecision(decision) for decision in dict.fromkeys(said.decisions)),
        tool=_call(said.tool) if said.tool else None,
        policy=DecisionPolicy(**said.policy.model_dump()),
        expires_seconds=said.expires_seconds,
    )


def _call(tool: _Tool) -> ToolRequest:
    return ToolRequest(
        name=tool.name,
        arguments=tool.arguments,
        schema=tool.schema_,
        diffs=tuple(FileDiff(path=diff.path, old=diff.old, new=diff.new) for diff in tool.diffs),
        locations=tool.locations,
    )


def _field(field: _Field) -> FormField:
    kind = FieldType(field.type) if field.type in set(FieldType) else FieldType.TEXT
    given = field.model_dump(exclude={"type", "options"})
    options = tuple(Option(value=option.value, label=option.label) for option in field.options)
    return FormField(**given, type=kind, options=options)


TOOL = McpTool(name="request-human-input", arguments=_RequestHumanInput, result=RequestAsked, run=_request_human_input)
