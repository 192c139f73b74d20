"""The port between a run and a coding CLI. Three doors implement it: ACP, claude's own protocol, and a plain command.

A session is one conversation with a CLI, in one process. A turn is one prompt and everything until its end; the end of
a turn is not the end of the process. Events of a turn arrive in order; a question or a permission blocks the CLI, not
the events, until it is answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from swarm_base.errors import SwarmError


class StartFailed(SwarmError):
    """The CLI could not be started, or did not speak its protocol. Another attempt may help."""

    code = "start_failed"


class SessionMissing(SwarmError):
    """The CLI does not have the session that was to be resumed, or cannot prove that it has."""

    code = "session_missing"


class ToolState(StrEnum):
    """The state of a tool call or of a plan's step."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextAdded:
    """Text of the answer."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StepShown:
    """A tool call or a step of the plan, in its current state. The same id is the same step."""

    id: str
    title: str
    state: ToolState


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDiff:
    """What a call does to one file. The texts may be whole files, or the parts that change."""

    path: str
    old: str | None = None  # None: there is no such file yet
    new: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PermissionAsked:
    """The CLI asks whether it may make a tool call. It waits for `CliSession.permit`."""

    id: str
    tool: str  # the tool's name, such as "Bash"
    title: str  # what the call does, in the CLI's words
    arguments: Mapping[str, Any]
    diffs: tuple[FileDiff, ...] = ()  # what the call does to files
    locations: tuple[str, ...] = ()  # the files that it is about, as "path" or "path:line"
    can_grant: bool = False  # the CLI offers to allow the tool from now on
    is_whole: bool = True  # False: the call is too long to be kept, so people cannot be asked


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionAsked:
    """The CLI asks a person for values. It waits for `CliSession.answer`. ``schema`` is a JSON Schema of an object."""

    id: str
    message: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageReported:
    """The usage of a session since it was opened or resumed, as the CLI reports it. None: not reported.

    A door counts the turns together, and leaves out what earlier runs of a resumed session have used.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_dollars: float | None = None
    model: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """A line for the run's log that is no part of the answer: standard error, or a protocol message in short."""

    text: str


class TurnOutcome(StrEnum):
    """How a turn ended."""

    DONE = "done"
    CANCELLED = "cancelled"
    REFUSED = "refused"  # the CLI says that it will not, or that tools it needed were refused
    FAILED = "failed"  # the CLI reports an error, or its process ended without a result


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnEnded:
    """The end of a turn: always the last event."""

    outcome: TurnOutcome
    text: str = ""  # the final text, if the CLI gives it; may repeat the text of the events
    reason: str = ""  # for people: why it failed
    refused_tools: tuple[str, ...] = ()  # tools that were refused during the turn
    is_limited: bool = False  # the account's limit is reached
    resets_at: float | None = None  # seconds since 1970: when that limit ends, if it is known


CliEvent = TextAdded | StepShown | PermissionAsked | QuestionAsked | UsageReported | LogLine | TurnEnded


@dataclass(frozen=True, kw_only=True, slots=True)
class McpAccess:
    """The coordinator's MCP server for this run."""

    url: str
    headers: Mapping[str, str] = field(repr=False)  # with the key of the lease


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionWanted:
    """What a session is opened with."""

    cwd: Path
    environment: Mapping[str, str] = field(repr=False)  # complete
    mcp: McpAccess
    system_prompt: str
    resume: str | None = None  # the session's id; None: a new session
    wrap: tuple[str, ...] = ()  # the sandbox's command up to its "--"; the CLI's command is appended
    trusts_repository: bool = False  # its settings that run programs count
    spent: UsageReported = UsageReported()  # what earlier runs of the session to resume have used
    cost_limit_dollars: float | None = None  # for CLIs that limit the cost themselves


class CliSession(Protocol):
    """An open session."""

    @property
    def id(self) -> str | None:
        """The CLI's id of the session, to resume it; None if it cannot be resumed."""
        ...

    def turn(self, prompt: str) -> AsyncIterator[CliEvent]:
        """Sends a prompt and yields the events of its turn. Never raises; a broken process ends the turn as failed."""
        ...

    async def permit(self, ask_id: str, *, allowed: bool, always: bool = False, reason: str = "") -> None:
        """Answers a `PermissionAsked`. Unknown ids are ignored."""
        ...

    async def answer(self, ask_id: str, values: Mapping[str, Any] | None) -> None:
        """Answers a `QuestionAsked`; None: the person declines. Unknown ids are ignored."""
        ...

    async def cancel(self) -> None:
        """Asks the CLI to end the turn. The turn still ends with `TurnEnded`, or the owner closes the session."""
        ...

    async def close(self, grace_seconds: float) -> None:
        """Ends the process and all its descendants: at once without grace. Never raises. Idempotent."""
        ...


class CliDoor(Protocol):
    """A kind of CLI."""

    async def open(self, wanted: SessionWanted) -> CliSession:
        """Starts the CLI. Raises StartFailed and SessionMissing; then no process is left."""
        ...
