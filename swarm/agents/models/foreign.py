"""Errors of the libraries below pydantic-ai that are not wrapped, recognised without loading these libraries."""

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
"""Errors of botocore without credentials to sign a request."""


def is_transport_error(error: BaseException) -> bool:
    """Whether an error comes from a transport library."""
    return _library(error) in _TRANSPORTS


def lacks_credentials(error: BaseException) -> bool:
    """Whether AWS's credentials were not found."""
    return _library(error) == "botocore" and not _CREDENTIALS.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def timed_out(error: BaseException) -> bool:
    """Whether an error is a timeout of a transport library."""
    return is_transport_error(error) and any("Timeout" in kind.__name__ for kind in type(error).__mro__)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields the error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _library(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]
