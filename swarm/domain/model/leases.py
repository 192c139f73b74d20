"""Leases: the temporary right to work on a trigger.

A lease is a row with a secret token. Renewing or ending work requires the token; a token that is no longer valid
changes nothing (``lease_lost``). Per thread and agent at most one active *work* lease exists, which keeps two runs of
one agent out of the same conversation. Notices have leases too, but never take that lock.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Final

LEASE_SECONDS: Final = 60


class LeaseKind(StrEnum):
    """Whether a lease locks its thread."""

    WORK = "work"
    NOTICE = "notice"


class LeaseEnd(StrEnum):
    """How a lease ended."""

    RESOLVED = "resolved"  # its last message was answered, delegated or dismissed by a tool
    FINISHED = "finished"  # the agent reported success
    FAILED = "failed"  # the agent reported a failure
    RELEASED = "released"  # given back; no attempt counted
    EXPIRED = "expired"  # not renewed in time; one attempt counted
    REVOKED = "revoked"  # the agent was removed
    CANCELLED = "cancelled"  # its task was cancelled or reassigned


class FinishOutcome(StrEnum):
    """The agent's report when it finishes a lease."""

    DONE = "done"
    DISMISSED = "dismissed"
    FAILED = "failed"


def new_token() -> str:
    """A lease token: 128 random bits."""
    return secrets.token_urlsafe(16)
