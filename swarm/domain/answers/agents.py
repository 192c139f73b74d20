"""Agents that answer live: what the use case that runs them has to know. How they are reached is told by `remote`.

Agents that answer live, by the way they are reached: what all of them can do, and how a remote one is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

from swarm.domain.answers.events import AgentEvent, Broken, Cancelled, Failed, Finished, Interrupted, RunInput
from swarm.domain.model.agents import Reach, Role

PARALLEL_RUNS: Final = 20


class History(StrEnum):
    """What of a thread an agent gets with each run."""

    NEW = "new"  # what was said since its last run there: the agent remembers the conversation itself
    ALL = "all"  # everything, with each run: the agent remembers nothing


class OnRestart(StrEnum):
    """What becomes of a run that a restart of the coordinator has cut off."""

    RERUN = "rerun"  # it begins anew
    ASK = "ask"  # a Retry button is shown: the agent does what must not be done twice


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamingAgent:
    """An agent that the coordinator runs itself, one run for each trigger."""

    name: str
    role: Role = Role.LEAD
    reach: Reach = Reach.AGUI
    description: str = ""  # what it is good at, for the agents that delegate
    history: History = History.ALL
    parallel: int = PARALLEL_RUNS  # at most so many runs at once in one coordinator process; at least 1
    on_restart: OnRestart = OnRestart.RERUN
    footer: str = ""  # the operator's own words below every answer, mrkdwn


TIMEOUT_SECONDS: Final = 300.0
LONGEST_RUN_SECONDS: Final = 3600.0
INVOKE_SECONDS: Final = 60.0

RunEnd = Finished | Interrupted | Cancelled | Failed | Broken
"""The last event of every run, and the whole of an `invoke`."""


class Dialect(StrEnum):
    """Which requests a remote agent understands; the events that it answers with are AG-UI's in both."""

    AGUI = "agui"  # one address that takes a RunAgentInput, AG-UI 1.0
    CAIPE = "caipe"  # /api/v1/chat/… of CAIPE's backend


class ThreadContext(StrEnum):
    """Where a caipe service finds what was said in the thread before the new messages."""

    CLIENT_CONTEXT = "client_context"  # as ``thread_context`` in there, for the agent's own system prompt
    MESSAGE = "message"  # in front of the message, for agents whose prompt says nothing of it


class ResumeForm(StrEnum):
    """How a caipe service takes what people answered."""

    FORM = "form"  # ``form_data``, the values alone
    DATA = "data"  # ``resume_data``, the values and what they answer


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientCredentials:
    """What an OAuth2 token service gives an access token for (RFC 6749, section 4.4)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    audience: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteAgent:
    """An agent that is a service of its own and speaks AG-UI over HTTP."""

    name: str
    url: str  # agui: where runs are posted; caipe: what all paths are appended to
    dialect: Dialect = Dialect.AGUI
    token: str | None = field(default=None, repr=False)  # a bearer token; ``oauth`` goes before it
    oauth: ClientCredentials | None = None
    agent_id: str | None = None  # which of several agents behind one address
    timeout_seconds: float = TIMEOUT_SECONDS  # the longest silence; any byte breaks it
    longest_run_seconds: float = LONGEST_RUN_SECONDS
    invoke_seconds: float = INVOKE_SECONDS
    namespace: UUID | None = None  # of conversation ids; None: the dialect's own
    thread_context: ThreadContext = ThreadContext.CLIENT_CONTEXT  # caipe only
    resume: ResumeForm = ResumeForm.FORM  # caipe only
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # sent with every request


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether an agent can be reached now."""

    reachable: bool
    detail: str  # a clause for people, without a secret: "it cannot be reached"


class AgentClient(Protocol):
    """An agent, wherever it runs."""

    def run(self, turn: RunInput) -> AsyncGenerator[AgentEvent, None]:
        """What the agent does during one run, as it happens; the last event is a `RunEnd`, and there is only one.

        Raises nothing. Closing the generator, or cancelling who reads it, ends the run on the agent's side too, as
        far as the agent can be told.
        """
        ...

    async def invoke(self, turn: RunInput) -> RunEnd:
        """One run whose answer comes whole: in `Finished.result`. Raises nothing."""
        ...

    async def health(self) -> Health:
        """Whether a run would reach the agent; takes a few seconds at most. Raises nothing."""
        ...

    async def aclose(self) -> None:
        """Let go of all connections; runs that go on break off."""
        ...
