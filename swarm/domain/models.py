"""Language models: which there are, how one is reached, and what a run may use of them."""

from __future__ import annotations

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


def provider_of(name: str) -> Provider:
    """Who serves a model whose provider nobody has named: OpenAI for names with "gpt", else Ollama."""
    return Provider.OPENAI if "gpt" in name.lower() else Provider.OLLAMA


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """A model, and how it is reached."""

    provider: Provider
    name: str
    base_url: str | None = None  # None: the provider's own; of Ollama without /v1
    api_key: str | None = field(default=None, repr=False)  # Bedrock takes AWS's usual credentials instead
    region: str | None = None  # of Bedrock; None: AWS's usual settings
    timeout_seconds: float = MODEL_TIMEOUT_SECONDS  # the longest silence
    max_tokens: int | None = None  # of one answer; None: the provider's own limit
    temperature: float | None = None

    @property
    def label(self) -> str:
        """How it is called in logs and by people."""
        return f"{self.provider}:{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """What one run may use; None: as much as it likes."""

    requests: int | None = MOST_REQUESTS  # calls of the model
    tokens: int | None = MOST_TOKENS  # read and written, over all calls
    tool_calls: int | None = MOST_TOOL_CALLS
    seconds: float | None = MOST_SECONDS  # of wall-clock time
    cost_dollars: Decimal | None = None  # where the model's price is known
