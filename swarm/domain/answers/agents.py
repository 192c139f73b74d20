"""Agents whose answers are shown live: their configuration, the client interface of a remote agent, and the ids of
conversations with it, which are computed from the place of the conversation, so that no lookup is needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol
from uuid import NAMESPACE_URL, UUID, uuid5

from swarm.domain.answers.events import AgentEvent, Broken, Cancelled, Failed, Finished, Interrupted, RunInput
from swarm.domain.model.agents import Reach, Role

PARALLEL_RUNS: Final = 20


class History(StrEnum):
    """The part of the thread's history that an agent gets with each run."""

    NEW = "new"  # messages since its last run in the thread: the agent stores the conversation
    ALL = "all"  # the complete thread with each run: the agent stores nothing


class OnRestart(StrEnum):
    """How to treat a run that a restart of the coordinator interrupted."""

    RERUN = "rerun"  # it starts again
    ASK = "ask"  # a Retry button is shown: the agent's side effects must not happen twice


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamingAgent:
    """An agent run by the coordinator, one run per trigger."""

    name: str
    role: Role = Role.LEAD
    reach: Reach = Reach.AGUI
    description: str = ""  # its skills, shown to agents that delegate
    history: History = History.ALL
    parallel: int = PARALLEL_RUNS  # maximum number of concurrent runs per coordinator process; at least 1
    on_restart: OnRestart = OnRestart.RERUN
    footer: str = ""  # the operator's text below every answer, mrkdwn
    has_team: bool = False  # has the swarm's own tools
    formerly: str = ""  # the agent's earlier name, under which it may still be registered

    @property
    def leads(self) -> bool:
        """Whether the agent delegates with the swarm's own tools: the end of a task that it gave starts a run."""
        return self.has_team and self.role is Role.LEAD


TIMEOUT_SECONDS: Final = 300.0
LONGEST_RUN_SECONDS: Final = 3600.0
INVOKE_SECONDS: Final = 60.0

RunEnd = Finished | Interrupted | Cancelled | Failed | Broken
"""The last event of every run, and the result of `AgentClient.invoke`."""


class Dialect(StrEnum):
    """The request format of a remote agent. Both formats use AG-UI events for answers."""

    AGUI = "agui"  # one URL that takes a RunAgentInput, AG-UI 1.0
    CAIPE = "caipe"  # /api/v1/chat/… of CAIPE's backend


class ThreadContext(StrEnum):
    """How a caipe service receives the thread's earlier messages."""

    CLIENT_CONTEXT = "client_context"  # as ``thread_context`` of the client context, for the agent's own system prompt
    MESSAGE = "message"  # before the message, for agents whose prompt does not mention it


class ResumeForm(StrEnum):
    """How a caipe service receives people's answers to an interrupt."""

    FORM = "form"  # ``form_data``: only the values
    DATA = "data"  # ``resume_data``: the values and the questions


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientCredentials:
    """The OAuth2 client credentials grant (RFC 6749, section 4.4)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    audience: str | None = None
    auth: str | None = None  # where the credentials are: "basic" or "body"; None: basic, and body if that is refused


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteAgent:
    """An agent that runs as a separate service and speaks AG-UI over HTTP."""

    name: str
    url: str  # agui: the URL for runs; caipe: the base of all paths
    dialect: Dialect = Dialect.AGUI
    token: str | None = field(default=None, repr=False)  # a bearer token; ``oauth`` takes precedence
    oauth: ClientCredentials | None = None
    agent_id: str | None = None  # selects one of several agents behind one URL
    timeout_seconds: float = TIMEOUT_SECONDS  # maximum time without receiving any byte
    longest_run_seconds: float = LONGEST_RUN_SECONDS
    invoke_seconds: float = INVOKE_SECONDS
    namespace: UUID | None = None  # for conversation ids; None: chosen by the dialect
    thread_context: ThreadContext = ThreadContext.CLIENT_CONTEXT  # caipe only
    resume: ResumeForm = ResumeForm.FORM  # caipe only
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # sent with every request


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether an agent is reachable now."""

    reachable: bool
    detail: str  # a user-facing clause without secrets: "it cannot be reached"


class AgentClient(Protocol):
    """The client of one agent, local or remote."""

    def run(self, run_input: RunInput) -> AsyncGenerator[AgentEvent, None]:
        """Yields the events of one run as they happen. The last event, and no other, is a `RunEnd`.

        Raises nothing. Closing the generator or cancelling its reader also ends the run on the agent's side, if the
        agent can be notified.
        """
        ...

    async def invoke(self, run_input: RunInput) -> RunEnd:
        """Executes one run without streaming; the answer is in `Finished.result`. Raises nothing."""
        ...

    async def health(self) -> Health:
        """Checks whether a run would reach the agent, within a few seconds. Raises nothing."""
        ...

    async def aclose(self) -> None:
        """Closes all connections; active runs break off."""
        ...


_NAMESPACE: Final = UUID("0d2f3c68-8a5e-5b0c-9d3a-6f1f5f0f7c11")
"""The namespace of all our conversation ids. It never changes, because agents store conversations under these ids."""

CAIPE_NAMESPACE: Final = uuid5(NAMESPACE_URL, "slack.caipe.io")
"""The namespace of the conversation ids created by CAIPE's own Slack bot."""


def conversation_id(team: str, channel: str, thread_ts: str, *, namespace: UUID = _NAMESPACE) -> str:
    """Returns one UUID for all runs in a thread, different for every thread (RFC 9562, version 5)."""
    return str(uuid5(namespace, f"{team}/{channel}/{thread_ts}"))


def caipe_conversation_id(thread_ts: str, *, namespace: UUID = CAIPE_NAMESPACE) -> str:
    """Returns the id that CAIPE's own Slack bot would create, computed from the thread's timestamp only."""
    return str(uuid5(namespace, thread_ts))


def conversation_with(agent: RemoteAgent, *, team: str, channel: str, thread_ts: str) -> str:
    """Returns the id of an agent's conversation in a thread, using the agent's dialect and namespace."""
    if agent.dialect is Dialect.CAIPE:  # a flat direct message has no timestamp, and its channel is its own
        return caipe_conversation_id(thread_ts or channel, namespace=agent.namespace or CAIPE_NAMESPACE)
    return conversation_id(team, channel, thread_ts, namespace=agent.namespace or _NAMESPACE)
