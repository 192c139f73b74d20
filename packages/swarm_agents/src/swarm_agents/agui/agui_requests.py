"""Converts requests from built-in agents' clients, in both dialects, to the input of a run: its person and content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Final

import orjson
from ag_ui.core import AssistantMessage, Message, RunAgentInput, TextPart, UserMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from swarm.clock import new_id, new_trace_id
from swarm.domain.answers.events import Asked, Decided, InputMessage, Origin, RunInput, Speaker
from swarm.domain.errors import Forbidden, Invalid
from swarm.domain.model.language_models import Door
from swarm.domain.prompts.input import THREAD_CONTEXT
from swarm.entrypoints.web.errors import invalid
from swarm.entrypoints.web.identity import Client
from swarm_agents.agui.agui_resumes import by_data, by_entries, by_form

_CONTEXT_BYTES: Final = 64 * 1024
_THREAD_CHARACTERS: Final = 1_000_000
_ID_CHARACTERS: Final = 200
_TERMINAL: Final = "cli:"
"""The prefix of the ids of conversations in the operator's terminal."""

_SOURCE: Final = "agui"
"""The source of a message whose client sends a context without a source."""

_ConversationId = Annotated[str, Field(min_length=1, max_length=_ID_CHARACTERS)]
_AgentName = Annotated[
    str | None, Field(max_length=_ID_CHARACTERS, description="A built-in agent; by default the first one.")
]


class ClientContext(BaseModel):
    """Where the message comes from, at most 64 KiB; keys other than ``source`` are defined by the client and are kept.

    ``thread_context`` contains earlier messages of a thread that the agent does not know, and may be longer.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    source: Annotated[str, Field(min_length=1, max_length=_ID_CHARACTERS, description="For example slack, web.")]

    @model_validator(mode="before")
    @classmethod
    def _is_small(cls, given: Any) -> Any:
        value = given
        thread = value.get(THREAD_CONTEXT) if isinstance(value, dict) else None
        if isinstance(thread, str):
            if len(thread) > _THREAD_CHARACTERS:
                raise ValueError(f"at most {_THREAD_CHARACTERS} characters of {THREAD_CONTEXT}")
            value = {name: part for name, part in value.items() if name != THREAD_CONTEXT}
        if _size(value) > _CONTEXT_BYTES:
            raise ValueError(f"at most {_CONTEXT_BYTES} bytes of JSON")
        return given


class Asking(BaseModel):
    """The common fields of all requests about a conversation; other fields are ignored."""

    model_config = ConfigDict(frozen=True)

    conversation_id: _ConversationId
    agent_id: _AgentName = None
    trace_id: Annotated[str | None, Field(max_length=_ID_CHARACTERS)] = None
    client_context: ClientContext | None = None


class Start(Asking):
    message: Annotated[str, Field(min_length=1, description="The person's message, unchanged.")]


class Resume(Asking):
    """People's answer: either ``form_data`` or ``resume_data``."""

    form_data: Annotated[
        str | dict[str, Any] | None,
        Field(
            description="The values that the person entered, as an object or as JSON text. Any other text is the "
            "answer itself."
        ),
    ] = None
    resume_data: Annotated[
        str | dict[str, Any] | None,
        Field(
            description='The answer with its type, as an object or as JSON text: {"type": "form_input", "values"}, or '
            '{"type": "tool_approval", "decision": "approve" | "reject" | "edit", "arguments"}.'
        ),
    ] = None

    @model_validator(mode="after")
    def _has_an_answer(self) -> Resume:
        if (self.form_data is None) == (self.resume_data is None):
            raise ValueError("either form_data or resume_data is expected")
        return self


class AguiCancellation(BaseModel):
    conversation_id: _ConversationId
    agent_id: _AgentName = None


def origin(client: Client, conversation_id: str) -> Origin:
    """Returns the origin of a run's messages. Raises Forbidden for a terminal conversation unless the client is the
    operator."""
    is_terminal = conversation_id.startswith(_TERMINAL)
    if is_terminal and client.agent:
        raise Forbidden(
            f"Only the operator may use conversations whose ids begin with '{_TERMINAL}'.", hint="Choose another id."
        )
    return Origin(door=Door.CLI if is_terminal else Door.AGUI, client=client.id, client_name=client.name)


def of_start(body: Start, origin: Origin) -> RunInput:
    """Returns the input of a run for one new message. Raises Invalid for an empty message."""
    if not body.message.strip():
        raise Invalid("The message is empty.", fields={"message": "text"})
    new = InputMessage(id=new_id(), speaker=Speaker.USER, text=body.message)
    thread = (body.client_context.model_extra or {}).get(THREAD_CONTEXT) if body.client_context else None
    before = InputMessage(id=new_id(), speaker=Speaker.USER, text=thread if isinstance(thread, str) else "")
    return _run_input(body, origin, messages=(new,), history=(before,) if before.text.strip() else ())


def of_resume(body: Resume, origin: Origin, asked: Sequence[Asked]) -> RunInput:
    """Returns the input of a run that continues with the answers to all of these questions.

    Raises Conflict without questions, and Invalid for an answer that does not fit them.
    """
    decided = by_form(body.form_data, asked) if body.form_data is not None else by_data(body.resume_data or {}, asked)
    return _run_input(body, origin, decided=decided)


def of_agui(body: RunAgentInput, origin: Origin, asked: Sequence[Asked]) -> RunInput:
    """Returns the input of an AG-UI run, in which people's last messages are new. Raises Invalid for input without a
    new message or an answer, and Conflict for answers without open questions.

    A run that continues after a question has no new messages, since the last message led to the question.
    """
    props = body.forwarded_props if isinstance(body.forwarded_props, dict) else {}
    history, new = _split(body.messages, is_resumed=bool(body.resume))
    if not new and not body.resume:
        raise Invalid("There is no new message.", fields={"messages": "at least one user message with text at the end"})
    trace_id = props.get("trace_id")
    return RunInput(
        run_id="",
        agui_run_id=new_id(),
        trace_id=trace_id[:_ID_CHARACTERS] if isinstance(trace_id, str) and trace_id else new_trace_id(),
        conversation_id=body.thread_id,
        messages=new,
        history=history,
        client_context=_context_of(body, props),
        decided=by_entries(body.resume, asked) if body.resume else (),
        origin=origin,
    )


def check_tools(body: RunAgentInput) -> None:
    """Raises Invalid if the client sends tools. No run ends with a call to a client's tool, so they would never be
    called."""
    if body.tools:
        raise Invalid(
            "These agents call only their own tools, so a client's tools would never be called.",
            hint="Send an empty list of tools; the operator configures agents' tools (docs/built-in-agents.md).",
            fields={"tools": "[]"},
        )


def check_ids(body: RunAgentInput) -> None:
    """Raises Invalid for ids that are too short or too long."""
    expected = f"1 to {_ID_CHARACTERS} characters"
    named = {"threadId": body.thread_id, "runId": body.run_id}
    if problems := {name: expected for name, id in named.items() if not 0 < len(id) <= _ID_CHARACTERS}:
        raise Invalid(f"Not valid: {', '.join(sorted(problems))}.", fields=problems)


def _run_input(
    body: Asking,
    origin: Origin,
    *,
    messages: tuple[InputMessage, ...] = (),
    history: tuple[InputMessage, ...] = (),
    decided: tuple[Decided, ...] = (),
) -> RunInput:
    return RunInput(
        run_id="",
        agui_run_id=new_id(),
        trace_id=body.trace_id or new_trace_id(),
        conversation_id=body.conversation_id,
        messages=messages,
        history=history,
        client_context=body.client_context.model_dump() if body.client_context else {},
        decided=decided,
        origin=origin,
    )


def _split(
    messages: Sequence[Message], *, is_resumed: bool
) -> tuple[tuple[InputMessage, ...], tuple[InputMessage, ...]]:
    """Returns the earlier messages and the new ones."""
    texts = tuple(_texts(messages))
    if is_resumed:
        return texts, ()
    count = sum(1 for _ in takewhile(lambda message: message.speaker is Speaker.USER, reversed(texts)))
    return texts[: len(texts) - count], texts[len(texts) - count :]


def _texts(messages: Sequence[Message]) -> Iterator[InputMessage]:
    """Yields the texts of people and the agent. All other messages are internal to the agent, or are a client's
    settings."""
    for message in messages:
        match message:
            case UserMessage(content=content, name=name):
                text, speaker, author = _text(content), Speaker.USER, name or ""
            case AssistantMessage(content=content):
                text, speaker, author = content or "", Speaker.ASSISTANT, ""
            case _:
                continue
        if text.strip():
            id = message.id if 0 < len(message.id) <= _ID_CHARACTERS else new_id()
            yield InputMessage(id=id, speaker=speaker, text=text, author=author[:_ID_CHARACTERS])


def _text(content: str | Sequence[object]) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(part.text for part in content if isinstance(part, TextPart))


def _context_of(body: RunAgentInput, props: Mapping[str, Any]) -> Mapping[str, object]:
    """Returns ``forwardedProps.client_context``, which our own client sends, or else the standard ``context``."""
    given = props.get("client_context")
    if given is None and body.context:
        given = {"source": _SOURCE} | {entry.description: entry.value for entry in body.context}
    if given is None:
        return {}
    try:
        return ClientContext.model_validate(given).model_dump()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise invalid([{**one, "loc": ("client_context", *one["loc"])} for one in found]) from error


def _size(value: object) -> int:
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # nested too deeply
        return _CONTEXT_BYTES + 1
