"""Requests to people: forms and approvals, who may decide on them, and what was decided.

Everybody who asks uses this model: interrupts of AG-UI agents, tool approvals of built-in agents, elicitations of MCP
servers, and the tool ``request-human-input``. A request belongs to a piece of work, which waits for the decision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from swarm.domain.model.budgets import BudgetRaise
from swarm.domain.model.states import step
from swarm.domain.views import JsonView, Time
from swarm_base.characters import is_blank
from swarm_base.forms import MAX_FIELDS as MAX_FIELDS
from swarm_base.forms import MAX_NAME_CHARACTERS as MAX_NAME_CHARACTERS
from swarm_base.forms import MAX_OPTIONS as MAX_OPTIONS
from swarm_base.forms import MAX_PROMPT_CHARACTERS as MAX_PROMPT_CHARACTERS
from swarm_base.forms import FieldType as FieldType
from swarm_base.forms import FormField as FormField
from swarm_base.forms import Option as Option
from swarm_base.forms import options as options

EXPIRES_SECONDS: Final = 24 * 3600
MAX_EXPIRES_SECONDS: Final = 90 * 24 * 3600
MAX_TITLE_CHARACTERS: Final = 150
MAX_TEXT_CHARACTERS: Final = 10_000
"""The maximum length of a text that a person enters."""

MAX_ARGUMENT_BYTES: Final = 256 * 1024
MAX_DIFF_BYTES: Final = 256 * 1024
"""The maximum size of a call's unified diffs."""

MAX_NEED: Final = 20
MAX_OPEN_PER_WORK: Final = 20
"""The maximum number of open requests of one piece of work."""

OPERATOR: Final = "operator"
"""Stands for the operator's own decision, in place of a person's Slack user id."""


class HumanDecision(StrEnum):
    """What a person can decide."""

    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"  # approve with other arguments
    APPROVE_THREAD = "approve_thread"  # approve, and allow the tool in this thread
    APPROVE_ALWAYS = "approve_always"  # approve, and allow the tool to this agent
    ANSWER = "answer"  # fill in the form


APPROVALS: Final = frozenset(HumanDecision) - {HumanDecision.REJECT}


class RequestStatus(StrEnum):
    """The life cycle of a request.

    ::

        open → approved     approve
        open → rejected     reject
        open → answered     answer
        open → expired      expire
        open → cancelled    cancel
    """

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"  # nobody needs the decision any more


class RequestStep(StrEnum):
    """The steps of a request."""

    APPROVE = "approve"
    REJECT = "reject"
    ANSWER = "answer"
    EXPIRE = "expire"
    CANCEL = "cancel"


_R = RequestStatus

REQUEST_TRANSITIONS: Final = {
    RequestStep.APPROVE: step(_R.OPEN, to=_R.APPROVED),
    RequestStep.REJECT: step(_R.OPEN, to=_R.REJECTED),
    RequestStep.ANSWER: step(_R.OPEN, to=_R.ANSWERED),
    RequestStep.EXPIRE: step(_R.OPEN, to=_R.EXPIRED),
    RequestStep.CANCEL: step(_R.OPEN, to=_R.CANCELLED),
}


class ResumeStatus(StrEnum):
    """How far the decision has come on its way back to the asker.

    ::

        none | sent | failed → sent      send
        sent → accepted                  accept
        sent → failed                    fail
    """

    NONE = "none"
    SENT = "sent"  # handed out with the work: the asker's run may have begun
    ACCEPTED = "accepted"
    FAILED = "failed"  # the run failed; a retry sends the same decision again


class ResumeStep(StrEnum):
    """The steps of a decision on its way back."""

    SEND = "send"
    ACCEPT = "accept"
    FAIL = "fail"


_S = ResumeStatus

RESUME_TRANSITIONS: Final = {
    ResumeStep.SEND: step(_S.NONE, _S.SENT, _S.FAILED, to=_S.SENT),
    ResumeStep.ACCEPT: step(_S.SENT, to=_S.ACCEPTED),
    ResumeStep.FAIL: step(_S.SENT, to=_S.FAILED),
}


class Asker(StrEnum):
    """How the asker waits."""

    DURABLE = "durable"  # its run has ended, and continues with the decision, after any restart
    LIVE = "live"  # a call waits in a process; when it ends, the request is cancelled


class EntryPoint(StrEnum):
    """Where a person decided."""

    SLACK = "slack"
    HTTP = "http"
    CLI = "cli"
    PAGE = "page"


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionPolicy:
    """Who may decide, and how many people have to. The operator may always decide.

    ``requester``: the people for whom the agent works; ``not_requester``: all other members of the workspace. Guests
    and people of other workspaces decide only if ``users`` or ``groups`` name them.
    """

    users: tuple[str, ...] = ()  # Slack user ids
    groups: tuple[str, ...] = ()  # ids of Slack user groups
    requester: bool = False
    not_requester: bool = False
    need: int = 1  # different people who have to approve
    veto: bool = False  # one reject ends the request
    direct_message: bool = False  # who may decide also gets the card as a direct message; set by the operator only

    @property
    def names_people(self) -> bool:
        """Whether the policy lists people or groups."""
        return bool(self.users or self.groups)


BY_REQUESTER: Final = DecisionPolicy(requester=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDiff:
    """What a call does to one file. The texts may be whole files, or the parts that change."""

    path: str
    old: str | None = None  # None: there is no such file yet
    new: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRequest:
    """A tool call that waits for approval. ``schema`` is the JSON Schema of the arguments, empty if unknown."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=dict)
    diffs: tuple[FileDiff, ...] = ()  # what the call does to files
    locations: tuple[str, ...] = ()  # the files that it is about, as "path" or "path:line"

    @property
    def digest(self) -> str:
        """SHA-256 of the name, the arguments, and the diffs and locations. A decision is valid only for this call."""
        more = {"diffs": self.diffs, "locations": self.locations}
        return tool_digest(self.name, self.arguments, **{name: part for name, part in more.items() if part})

    def __hash__(self) -> int:
        return hash(self.digest)


def tool_digest(name: str, arguments: Mapping[str, Any], **more: object) -> str:
    """Returns the SHA-256 of the canonical JSON of a tool call, in hexadecimal: its name, its arguments, and ``more``
    if there is any.
    """
    call = {"name": name, "arguments": arguments, **more}
    try:
        text = orjson.dumps(call, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # a call that cannot be stored, so that nobody is asked about it
        text = repr(call).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()


def is_json(value: object) -> bool:
    """Whether a value can be stored: no numbers of more than 64 bits, no halves of surrogate pairs."""
    try:
        orjson.dumps(value, default=dict)
    except TypeError:
        return False
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestAnswer(JsonView):
    """One person's decision. Values of secret fields are hidden from everybody but the asker."""

    person: str  # a Slack user id, or `OPERATOR`
    decision: HumanDecision
    values: Mapping[str, Any] | None = None
    arguments: Mapping[str, Any] | None = None  # changed arguments of the tool call
    at: Time
    door: EntryPoint


@dataclass(frozen=True, kw_only=True, slots=True)
class Decide:
    """A person's wish to decide. No policy limits the operator's own decision."""

    request_id: str
    decision: HumanDecision
    door: EntryPoint
    person: str = OPERATOR  # a Slack user id
    values: Mapping[str, Any] | None = None
    arguments: Mapping[str, Any] | None = None
    team: str | None = None  # the person's workspace, if Slack reports it
    for_everybody: bool = False  # a grant that this decision gives covers everybody's work
    seen: str | None = None  # the version that was shown to the person; None: the version as it is now


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRequest:
    """What an agent asks people. ``key`` identifies the question: the same key is asked once."""

    key: str
    title: str
    prompt: str = ""
    fields: tuple[FormField, ...] = ()
    decisions: tuple[HumanDecision, ...] = (HumanDecision.APPROVE, HumanDecision.REJECT)
    tool: ToolRequest | None = None
    policy: DecisionPolicy = BY_REQUESTER
    expires_seconds: float | None = EXPIRES_SECONDS  # None: never
    agent_request_id: str = ""  # the asker's own id, used to resume
    raw: Mapping[str, object] = field(default_factory=dict)  # as sent by the agent
    budget: BudgetRaise | None = None  # what an approval allows; set by the coordinator only


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestFacts:
    """The fields shared by a stored request and its view."""

    id: str
    status: RequestStatus
    resume: ResumeStatus
    asker: Asker
    title: str
    prompt: str
    decisions: tuple[HumanDecision, ...]
    agent: str  # its name
    created_at: Time
    expires_at: Time | None
    ended_at: Time | None
    reason: str | None  # why it was cancelled; while it is open, a remark on its card
    answers: tuple[RequestAnswer, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class HumanRequest(RequestFacts):
    """A stored request with its answers."""

    key: str
    agent_id: str
    thread_id: str | None
    run_id: str | None  # the run that asked; None for a polling agent
    work_id: str  # the first inbox message, or the task, that waits
    task_id: str | None
    inbox_message_ids: tuple[str, ...]  # all messages that wait
    lease_token: str  # of the run that asked
    requesters: tuple[str, ...]  # Slack user ids: everybody whose messages the run answers
    fields: tuple[FormField, ...]
    tool: ToolRequest | None
    policy: DecisionPolicy
    agent_request_id: str
    raw: Mapping[str, object]
    joins: str | None = None  # the same question of other work, for whose end this one waits, without a card
    budget: BudgetRaise | None = None
    run_total: int = 0  # the number of durable requests of the run; 0 without a run, and for a live asker
    run_ended: int = 0  # how many of them have ended

    @property
    def requester(self) -> str | None:
        """The first of the requesters."""
        return self.requesters[0] if self.requesters else None

    @property
    def is_open(self) -> bool:
        return self.status is RequestStatus.OPEN

    @property
    def holds(self) -> bool:
        """Whether other work of its agent in the thread waits for it: a durable question of the coordinator's run."""
        return self.run_id is not None and self.asker is Asker.DURABLE

    @property
    def is_approved_by_some(self) -> bool:
        """Whether somebody has approved it, also if more people have to: what they approved stays as it is."""
        return any(answer.decision is not HumanDecision.REJECT for answer in self.answers)

    @property
    def offered(self) -> tuple[HumanDecision, ...]:
        """The decisions that people can choose now. Where no other one approves, an edit without a change does."""
        stays = self.is_approved_by_some and HumanDecision.APPROVE in self.decisions
        return tuple(one for one in self.decisions if not (stays and one is HumanDecision.EDIT))

    @property
    def question(self) -> str:
        """The prompt, unless the title says the same."""
        return "" if is_blank(self.prompt) or self.prompt.strip() == self.title else self.prompt

    @property
    def digest(self) -> str | None:
        """The digest of the tool call, if one waits for approval."""
        return self.tool.digest if self.tool else None

    @property
    def deciding(self) -> RequestAnswer | None:
        """The answer whose values and arguments count: the first approval, or the last reject of a rejected request."""
        if self.status is RequestStatus.REJECTED:
            return next((answer for answer in reversed(self.answers) if answer.decision is HumanDecision.REJECT), None)
        return next((answer for answer in self.answers if answer.decision is not HumanDecision.REJECT), None)

    @property
    def entered(self) -> Mapping[str, Any] | None:
        """The values that the first person entered, which stand and are approved by others; None if there are none."""
        return next((answer.values for answer in self.answers if answer.values is not None), None)

    @property
    def values(self) -> Mapping[str, Any] | None:
        """The values that people gave; None if there are none, or if the request was not approved or answered."""
        return self.entered if self.status in (RequestStatus.APPROVED, RequestStatus.ANSWERED) else None

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """The arguments that a person put in place of the tool call's; None if unchanged or not approved."""
        if self.status is not RequestStatus.APPROVED:
            return None
        return next((answer.arguments for answer in self.answers if answer.arguments is not None), None)

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the fields whose values are shown to nobody but the asker."""
        return frozenset(form_field.name for form_field in self.fields if form_field.secret)

    def is_late(self, now: int) -> bool:
        """Whether a decision at ``now`` comes too late."""
        return self.expires_at is not None and now >= self.expires_at
