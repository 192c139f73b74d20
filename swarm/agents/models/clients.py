"""Creates the providers' clients, configured to neither hang nor repeat requests.

Requests are not repeated here, because retries are handled in one place for all providers (`in_order`).
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final

import httpx2

from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import ModelSpec

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


def open_http(spec: ModelSpec, address: str) -> httpx2.AsyncClient:
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


def openai_client(spec: ModelSpec, address: str, http: httpx2.AsyncClient) -> AsyncOpenAI:
    """Returns OpenAI's client, used for every server with OpenAI's protocol."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(
        base_url=address, api_key=spec.api_key or NO_KEY, http_client=http, timeout=http.timeout, max_retries=0
    )


def anthropic_client(spec: ModelSpec, address: str, http: httpx2.AsyncClient) -> AsyncAnthropic:
    """Returns Anthropic's client."""
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(
        base_url=address, api_key=spec.api_key or NO_KEY, http_client=http, timeout=http.timeout, max_retries=0
    )


def bedrock_region(spec: ModelSpec) -> str | None:
    """Returns the configured region, or AWS_REGION, which most AWS programs read but boto3 does not."""
    return spec.region or os.environ.get("AWS_REGION")


def bedrock_client(spec: ModelSpec) -> Any:
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
