"""What an agent does during a run, free of any protocol: AG-UI is translated at the edge (`swarm.agents`).

How a run ended, as people see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from swarm.domain.model.models import Door
from swarm.domain.model.threads import STANDING_WORDS, Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class TextDelta:
    """More of a text message. Another ``message_id`` than before begins a new one."""

    text: str
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextEnded:
    """A text message is whole."""

    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStarted:
    """The agent calls a tool. ``name`` is what people see."""

    id: str
    name: str
    arguments: str = field(default="", compare=False, repr=False)  # JSON text; empty: only the agent knows them


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolEnded:
    """A tool has answered. An id that never started is ignored."""

    id: str
    failed: bool = False
    result: str = field(default="", compare=False, repr=False)  # what it said; empty: only the agent knows


class StepStatus(StrEnum):
    """How far a step of a plan is; Slack's words for a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanStep:
    """One line of a plan."""

    id: str  # the same over all versions of the plan
    title: str
    status: StepStatus = StepStatus.PENDING


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanShown:
    """The plan as it is now, whole."""

    steps: tuple[PlanStep, ...]
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepNamed:
    """What the agent does at the moment, for the status line."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceChanged:
    """Text from now on comes from this sub-agent and is kept out of the answer; None: from the agent itself."""

    sub_agent: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Warned:
    """Something that the agent wants its operator to know. It is logged, and shown nowhere."""

    message: str


class AnswerKind(StrEnum):
    """The shape of what a person is asked, one for each widget; what is not known becomes a text."""

    TEXT = "text"
    TEXTAREA = "textarea"
    NUMBER = "number"
    URL = "url"
    EMAIL = "email"
    SELECT = "select"
    MULTISELECT = "multiselect"
    BOOLEAN = "boolean"


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedField:
    """One thing that a person is to fill in."""

    name: str
    label: str = ""
    kind: AnswerKind = AnswerKind.TEXT
    required: bool = False
    description: str = ""
    options: tuple[str, ...] = ()
    default: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One interrupt: the agent wants to hear from a person before it goes on."""

    id: str  # the agent's own, which a resume names
    prompt: str  # what to ask, as the agent words it
    reason: str = ""
    fields: tuple[AskedField, ...] = ()
    tool_name: str = ""  # of the tool that waits for approval, if that is what is asked
    raw: Mapping[str, object] = field(default_factory=dict)  # as the agent sent it, for the form and the resume


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The run is over and went well. ``result`` is the agent's final text, if it sent one apart from the deltas.

    ``elsewhere``: the agent has answered in another way as well, so it is no failure if it has said nothing here.
    """

    result: str | None = None
    elsewhere: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupted:
    """The run is over for now: it waits for people."""

    asked: tuple[Asked, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancelled:
    """The agent says that its run was cancelled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The agent reports an error. ``message`` may be shown to people."""

    message: str
    code: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """The agent was never reached, or fell silent in the middle.

    ``reason`` is a clause for people, without a secret and without a full stop: "it did not answer within 300 s".
    """

    reason: str
    comes_again: bool = False  # its work is handed out again by itself


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
"""Everything that a run can yield. After one of the last five it yields nothing more."""


class Speaker(StrEnum):
    """Who says a message that an agent gets."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, kw_only=True, slots=True)
class InputMessage:
    """A message as an agent gets it: readable text as the person wrote it, nothing wrapped around it."""

    id: str
    speaker: Speaker
    text: str
    author: str = ""  # a display name
    standing: Standing = Standing.MEMBER

    @property
    def marked(self) -> str:
        """The text, behind a mark if its author may not give work: for readers to whom nothing else tells so."""
        mark = STANDING_WORDS.get(self.standing)
        return f"[said by somebody who is {mark}] {self.text}" if mark and self.text.strip() else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """What people decided about one interrupt. ``values`` is None where they dismissed it."""

    interrupt_id: str
    values: Mapping[str, object] | None
    raw: Mapping[str, object] = field(default_factory=dict)  # of the interrupt, `Asked.raw`: some agents keep nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where the words of a run come from, as the coordinator itself knows it: nothing here is a client's claim."""

    door: Door = Door.SLACK
    channel: str = ""  # Slack's id
    thread_ts: str = ""
    user_id: str = ""  # the person's, in Slack
    user_name: str = ""  # a display name
    user_email: str = ""  # where the channel shares it
    client: str = ""  # of another door: who calls, an agent's id or "operator"
    client_name: str = ""  # the agent's name, or "operator"
    by_strangers: bool = False  # nobody else's words have started the run: no tool that writes is called


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInput:
    """What one run of an agent is about."""

    turn_id: str
    run_id: str
    trace_id: str
    conversation_id: str  # the same for every run in one thread
    messages: tuple[InputMessage, ...]  # the new ones, oldest first
    history: tuple[InputMessage, ...] = ()  # what was said in the thread before, oldest first
    client_context: Mapping[str, object] = field(default_factory=dict)
    decided: tuple[Decided, ...] = ()  # of a resumed run: one for each open interrupt
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The answer is whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFailed:
    """There is no answer, or it is not whole. ``reason`` is a clause for people."""

    reason: str
    comes_again: bool = False  # the work is handed out again by itself, so nobody is asked to retry it


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStopped:
    """A person did not want it any more; ``by`` is the user id, None where Slack does not say."""

    by: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asks:
    """The agent waits for people."""

    asked: tuple[Asked, ...]


AnswerOutcome = Answered | RunFailed | RunStopped | Asks
