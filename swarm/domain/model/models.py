"""Language models: which there are, how one is reached, and what a run may use of them.

What runs of built-in agents have used and cost.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

OLLAMA_BASE_URL: Final = "http://localhost:11434"
MODEL_TIMEOUT_SECONDS: Final = 120.0

MOST_REQUESTS: Final = 20
MOST_TOKENS: Final = 200_000
MOST_TOOL_CALLS: Final = 50
MOST_SECONDS: Final = 300.0


class Provider(StrEnum):
    """Who serves a model."""

    OPENAI = "openai"  # and everything that speaks its protocol
    ANTHROPIC = "anthropic"
    BEDROCK = "bedrock"
    OLLAMA = "ollama"


ADDRESS_VARIABLES: Final[Mapping[Provider, str]] = {
    Provider.OPENAI: "OPENAI_BASE_URL (providers.openai.base_url)",
    Provider.ANTHROPIC: "ANTHROPIC_BASE_URL (providers.anthropic.base_url)",
    Provider.BEDROCK: "AWS_REGION (providers.bedrock.region)",
    Provider.OLLAMA: "OLLAMA_BASE_URL (providers.ollama.base_url)",
}
"""Where the address of each provider is set."""

_FAMILIES: Final[Sequence[tuple[re.Pattern[str], Provider]]] = (
    (re.compile(r"gpt(?!-oss)|chatgpt|o\d"), Provider.OPENAI),  # gpt-oss is open: others serve it, OpenAI does not
    (re.compile(r"claude"), Provider.ANTHROPIC),
)
"""How the names of models begin that only one provider has."""


def guessed_provider(name: str, *, addresses: Collection[Provider], keys: Collection[Provider]) -> Provider:
    """Who serves a model whose provider the settings do not name.

    The name's family decides; then the provider whose base URL is set (``addresses``), if there is one such; then the
    one whose key is set, likewise; then Ollama, which needs neither (AGENT-07).
    """
    for pattern, provider in _FAMILIES:
        if pattern.match(name.lower()):
            return provider
    for only in (addresses, keys):
        if len(only) == 1:
            return next(iter(only))
    return Provider.OLLAMA


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """A model, and how it is reached."""

    provider: Provider
    name: str
    base_url: str | None = None  # None: the provider's own; of Ollama without /v1
    api_key: str | None = field(default=None, repr=False)  # Bedrock takes AWS's usual credentials instead
    region: str | None = None  # of Bedrock; None: AWS's usual settings
    is_guessed: bool = False  # nobody has named the provider
    timeout_seconds: float = MODEL_TIMEOUT_SECONDS  # the longest silence
    max_tokens: int | None = None  # of one answer; None: the provider's own limit
    temperature: float | None = None

    @property
    def label(self) -> str:
        """How it is called in logs and by people."""
        return f"{self.provider}:{self.name}"

    @property
    def guess(self) -> str:
        """What to do if the guessed provider is the wrong one; empty where the settings name it."""
        if not self.is_guessed:
            return ""
        return (
            f"The provider {self.provider} was guessed; LLM_PROVIDER (model.provider, model.fallbacks) names another."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """What one run may use; None: as much as it likes."""

    requests: int | None = MOST_REQUESTS  # calls of the model
    tokens: int | None = MOST_TOKENS  # read and written, over all calls
    tool_calls: int | None = MOST_TOOL_CALLS
    seconds: float | None = MOST_SECONDS  # of wall-clock time
    cost_dollars: Decimal | None = None  # where the model's price is known


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
