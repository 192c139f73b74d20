"""Leases: the right to work on a trigger, for a while.

A lease is a row with a secret token. Whoever ends or renews work names the token; a token that no longer holds
changes nothing (``lease_lost``). At most one active *work* lease exists per thread and agent, which is what keeps two
runs of one agent out of the same conversation. Notices have leases too, but never take that lock.
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
    """How a lease came to its end."""

    RESOLVED = "resolved"  # its last message was answered, delegated or dismissed by a tool
    FINISHED = "finished"  # the agent said so
    FAILED = "failed"  # the agent said that it failed
    RELEASED = "released"  # given back; no attempt counted
    EXPIRED = "expired"  # not renewed in time; one attempt counted
    REVOKED = "revoked"  # the agent was removed
    CANCELLED = "cancelled"  # its task was cancelled, or given to somebody else


class FinishOutcome(StrEnum):
    """What an agent says of its work when it finishes."""

    DONE = "done"
    DISMISSED = "dismissed"
    FAILED = "failed"


def new_token() -> str:
    """A lease token: 128 random bits, so that it cannot be guessed."""
    return secrets.token_urlsafe(16)
