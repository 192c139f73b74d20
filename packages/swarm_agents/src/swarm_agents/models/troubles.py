"""Explains errors of models, each as one user-facing sentence with a code.

No text from a provider is repeated, because it may contain user messages, addresses, or parts of a key. Unwrapped
errors of the libraries used by pydantic-ai are recognised without importing these libraries.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from pydantic_ai.exceptions import (
    ConcurrencyLimitExceeded,
    ContentFilterError,
    FallbackExceptionGroup,
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
    RunTimedOut,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.messages import ModelResponse

from swarm.agents.failures import NO_ANSWER, unreached
from swarm.domain.model.language_models import ModelSpec, Provider

SIGNED: Final = "swarm_model"
"""The key of the model's name in a response's metadata."""

_SPEC: Final = "_swarm_spec"

_NOW: Final = "; try again in a moment"
_OPERATOR: Final = "; the operator has to fix this"
_SHORTER: Final = "; start a new conversation, or ask for less at once"


class Passed(ModelAPIError):
    """The model was not asked, because it could not be reached a short time ago."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelTrouble:
    """The reason why a model did not answer."""

    message: str  # one user-facing sentence, or several if several models were asked
    code: str  # see `TROUBLES`
    is_lasting: bool = False  # retrying will not help, only another key, model or region
    is_limit: bool = False  # a limit of the operator has ended the run
    limit: str = ""  # the name of that limit in `RunLimits`, which words it; empty if unknown
    model: str = ""  # "provider:name"; empty if unknown


TROUBLES: Final[Mapping[str, str]] = {
    "authentication": f"refuses our key{_OPERATOR}",
    "credentials": f"needs AWS credentials, and none were found{_OPERATOR}",
    "region": f"cannot be reached: the configured region does not offer it{_OPERATOR}",
    "not_found": f"is unknown at its address, or not available to us{_OPERATOR}",
    "quota": f"refuses to answer, because our account with its provider has no credit left{_OPERATOR}",
    "rate_limit": f"is receiving too many requests right now{_NOW}",
    "overloaded": f"is overloaded right now{_NOW}",
    "unavailable": f"is not available right now{_NOW}",
    "server": f"has an internal error right now{_NOW}",
    "timeout": f"did not answer in time{_NOW}",
    "connection": f"broke off its answer{_NOW}",  # or could not be reached, see `_connection`
    "context_window": f"cannot process a conversation this long{_SHORTER}",
    "refused": "declines to answer this; rephrase it",
    "output_limit": f"did not finish its answer, which became too long{_SHORTER}",
    "rejected": "does not accept this request; rephrase it, or start a new conversation",
    "incomprehensible": f"answered in a way that could not be understood{_NOW}",
    "busy": f"has too many questions waiting{_NOW}",
    "cancelled": "was stopped",
    "internal": "could not be asked: something went wrong on our side",
}
"""The meaning of each code, as a continuation of "The model …". The code "limit" is worded by `RunLimits`."""

_LASTING: Final = frozenset({"authentication", "credentials", "region", "not_found"})

_LIMITS: Final[Mapping[str, str]] = {
    "request_limit": "requests",
    "total_tokens_limit": "tokens",
    "tool_calls_limit": "tool_calls",
    "cost_limit": "cost_dollars",
}
_LIMIT: Final = re.compile(rf"({'|'.join(_LIMITS)})`? of -?[\d.]")

_SIGNATURE: Final = re.compile(rf'"{SIGNED}":\s*"([^"\\]+)"')


def trouble_of(error: BaseException, specs: Sequence[ModelSpec] = ()) -> ModelTrouble:
    """Explains an error of a run or of a model request.

    ``specs`` are the models that were asked. An error without a model's name is attributed to the only model, if there
    is just one.
    """
    if isinstance(error, FallbackExceptionGroup):
        return _of_several(error, specs)
    if isinstance(error, UsageLimitExceeded):
        return _limit(error)
    if isinstance(error, RunTimedOut):
        return _limited("seconds")
    code = _code_of(error)
    model = _model(error) or (specs[0].label if len(specs) == 1 else "")
    return ModelTrouble(message=_sentence(error, code, model), code=code, is_lasting=code in _LASTING, model=model)


def _model(error: BaseException) -> str:
    """Returns the name of the model recorded in an error; empty if unknown."""
    for cause in _causes(error):
        if spec := spec_of(cause):
            return spec.label
        if isinstance(cause, ModelAPIError):
            return cause.model_name
        # pydantic-ai repeats the model's answer in these errors.
        if isinstance(cause, UnexpectedModelBehavior) and (found := _SIGNATURE.search(cause.body or "")):
            return found[1]
    return ""


def _sentence(error: BaseException, code: str, model: str) -> str:
    words = TROUBLES[code]
    if code == "connection":
        words = _connection(error)
    elif code == "rate_limit" and isinstance(error, ModelAPIError) and error.retry_after:
        words = words.replace("in a moment", _soon(error.retry_after))
    return f"The model {model} {words}." if model else f"The model {words}."


def _connection(error: BaseException) -> str:
    reason = unreached(error) if isinstance(error, Exception) else NO_ANSWER
    if reason != NO_ANSWER and not isinstance(error, Passed):
        return f"cannot be reached: {reason}"
    if isinstance(error, Passed) or getattr(error, "phase", None) in ("connect", "pool") or _never_connected(error):
        return f"cannot be reached{_NOW}"
    return TROUBLES["connection"]


def _never_connected(error: BaseException) -> bool:
    return type(error).__name__ in ("EndpointConnectionError", "ConnectError", "ProxyConnectionError")


def _soon(seconds: float) -> str:
    if seconds < 90:
        return f"in {max(1, round(seconds))} s"
    return f"in {round(seconds / 60)} minutes" if seconds < 5400 else "later"


def _of_several(group: FallbackExceptionGroup, specs: Sequence[ModelSpec]) -> ModelTrouble:
    """Combines the problems of the last attempt at each model."""
    by_model = {trouble.model: trouble for trouble in (trouble_of(leaf, specs) for leaf in _leaves(group))}
    *others, last = by_model.values()
    if not others:
        return last
    return ModelTrouble(
        message=" ".join(trouble.message for trouble in by_model.values()),
        code=last.code,
        is_lasting=all(trouble.is_lasting for trouble in by_model.values()),
        model=last.model,
    )


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return leaves


def _limit(error: UsageLimitExceeded) -> ModelTrouble:
    """Explains the limit named by pydantic-ai."""
    found = _LIMIT.search(error.message)
    return _limited(_LIMITS[found[1]] if found else "")


def _limited(limit: str) -> ModelTrouble:
    return ModelTrouble(
        message="This took more than a limit allows (limits).", code="limit", is_limit=True, limit=limit
    )


def sign(error: Exception, spec: ModelSpec) -> None:
    """Records the model in an error. An error that already names a model is unchanged."""
    if not hasattr(error, _SPEC):
        setattr(error, _SPEC, spec)


def spec_of(error: BaseException) -> ModelSpec | None:
    """Returns the model recorded in an error; None if unknown."""
    spec = getattr(error, _SPEC, None)
    return spec if isinstance(spec, ModelSpec) else None


def label_of(response: ModelResponse) -> str:
    """Returns the label of the model that answered: "provider:name" as configured, or the provider's name for it if
    none is recorded.
    """
    signed = (response.metadata or {}).get(SIGNED)
    return str(signed) if signed else ":".join(filter(None, (response.provider_name, response.model_name)))


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
"""More specific types come first."""

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
"""Error messages of servers that pydantic-ai does not know, such as llama.cpp."""


def is_refusal(error: BaseException) -> bool:
    """Returns whether a provider, or its filter, refused to answer."""
    return _says(error, _REFUSALS)


def _says(error: BaseException, words: Iterable[str]) -> bool:
    """Returns whether a request was rejected with one of these phrases."""
    if not isinstance(error, ModelAPIError) or not _is_bad_request(error):
        return False
    said = f"{error.provider_error_code} {error.body}".lower()
    return any(word in said for word in words)


def _is_bad_request(error: ModelAPIError) -> bool:
    return isinstance(error, ModelRequestRejectedError) or getattr(error, "status_code", None) == 403


def _code_of(error: BaseException) -> str:
    """Returns the code for an error of a single model, see `TROUBLES`."""
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
    if _lacks_credentials(error):
        return "credentials"
    if is_transport_error(error):
        return "timeout" if _timed_out(error) else "connection"
    return "incomprehensible" if isinstance(error, ModelAPIError) else "internal"


def _of_status(status: int) -> str:
    """Returns the code for an HTTP status that pydantic-ai does not classify, such as a redirect, which is not
    followed.
    """
    if status < 400:
        return "incomprehensible"
    return _STATUSES.get(status, "rejected" if status < 500 else "server")


def _is_region(error: BaseException) -> bool:
    """Returns whether an AWS address does not exist, in a region that boto3 does not know."""
    spec = spec_of(error)
    if spec is None or spec.provider is not Provider.BEDROCK or spec.base_url or not isinstance(error, ModelAPIError):
        return False
    return _has_no_address(error) and not _is_known_region(spec)


def _has_no_address(error: BaseException) -> bool:
    return any(isinstance(cause, socket.gaierror) for cause in _causes(error))


def _is_known_region(spec: ModelSpec) -> bool:
    region = bedrock_region(spec)
    return region is None or region in _regions()  # a region from AWS's own configuration is assumed to be valid


def bedrock_region(spec: ModelSpec) -> str | None:
    """Returns the configured region, or AWS_REGION, which most AWS programs read but boto3 does not."""
    return spec.region or os.environ.get("AWS_REGION")


@cache
def _regions() -> frozenset[str]:
    """Returns all regions in which boto3 lists Bedrock."""
    import boto3  # type: ignore[import-untyped]

    session = boto3.Session()
    partitions = session.get_available_partitions()
    return frozenset(region for part in partitions for region in session.get_available_regions("bedrock", part))


_TRANSPORTS: Final = frozenset({"httpx2", "httpcore2", "botocore", "boto3", "urllib3"})

_CREDENTIALS: Final = frozenset(
    {
        "CredentialRetrievalError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "SSOError",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
"""Errors that botocore raises without credentials to sign a request."""


def is_transport_error(error: BaseException) -> bool:
    """Returns whether an error comes from a transport library."""
    return _library(error) in _TRANSPORTS


def _lacks_credentials(error: BaseException) -> bool:
    """Returns whether AWS credentials were not found."""
    return _library(error) == "botocore" and not _CREDENTIALS.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def _timed_out(error: BaseException) -> bool:
    """Returns whether an error is a timeout of a transport library."""
    return is_transport_error(error) and any("Timeout" in kind.__name__ for kind in type(error).__mro__)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _library(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]
