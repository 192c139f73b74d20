"""The error tree. A class's docstring is its default message; only entry points translate errors."""

from __future__ import annotations

from collections.abc import Mapping

from swarm_base.errors import ConfigurationError as ConfigurationError
from swarm_base.errors import SwarmError as SwarmError
from swarm_base.errors import Unavailable as Unavailable


class BadRequest(SwarmError):
    """The request cannot be parsed."""

    code = "bad_request"
    status = 400


class Unauthorized(SwarmError):
    """A valid bearer token is required."""

    code = "unauthorized"
    status = 401


class TokenEnded(Unauthorized):
    """This bearer token is no longer valid: its agent has a new one, or was removed."""


class Forbidden(SwarmError):
    """This token may not do that."""

    code = "forbidden"
    status = 403


class NotRead(Forbidden):
    """Not everything that is decided was shown: press Read and decide."""


class NotFound(SwarmError):
    """The object does not exist, or belongs to another owner."""

    code = "not_found"
    status = 404


class RefusedBySlack(NotFound):
    """A read that Slack refused."""

    def __init__(self, slack_code: str) -> None:
        super().__init__(f"Slack answers {slack_code}.")
        self.slack_code = slack_code


class Conflict(SwarmError):
    """The current state does not allow this."""

    code = "conflict"
    status = 409


class Outdated(Conflict):
    """This has changed since you saw it, so your decision does not count. Read the card again, then decide."""


class LeaseLost(Conflict):
    """This lease is no longer valid: another run has the work, or the work has ended. Stop working on it."""

    code = "lease_lost"


class Withdrawn(Conflict):
    """The message was deleted in Slack, so it cannot be answered."""

    code = "withdrawn"


class Unresolved(Conflict):
    """Some messages of this lease have no answer yet."""

    code = "unresolved"


class TooLarge(SwarmError):
    """The request is too large."""

    code = "too_large"
    status = 413


class Invalid(SwarmError):
    """Some values are invalid."""

    code = "invalid"
    status = 422

    def __init__(self, message: str | None = None, *, hint: str | None = None, fields: Mapping[str, str] | None = None):
        super().__init__(message, hint=hint)
        self.fields = dict(fields or {})  # field name -> expected value


class RateLimited(SwarmError):
    """Too many requests; try again later."""

    code = "rate_limited"
    status = 429

    def __init__(self, message: str | None = None, *, retry_after_seconds: float, hint: str | None = None):
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class OutcomeUnknown(Unavailable):
    """The connection broke while the change was being committed, so it may or may not have happened."""
