"""Builds models that are ready for requests, one for each provider, and combines a list of models into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

import pydantic_ai
from pydantic_ai.settings import ModelSettings

from swarm.agents.models.clients import anthropic_client, bedrock_client, open_http, openai_client
from swarm.agents.models.served import DEFAULT_RETRIES, RetryPolicy, Served, in_order
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import OLLAMA_BASE_URL, ModelSpec, Provider

if TYPE_CHECKING:
    from pydantic_ai.models import Model

OPENAI_ADDRESS: Final = "https://api.openai.com/v1"
ANTHROPIC_ADDRESS: Final = "https://api.anthropic.com"

COMPATIBLE: Final = "openai-compatible"
"""pydantic-ai's name for servers other than OpenAI that use OpenAI's protocol. pydantic-ai then assumes fewer
capabilities.
"""

KEY_VARIABLES: Final[Mapping[Provider, str]] = {
    Provider.OPENAI: "OPENAI_API_KEY",
    Provider.ANTHROPIC: "ANTHROPIC_API_KEY",
}


class Models:
    """A list of models combined into one, in order, with their connections, which close with it.

    Nothing is sent before the first request. Raises ConfigurationError for a missing key or region.
    """

    def __init__(self, specs: Sequence[ModelSpec], *, retries: RetryPolicy = DEFAULT_RETRIES) -> None:
        if not specs:
            raise ConfigurationError("No model is configured.", hint="Set LLM_MODEL (model.name).")
        pydantic_ai.BANNER_ENABLED = False  # the coordinator writes only its log
        self.specs = tuple(specs)
        self._open = AsyncExitStack()
        for spec in specs:
            _insist_on_key(spec)
        self.model: Model = in_order(
            [
                Served(self._build(spec), spec, retries=retries, is_last=number == len(specs))
                for number, spec in enumerate(specs, start=1)
            ]
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections and aborts running requests. May be called twice."""
        await self._open.aclose()

    def _build(self, spec: ModelSpec) -> Model:
        return _BUILDERS[spec.provider](spec, _settings(spec), self._open)


def build(specs: Sequence[ModelSpec]) -> Models:
    """Builds the models of these specs, in order; see `Models`."""
    return Models(specs)


def _insist_on_key(spec: ModelSpec) -> None:
    variable = KEY_VARIABLES.get(spec.provider)
    if variable and not spec.api_key and not spec.base_url:
        raise ConfigurationError(
            f"The model {spec.label} needs a key.",
            hint=f"Set {variable} (providers.{spec.provider}.api_key). {spec.guess}".rstrip(),
        )


def _settings(spec: ModelSpec) -> ModelSettings:
    settings = ModelSettings()
    if spec.max_tokens is not None:
        settings["max_tokens"] = spec.max_tokens
    if spec.temperature is not None:
        settings["temperature"] = spec.temperature
    return settings


def _openai(spec: ModelSpec, settings: ModelSettings, opened: AsyncExitStack) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    address = spec.base_url or OPENAI_ADDRESS
    http = open_http(spec, address)
    opened.push_async_callback(http.aclose)
    client = openai_client(spec, address, http)
    if _is_openai(address):
        return OpenAIChatModel(spec.name, provider=OpenAIProvider(openai_client=client), settings=settings)
    compatible = OpenAICompatibleProvider(COMPATIBLE, openai_client=client)
    return OpenAIChatModel(spec.name, provider=compatible, settings=settings)


def _is_openai(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")  # for example eu.api.openai.com


def _anthropic(spec: ModelSpec, settings: ModelSettings, opened: AsyncExitStack) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    address = spec.base_url or ANTHROPIC_ADDRESS
    http = open_http(spec, address)
    opened.push_async_callback(http.aclose)
    provider = AnthropicProvider(anthropic_client=anthropic_client(spec, address, http))
    return AnthropicModel(spec.name, provider=provider, settings=settings)


def _bedrock(spec: ModelSpec, settings: ModelSettings, opened: AsyncExitStack) -> Model:
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    client = bedrock_client(spec)
    opened.callback(client.close)
    return BedrockConverseModel(spec.name, provider=BedrockProvider(bedrock_client=client), settings=settings)


def _ollama(spec: ModelSpec, settings: ModelSettings, opened: AsyncExitStack) -> Model:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.ollama import OllamaProvider

    address = _with_v1(spec.base_url or OLLAMA_BASE_URL)
    http = open_http(spec, address)
    opened.push_async_callback(http.aclose)
    provider = OllamaProvider(openai_client=openai_client(spec, address, http))
    # Ollama knows this limit only by its older name, and ignores unknown settings.
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return OllamaModel(spec.name, provider=provider, profile=profile, settings=settings)


def _with_v1(address: str) -> str:
    bare = address.rstrip("/")
    return bare if bare.endswith("/v1") else f"{bare}/v1"


_Builder = Callable[[ModelSpec, ModelSettings, AsyncExitStack], "Model"]

_BUILDERS: Final[Mapping[Provider, _Builder]] = {
    Provider.OPENAI: _openai,
    Provider.ANTHROPIC: _anthropic,
    Provider.BEDROCK: _bedrock,
    Provider.OLLAMA: _ollama,
}
