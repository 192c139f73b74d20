"""Builds models that are ready for requests, one for each provider, and combines a list of models into one.

The providers' clients neither hang nor repeat requests, because retries are handled in one place for all providers
(`in_order`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import httpx2
import pydantic_ai
from pydantic_ai.settings import ModelSettings

from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import OLLAMA_BASE_URL, ModelSpec, Provider, require_key
from swarm_agents.models.served import DEFAULT_RETRIES, RetryPolicy, Served, in_order
from swarm_agents.models.troubles import bedrock_region

if TYPE_CHECKING:
    from pydantic_ai.models import Model

OPENAI_ADDRESS: Final = "https://api.openai.com/v1"
ANTHROPIC_ADDRESS: Final = "https://api.anthropic.com"

COMPATIBLE: Final = "openai-compatible"
"""pydantic-ai's name for servers other than OpenAI that use OpenAI's protocol. pydantic-ai then assumes fewer
capabilities.
"""


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
            require_key(spec)
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
    http = _open_http(spec, address)
    opened.push_async_callback(http.aclose)
    client = _openai_client(spec, address, http)
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
    http = _open_http(spec, address)
    opened.push_async_callback(http.aclose)
    provider = AnthropicProvider(anthropic_client=_anthropic_client(spec, address, http))
    return AnthropicModel(spec.name, provider=provider, settings=settings)


def _bedrock(spec: ModelSpec, settings: ModelSettings, opened: AsyncExitStack) -> Model:
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    client = _bedrock_client(spec)
    opened.callback(client.close)
    return BedrockConverseModel(spec.name, provider=BedrockProvider(bedrock_client=client), settings=settings)


def _ollama(spec: ModelSpec, settings: ModelSettings, opened: AsyncExitStack) -> Model:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.ollama import OllamaProvider

    address = _with_v1(spec.base_url or OLLAMA_BASE_URL)
    http = _open_http(spec, address)
    opened.push_async_callback(http.aclose)
    provider = OllamaProvider(openai_client=_openai_client(spec, address, http))
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


if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

CONNECT_SECONDS: Final = 5.0
"""The time limit for one attempt to connect, including TLS."""

IDLE_CONNECTIONS: Final = 20

NO_KEY: Final = "no-key"
"""Sent to the operator's own servers that need no key. Otherwise the libraries would read a key from their environment
variables and send it to the wrong server.
"""

_LOOPBACK: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")


def _open_http(spec: ModelSpec, address: str) -> httpx2.AsyncClient:
    """Opens connections to one provider; the caller closes them.

    Redirects are not followed, because a key in a header would be sent along. Proxies from the environment are used,
    but never for the local machine.
    """
    silence = spec.timeout_seconds
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(silence, connect=min(CONNECT_SECONDS, silence)),
        verify=address.lower().startswith("https:"),  # loading certificates takes a tenth of a second
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS),
        mounts=dict.fromkeys(_LOOPBACK),
    )


def _openai_client(spec: ModelSpec, address: str, http: httpx2.AsyncClient) -> AsyncOpenAI:
    """Returns OpenAI's client, used for every server with OpenAI's protocol."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(
        base_url=address, api_key=spec.api_key or NO_KEY, http_client=http, timeout=http.timeout, max_retries=0
    )


def _anthropic_client(spec: ModelSpec, address: str, http: httpx2.AsyncClient) -> AsyncAnthropic:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(
        base_url=address, api_key=spec.api_key or NO_KEY, http_client=http, timeout=http.timeout, max_retries=0
    )


def _bedrock_client(spec: ModelSpec) -> Any:
    """Returns boto3's client. Raises ConfigurationError for a missing or invalid region or profile."""
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.exceptions import InvalidRegionError, NoRegionError, ProfileNotFound  # type: ignore[import-untyped]

    config = Config(
        connect_timeout=min(CONNECT_SECONDS, spec.timeout_seconds),
        read_timeout=spec.timeout_seconds,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=2 * IDLE_CONNECTIONS,
    )
    try:
        session = boto3.Session(botocore_session=_late_session(), region_name=bedrock_region(spec))
        return session.client("bedrock-runtime", config=config, endpoint_url=spec.base_url)
    except (NoRegionError, InvalidRegionError) as error:
        raise ConfigurationError(
            f"The model {spec.label} needs an AWS region, such as eu-central-1.",
            hint="Set providers.bedrock.region or AWS_REGION.",
        ) from error
    except ProfileNotFound as error:
        raise ConfigurationError(
            f"The AWS profile for the model {spec.label} does not exist.", hint="Check AWS_PROFILE."
        ) from error


def _late_session() -> Any:
    """Returns a session that looks up credentials when the first request is signed, in the request's thread.

    The lookup may use the network. Outside AWS it waits for a response that never arrives.
    """
    from botocore.credentials import Credentials, ReadOnlyCredentials  # type: ignore[import-untyped]
    from botocore.exceptions import NoCredentialsError
    from botocore.session import Session  # type: ignore[import-untyped]

    class LateCredentials(Credentials):  # type: ignore[misc]
        def __init__(self, session: Session) -> None:
            super().__init__("", "", method="late")
            self._session = session
            self._lock = threading.Lock()

        def get_frozen_credentials(self) -> ReadOnlyCredentials:
            with self._lock:
                found = Session.get_credentials(self._session)  # cached by the session
            if found is None:
                raise NoCredentialsError
            return found.get_frozen_credentials()

        def get_deferred_property(self, property_name: str) -> Any:
            return lambda: getattr(self.get_frozen_credentials(), property_name, None)

    class LateSession(Session):  # type: ignore[misc]
        def get_credentials(self) -> Credentials:
            return LateCredentials(self)

    return LateSession()
