"""What runs of built-in agents have used and cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class UsageOutcome(StrEnum):
    """How a run of a built-in agent ended."""

    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    LIMITED = "limited"  # a limit of the operator's has ended it


class UsagePurpose(StrEnum):
    """What a run was for."""

    ANSWER = "answer"  # to what somebody has said
    SUMMARY = "summary"  # of a session that has grown long; nobody has asked for it


class Door(StrEnum):
    """Where a run came from."""

    SLACK = "slack"
    AGUI = "agui"
    CLI = "cli"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUsage:
    """What calls of models have used. Tokens are counted by the provider."""

    requests: int = 0
    input_tokens: int = 0  # those read from a cache included
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    tool_calls: int = 0
    cost_microdollars: int | None = 0  # millionths of a US dollar; None: the price of a model is not known

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Both together; one cost that is not known makes the sum unknown."""
        known = self.cost_microdollars is not None and other.cost_microdollars is not None
        return ModelUsage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            tool_calls=self.tool_calls + other.tool_calls,
            cost_microdollars=(self.cost_microdollars or 0) + (other.cost_microdollars or 0) if known else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUsageRecord:
    """One run of a built-in agent, when it is over: an answer, or a summary of what it remembers."""

    id: str  # the run's id, new for each
    agent: str
    door: Door
    session_id: str
    turn_id: str  # of an answer in Slack; elsewhere empty
    requester: str  # a Slack user's id, or who called; empty if that is not known, and of a summary
    model: str  # the model that answered last, "provider:name"; empty if none did
    outcome: UsageOutcome
    note: str  # why it did not answer; empty if it did
    usage: ModelUsage
    started_at: int  # microseconds since 1970 UTC
    ended_at: int
    purpose: UsagePurpose = UsagePurpose.ANSWER


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageTotal:
    """What the runs of one agent that ended on one day, with one model, have used together."""

    day: str  # in UTC, as 2026-11-22
    agent: str
    model: str  # "provider:name"; empty: of runs in which no model answered
    runs: int
    usage: ModelUsage  # its cost is that of the runs whose cost is known; None: of none
    runs_of_unknown_cost: int


class UsageRecorder(Protocol):
    """Where runs are noted down."""

    async def note(self, run: ModelUsageRecord) -> None:
        """Note a run that is over; one that is noted already stays as it is. Raises Unavailable."""
        ...
