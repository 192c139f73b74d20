"""The events and the input of an agent's run, independent of any protocol, and the outcomes that people see.

AG-UI is translated by `swarm.agents`. The stored pieces of a polling agent's answer (`slack-stream`) are also
translated into events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from swarm.domain.model.language_models import Door
from swarm.domain.model.requests import FormField, HumanDecision, ToolRequest
from swarm.domain.model.runs import SilentEnd
from swarm.domain.model.threads import STANDING_WORDS, Standing

MAX_PIECE_CHARACTERS: Final = 12_000
"""The limit of one piece of text, equal to Slack's limit for one call."""

MAX_PIECES: Final = 10_000
"""The maximum number of pieces of one answer; each piece is a row."""

_ONE_MESSAGE: Final = "1"  # pieces continue one message, without blank lines between them


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """More text of a message. A different ``message_id`` starts a new message."""

    text: str
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextEnded:
    """The end of a text message."""

    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStarted:
    """A tool call of the agent. ``name`` is shown to people."""

    id: str
    name: str
    arguments: str = field(default="", compare=False, repr=False)  # JSON text; empty if unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolEnded:
    """The end of a tool call. Ids without a `ToolStarted` are ignored."""

    id: str
    failed: bool = False
    result: str = field(default="", compare=False, repr=False)  # empty if unknown


class StepStatus(StrEnum):
    """The progress of a plan's step, with Slack's names for the status of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanStep:
    """One line of a plan."""

    id: str  # identical in all versions of the plan
    title: str
    status: StepStatus = StepStatus.PENDING


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanShown:
    """The complete plan in its current state."""

    steps: tuple[PlanStep, ...]
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepNamed:
    """The agent's current activity, for the status line."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceChanged:
    """The sub-agent that sends the following text, which is not part of the answer; None: the agent itself."""

    sub_agent: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """A warning for the operator, which is logged but not shown."""

    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One interrupt: a question to a person whose decision the agent waits for."""

    id: str  # the agent's id, used to resume
    prompt: str  # the question in the agent's words
    reason: str = ""
    fields: tuple[FormField, ...] = ()
    tool: ToolRequest | None = None  # the tool call that waits for approval, if any
    decisions: tuple[HumanDecision, ...] = ()  # empty: they follow from the fields and the tool
    raw: Mapping[str, object] = field(default_factory=dict)  # as sent by the agent, for the resume
    problem: str = ""  # why people cannot be shown what they would decide, so that they are not asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The successful end of a run. ``result`` is the agent's final text, if sent separately from the deltas.

    ``elsewhere``: the agent has also answered in another way, so a run without text is not a failure.
    """

    result: str | None = None
    elsewhere: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupted:
    """The end of a run that waits for people. ``is_checked``: they can be asked (`why_unaskable`)."""

    asked: tuple[Asked, ...]
    is_checked: bool = field(default=False, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancelled:
    """The agent's report that its run was cancelled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The agent's report of an error. ``message`` may be shown to people."""

    message: str
    code: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """A failed connection to the agent, or a stream that ended early.

    ``reason`` is a user-facing clause without secrets and without a full stop: "it did not answer within 300 s".
    """

    reason: str
    comes_again: bool = False  # the work is handed out again automatically
    is_away: bool = False  # the request has not reached the agent, which may be back later


AgentEvent = (
    TextDelta
    | TextEnded
    | ToolStarted
    | ToolEnded
    | PlanShown
    | StepNamed
    | SourceChanged
    | Warned
    | Finished
    | Interrupted
    | Cancelled
    | Failed
    | Broken
)
"""Any event of a run. The last five end the run."""


class Speaker(StrEnum):
    """The role of an input message's author."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, kw_only=True, slots=True)
class InputMessage:
    """A message for an agent: readable text as written, without any wrapping."""

    id: str
    speaker: Speaker
    text: str
    author: str = ""  # a display name
    standing: Standing = Standing.MEMBER

    @property
    def marked(self) -> str:
        """The text, marked if the author may not assign work, for readers that get no other indication."""
        mark = STANDING_WORDS.get(self.standing)
        return f"[said by somebody who is {mark}] {self.text}" if mark and self.text.strip() else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """People's decision on one interrupt.

    ``values`` is what the agent's question asks for; None if it was dismissed, or if nobody decided in time.
    """

    interrupt_id: str
    values: Mapping[str, object] | None
    raw: Mapping[str, object] = field(default_factory=dict)  # the interrupt's `Asked.raw`: some agents store nothing
    decision: HumanDecision | None = None  # None: nobody has decided
    arguments: Mapping[str, object] | None = None  # changed arguments of the tool call
    expired: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The source of a run's messages, determined by the coordinator and never by a client's claim."""

    door: Door = Door.SLACK
    channel: str = ""  # Slack's id
    thread_ts: str = ""
    user_id: str = ""  # the person's Slack id
    user_name: str = ""  # a display name
    user_email: str = ""  # if the channel shares it
    client: str = ""  # the caller of another entry point: an agent's id or "operator"
    client_name: str = ""  # the agent's name, or "operator"
    by_strangers: bool = False  # strangers started the run: tools that write are not called


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInput:
    """The input of one run."""

    run_id: str
    agui_run_id: str
    trace_id: str
    conversation_id: str  # identical for every run in one thread
    messages: tuple[InputMessage, ...]  # the new messages, oldest first
    history: tuple[InputMessage, ...] = ()  # the thread's earlier messages, oldest first
    client_context: Mapping[str, object] = field(default_factory=dict)
    decided: tuple[Decided, ...] = ()  # for a resumed run: one per open interrupt
    origin: Origin = Origin()
    may_wait: bool = True  # the work can wait for people's decisions; False for a run about the end of a task


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A complete answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFailed:
    """A missing or incomplete answer. ``reason`` is a user-facing clause."""

    reason: str
    comes_again: bool = False  # the work is handed out again automatically, so no Retry button is shown


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStopped:
    """A run that a person stopped. ``by`` is the user id; None if Slack does not report it."""

    by: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NeedsInput:
    """A run that waits for people's input."""

    asked: tuple[Asked, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Withheld:
    """A silent run whose answer is not shown."""

    end: SilentEnd
    reason: str


AnswerOutcome = Answered | RunFailed | RunStopped | NeedsInput | Withheld


class PieceKind(StrEnum):
    """The kind of a piece, stored in its row."""

    OPENED = "opened"
    SAID = "said"
    TASK = "task"
    DOING = "doing"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """The start of an answer, which is always the first piece."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextAdded:
    """More text."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Doing:
    """The agent's current activity, for the status line."""

    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Closed:
    """The end of an answer. ``failed`` is the reason for an incomplete answer, as a user-facing clause; None: complete.

    ``settled`` are the ids of the inbox messages settled by this call.
    """

    failed: str | None = None
    settled: tuple[str, ...] = ()


Piece = Opened | TextAdded | PlanStep | Doing | Closed


def kind_of(piece: Piece) -> PieceKind:
    """Returns the kind stored in the piece's row."""
    match piece:
        case Opened():
            return PieceKind.OPENED
        case TextAdded():
            return PieceKind.SAID
        case PlanStep():
            return PieceKind.TASK
        case Doing():
            return PieceKind.DOING
        case Closed():
            return PieceKind.CLOSED
        case _:
            assert_never(piece)


def event_of(piece: Piece) -> AgentEvent | None:
    """Translates a piece into an event of a run; None for a piece that shows nothing."""
    match piece:
        case Opened():
            return None
        case TextAdded(text=text):
            return TextDelta(text=text, message_id=_ONE_MESSAGE)
        case PlanStep():
            return PlanShown(steps=(piece,))
        case Doing(what=what):
            return StepNamed(name=what)
        case Closed(failed=reason):
            return Finished() if reason is None else Failed(message=reason)
        case _:
            assert_never(piece)
