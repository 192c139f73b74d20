"""The code of an error, one of the keys of `troubles`."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from pydantic_ai.exceptions import (
    ConcurrencyLimitExceeded,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    OutputTokenLimitExceeded,
    RunCancelled,
    UnexpectedModelBehavior,
)

from swarm.agents.models.foreign import causes, is_transport_error, lacks_credentials, timed_out
from swarm.agents.models.served import Passed, spec_of
from swarm.domain.model.models import ModelSpec, Provider

_CODES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (ModelContextWindowExceededError, "context_window"),
    (ModelNotFoundError, "not_found"),
    (ModelAuthenticationError, "authentication"),
    (ModelQuotaExceededError, "quota"),
    (ModelRateLimitError, "rate_limit"),
    (ModelOverloadedError, "overloaded"),
    (ModelUnavailableError, "unavailable"),
    (ModelServerError, "server"),
    (ModelRequestTimeout, "timeout"),
    (ModelTimeoutError, "timeout"),
    (ModelConnectionError, "connection"),
    (ContentFilterError, "refused"),
    (OutputTokenLimitExceeded, "output_limit"),
    (Passed, "connection"),
    (ModelRequestRejectedError, "rejected"),
    (UnexpectedModelBehavior, "incomprehensible"),
    (ConcurrencyLimitExceeded, "busy"),
    (RunCancelled, "cancelled"),
    (TimeoutError, "timeout"),
)
"""More specific kinds come first."""

_STATUSES: Final[Mapping[int, str]] = {
    402: "quota",
    405: "not_found",
    408: "timeout",
    409: "unavailable",
    413: "context_window",
    424: "server",
    425: "unavailable",
    426: "rejected",
}

_REFUSALS: Final = ("content_filter", "content_policy_violation", "content filtering policy", "guardrail")

_TOO_LONG: Final = ("exceed_context_size", "context length", "context window", "context size")
"""Wordings of servers that pydantic-ai does not know, such as llama.cpp's."""


def is_refusal(error: BaseException) -> bool:
    """Whether a provider, or its filter, refuses to answer."""
    return _says(error, _REFUSALS)


def _says(error: BaseException, words: Iterable[str]) -> bool:
    """Whether a request was turned down with one of these words."""
    if not isinstance(error, ModelAPIError) or not _is_bad_request(error):
        return False
    said = f"{error.provider_error_code} {error.body}".lower()
    return any(word in said for word in words)


def _is_bad_request(error: ModelAPIError) -> bool:
    return isinstance(error, ModelRequestRejectedError) or getattr(error, "status_code", None) == 403


def code_of(error: BaseException) -> str:
    """Returns the code of an error of a single model, see `swarm.agents.models.troubles.TROUBLES`."""
    if is_refusal(error):
        return "refused"
    if _says(error, _TOO_LONG):
        return "context_window"
    if _is_region(error):
        return "region"
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    if isinstance(error, ModelHTTPError):
        return _of_status(error.status_code)
    if lacks_credentials(error):
        return "credentials"
    if is_transport_error(error):
        return "timeout" if timed_out(error) else "connection"
    return "incomprehensible" if isinstance(error, ModelAPIError) else "internal"


def _of_status(status: int) -> str:
    """Returns the code of an HTTP status that pydantic-ai does not classify; redirects, for one, are not followed."""
    if status < 400:
        return "incomprehensible"
    return _STATUSES.get(status, "rejected" if status < 500 else "server")


def _is_region(error: BaseException) -> bool:
    """Whether an address of AWS does not exist, in a region that boto3 does not know either."""
    spec = spec_of(error)
    if spec is None or spec.provider is not Provider.BEDROCK or spec.base_url or not isinstance(error, ModelAPIError):
        return False
    return _has_no_address(error) and not _is_known_region(spec)


def _has_no_address(error: BaseException) -> bool:
    return any(isinstance(cause, socket.gaierror) for cause in causes(error))


def _is_known_region(spec: ModelSpec) -> bool:
    from swarm.agents.models.clients import bedrock_region

    region = bedrock_region(spec)
    return region is None or region in _regions()  # a region from AWS's own configuration is taken as valid


@cache
def _regions() -> frozenset[str]:
    """Returns all regions in which boto3 knows Bedrock."""
    import boto3  # type: ignore[import-untyped]

    session = boto3.Session()
    partitions = session.get_available_partitions()
    return frozenset(region for part in partitions for region in session.get_available_regions("bedrock", part))
