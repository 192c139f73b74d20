"""Errors of the libraries below pydantic-ai that come out as they are, known without loading those libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

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
"""What botocore raises when it finds nothing to sign a request with."""


def is_transport_error(error: BaseException) -> bool:
    """Whether an error comes from what carries requests."""
    return _library(error) in _TRANSPORTS


def lacks_credentials(error: BaseException) -> bool:
    """Whether AWS's credentials were not found."""
    return _library(error) == "botocore" and not _CREDENTIALS.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def timed_out(error: BaseException) -> bool:
    """Whether an error of what carries requests is that of waiting too long."""
    return is_transport_error(error) and any("Timeout" in kind.__name__ for kind in type(error).__mro__)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _library(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]
