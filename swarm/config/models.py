"""The language models of the built-in agents, and the limits of a run."""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field, SecretStr

from swarm.config.section import HttpAddress, Section
from swarm.domain.model.models import (
    MODEL_TIMEOUT_SECONDS,
    MOST_REQUESTS,
    MOST_SECONDS,
    MOST_TOKENS,
    MOST_TOOL_CALLS,
    OLLAMA_BASE_URL,
    Provider,
    guessed_provider,
)
from swarm.domain.operating_policy import MESSAGES_PER_MINUTE


class FallbackSettings(Section):
    """A model that answers in place of failed ones before it."""

    name: str = Field(min_length=1, description="as its provider calls it")
    provider: Provider | None = Field(None, description="as of model.provider")


class ModelSettings(Section):
    """The model of the built-in agents. Without a name there are no built-in agents."""

    name: str | None = Field(None, min_length=1, description="as its provider calls it, for example gpt-5-mini")
    provider: Provider | None = Field(
        None,
        description="openai, anthropic, bedrock or ollama; without it a guess: gpt…, chatgpt…, o1…: openai; claude…: "
        "anthropic; else whose base_url is set, else whose api_key is the only one, else ollama",
    )
    timeout_seconds: float = Field(MODEL_TIMEOUT_SECONDS, gt=0, description="so long a model may be silent")
    max_tokens: int | None = Field(None, gt=0, description="of one answer; null: the provider's own limit")
    temperature: float | None = Field(None, ge=0, le=2)
    fallbacks: list[FallbackSettings] = Field(
        default_factory=list, description="models that are asked, in this order, when one before them cannot answer"
    )
    check_at_start: bool = Field(True, description="ask the model for one word at the start, to see that it answers")


class _OpenAISettings(Section):
    """OpenAI, or a service with its protocol."""

    api_key: SecretStr | None = None
    base_url: HttpAddress | None = Field(None, description="with its path, as http://127.0.0.1:8000/v1")


class _AnthropicSettings(Section):
    """Anthropic."""

    api_key: SecretStr | None = None
    base_url: HttpAddress | None = None


class _BedrockSettings(Section):
    """Amazon Bedrock. Credentials come from the places of AWS's own programs."""

    region: str | None = Field(None, description="without it AWS_REGION, or AWS's configuration")
    base_url: HttpAddress | None = None


class _OllamaSettings(Section):
    """Ollama."""

    base_url: HttpAddress = Field(OLLAMA_BASE_URL, description="without /v1")
    api_key: SecretStr | None = Field(None, description="where a proxy in front of it wants one")


class ProviderSettings(Section):
    """Connections to the providers of models."""

    openai: _OpenAISettings = _OpenAISettings()
    anthropic: _AnthropicSettings = _AnthropicSettings()
    bedrock: _BedrockSettings = _BedrockSettings()
    ollama: _OllamaSettings = _OllamaSettings()

    def guess(self, model: str) -> Provider:
        """The likely provider of a model without a named one."""
        given = {provider: getattr(self, provider).model_fields_set for provider in Provider}
        return guessed_provider(
            model,
            addresses=[provider for provider, keys in given.items() if "base_url" in keys],
            keys=[provider for provider, keys in given.items() if "api_key" in keys],
        )


class LimitSettings(Section):
    """Limits of one run of a built-in agent, and of one person over all agents; null: no limit."""

    requests: int | None = Field(MOST_REQUESTS, ge=1, description="calls of the model")
    tokens: int | None = Field(MOST_TOKENS, ge=1, description="read and written, over all calls")
    tool_calls: int | None = Field(MOST_TOOL_CALLS, ge=0)
    seconds: float | None = Field(MOST_SECONDS, gt=0, description="of wall-clock time")
    cost_dollars: Decimal | None = Field(None, gt=0, description="counts where the model's price is known")
    messages_per_minute_per_user: int | None = Field(
        MESSAGES_PER_MINUTE, ge=0, description="messages and clicks of one person, over all channels; 0: no limit"
    )
