"""Language models: providers, addresses, the limits of a run, and the recorded usage."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

from swarm.domain.errors import ConfigurationError

OLLAMA_BASE_URL: Final = "http://localhost:11434"
TOOL_OUTPUT_CHARACTERS: Final = 20_000
"""The default maximum length of a tool's output; longer output is truncated."""

MODEL_TIMEOUT_SECONDS: Final = 120.0

MOST_REQUESTS: Final = 20
MOST_TOKENS: Final = 200_000
MOST_TOOL_CALLS: Final = 50
MOST_SECONDS: Final = 300.0


class Provider(StrEnum):
    """The provider of a model."""

    OPENAI = "openai"  # and all services that use its protocol
    ANTHROPIC = "anthropic"
    BEDROCK = "bedrock"
    OLLAMA = "ollama"


ADDRESS_VARIABLES: Final[Mapping[Provider, str]] = {
    Provider.OPENAI: "OPENAI_BASE_URL (providers.openai.base_url)",
    Provider.ANTHROPIC: "ANTHROPIC_BASE_URL (providers.anthropic.base_url)",
    Provider.BEDROCK: "AWS_REGION (providers.bedrock.region)",
    Provider.OLLAMA: "OLLAMA_BASE_URL (providers.ollama.base_url)",
}
"""The setting for each provider's address."""

KEY_VARIABLES: Final[Mapping[Provider, str]] = {
    Provider.OPENAI: "OPENAI_API_KEY",
    Provider.ANTHROPIC: "ANTHROPIC_API_KEY",
}

_FAMILIES: Final[Sequence[tuple[re.Pattern[str], Provider]]] = (
    (re.compile(r"gpt(?!-oss)|chatgpt|o\d"), Provider.OPENAI),  # gpt-oss is open: OpenAI does not serve it
    (re.compile(r"claude"), Provider.ANTHROPIC),
)
"""Name prefixes that only one provider uses."""


def guessed_provider(name: str, *, addresses: Collection[Provider], keys: Collection[Provider]) -> Provider:
    """Returns the provider of a model whose settings do not specify one.

    The name's family decides; then the only provider with a base URL (``addresses``); then the only provider with a key
    (``keys``); then Ollama, which requires neither (AGENT-07).
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
    """A model and its address."""

    provider: Provider
    name: str
    base_url: str | None = None  # None: the provider's default; for Ollama without /v1
    api_key: str | None = field(default=None, repr=False)  # Bedrock uses AWS's usual credentials instead
    key_from: str = field(default="", compare=False)  # where the key is set, for the operator
    region: str | None = None  # for Bedrock; None: AWS's usual settings
    is_guessed: bool = False  # the settings do not specify the provider
    timeout_seconds: float = MODEL_TIMEOUT_SECONDS  # maximum time without receiving data
    max_tokens: int | None = None  # for one answer; None: the provider's own limit
    temperature: float | None = None

    @property
    def label(self) -> str:
        """The user-facing name, also used in logs."""
        return f"{self.provider}:{self.name}"

    @property
    def guess(self) -> str:
        """Advice for a wrongly guessed provider; empty if the settings specify the provider."""
        if not self.is_guessed:
            return ""
        return (
            f"The provider {self.provider} was guessed; LLM_PROVIDER (model.provider, model.fallbacks) names another."
        )


def require_key(spec: ModelSpec) -> None:
    """Raises ConfigurationError if the provider's own service would be asked without a key."""
    variable = KEY_VARIABLES.get(spec.provider)
    if variable and not spec.api_key and not spec.base_url:
        raise ConfigurationError(
            f"The model {spec.label} needs a key.",
            hint=f"Set {variable} (providers.{spec.provider}.api_key). {spec.guess}".rstrip(),
        )


_LIMIT_WORDS: Final[Mapping[str, str]] = {
    "requests": "more than {} calls of the model",
    "tokens": "more than {} tokens",
    "tool_calls": "more than {} calls of tools",
    "cost_dollars": "more than {} US dollars",
    "seconds": "longer than {} s",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """The limits of one run, or of a conversation's runs on one day; None: unlimited."""

    requests: int | None = MOST_REQUESTS  # calls of the model
    tokens: int | None = MOST_TOKENS  # read and written, over all calls
    tool_calls: int | None = MOST_TOOL_CALLS
    seconds: float | None = MOST_SECONDS  # of wall-clock time
    cost_dollars: Decimal | None = None  # applies if the model's price is known
    keys: Mapping[str, str] = field(default_factory=dict)  # the setting of a limit, if it is not limits.NAME
    daily: Mapping[str, int | Decimal] = field(default_factory=dict)  # limits that are the rest of a conversation's day

    def key(self, name: str) -> str:
        """Returns the setting of a limit."""
        return self.keys.get(name, f"limits.{name}")

    def reached(self, name: str) -> str:
        """Returns a sentence for people about a limit that has ended a run: its value, and its setting."""
        if name in self.daily:
            amount = _LIMIT_WORDS[name].format(self.daily[name])
            return f"This conversation would take {amount} today (UTC), which is the limit ({self.key(name)})."
        value = getattr(self, name)
        amount = _LIMIT_WORDS[name].format(f"{value:g}" if isinstance(value, float) else value)
        return f"This took {amount}, which is the limit ({self.key(name)})."

    def within(self, day: RunLimits, used: ModelUsage) -> RunLimits:
        """Returns these limits, lowered to what a conversation's limits for a day leave after ``used``.

        A rest may be negative: the last run may have taken more than was left.
        """
        spent = {
            "requests": used.requests,
            "tokens": used.input_tokens + used.output_tokens,
            "tool_calls": used.tool_calls,
            "cost_dollars": Decimal(used.cost_microdollars or 0) / 1_000_000,
        }
        rests = {name: getattr(day, name) - amount for name, amount in spent.items() if getattr(day, name) is not None}
        lower = {
            name: rest for name, rest in rests.items() if getattr(self, name) is None or rest < getattr(self, name)
        }
        return replace(
            self,
            **lower,
            keys={**self.keys, **{name: day.key(name) for name in lower}},
            daily={name: getattr(day, name) for name in lower},
        )

    @property
    def used_up(self) -> str:
        """The limit of which a conversation's day has left nothing, so that no run can begin; empty if there is none.

        Without calls of tools, a run can still answer.
        """
        return next((name for name in self.daily if name != "tool_calls" and getattr(self, name) <= 0), "")


NO_LIMITS: Final = RunLimits(requests=None, tokens=None, tool_calls=None, seconds=None, cost_dollars=None)


class UsageOutcome(StrEnum):
    """How a run ended."""

    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    LIMITED = "limited"  # ended by one of the operator's limits
    REPORTED = "reported"  # the agent reports its usage itself; how the run ended is not recorded with it


class UsagePurpose(StrEnum):
    """The purpose of a run."""

    ANSWER = "answer"  # an answer to a person or caller
    SUMMARY = "summary"  # the summary of a long session, which nobody requested


class Door(StrEnum):
    """The entry point of a run."""

    SLACK = "slack"
    AGUI = "agui"
    CLI = "cli"
    POLLING = "polling"  # a polling agent's own run


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUsage:
    """The usage of model calls. Tokens are counted by the provider. A polling agent reports only tokens and cost."""

    requests: int = 0
    input_tokens: int = 0  # including tokens read from a cache
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    tool_calls: int = 0
    cost_microdollars: int | None = 0  # millionths of a US dollar; None: the price of a model is unknown

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Adds both usages. If one cost is unknown, the total cost is unknown."""
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
    """One run: a finished run of a built-in agent (an answer, or a summary of a session), or what a polling agent has
    reported of a run so far."""

    id: str  # the run's id, new for each run
    agent: str
    door: Door
    session_id: str
    run_id: str  # for an answer in Slack, and for a polling agent; otherwise empty
    requester: str  # a Slack user's id or the caller; empty if unknown or for a summary
    model: str  # the model that answered last, "provider:name"; empty without an answer
    outcome: UsageOutcome
    note: str  # the reason for a run without an answer; otherwise empty
    usage: ModelUsage
    started_at: int  # microseconds since 1970 UTC
    ended_at: int  # for a polling agent, the time of its last report
    purpose: UsagePurpose = UsagePurpose.ANSWER
    thread_id: str | None = None  # set when the run is stored


class UsageGrouping(StrEnum):
    """The runs that are added up."""

    DAY = "day"  # of one agent, with one model, that ended on one day
    AGENT = "agent"
    THREAD = "thread"
    RUN = "run"  # one run, with all its parts


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageTotal:
    """The total usage of the runs of one group. What the group does not tell is None."""

    day: str | None  # in UTC, formatted as 2026-11-22
    agent: str | None
    model: str | None  # "provider:name"; empty: runs in which no model answered
    thread_id: str | None = None
    run_id: str | None = None
    runs: int
    usage: ModelUsage  # its cost covers the runs with a known cost; None: no run has a known cost
    runs_of_unknown_cost: int


class UsageRecorder(Protocol):
    """The recorder of the usage of runs."""

    async def note(self, run: ModelUsageRecord) -> None:
        """Records a finished run. An existing record of the run stays unchanged. Raises Unavailable."""
        ...


class ConversationUsage(UsageRecorder, Protocol):
    """The recorder of the usage of runs, which knows what the conversations have used."""

    async def used_today(self, session_id: str, run_id: str) -> ModelUsage:
        """Returns the usage of a conversation's answers that ended on this day in UTC, by all built-in agents.

        The conversation is the thread of the run ``run_id`` in Slack, or else the session. The cost is that of the
        answers whose cost is known. Raises Unavailable.
        """
        ...
