"""Language models: which there are, how one is reached, and what a run may use of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final

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
