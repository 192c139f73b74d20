"""Leases: the temporary right to work on a trigger, a row with a secret token; and the number of attempts.

Renewing or ending work requires the token; a token whose lease was ended changes nothing (``lease_lost``). At most
one active *work* lease exists per thread and agent, which keeps two runs of one agent out of the same conversation.
Notices also have leases, but never take that lock.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Final

LEASE_SECONDS: Final = 60
"""The default duration of a lease without renewal."""

KEY_PREFIX: Final = "swarm_lease_"
"""How the key of a lease begins. It tells keys from agents' tokens, of which one in 69 billion begins so."""

KEY_LINGERS_SECONDS: Final = 60
"""For so long after the end of a lease its key is answered with ``lease_lost``, and then not known any more."""

MAX_MESSAGE_ATTEMPTS: Final = 5
"""A message is dead-lettered after its leases were lost this many times."""

MAX_TASK_ATTEMPTS: Final = 5
"""A task is dead-lettered after its leases were lost this many times."""

NOTICE_ATTEMPTS: Final = 5
"""A notice is dropped and recorded after its leases were lost this many times. Nothing is posted in the thread."""


MOST_INTERRUPTIONS: Final = 20
"""Work is set aside after the coordinator has died this many times while it ran. These are not counted as attempts."""

_PAUSES_SECONDS: Final = (0, 0, 30, 120, 600)
_FAILURE_PAUSES_SECONDS: Final = (1, 5, 20, 60)

MOST_PROLONGED: Final = 3
"""So often the sweep prolongs a lease without a sign of its agent, when the agent may have been unable to renew."""


class LeaseKind(StrEnum):
    """The kind of a lease, which determines whether it locks its thread."""

    WORK = "work"
    NOTICE = "notice"


class LockKind(StrEnum):
    """The kind of a lock, which is held by one process or run at a time."""

    OFFICE = "office"  # work that only one coordinator process does
    CONVERSATION = "conversation"  # with a built-in agent


class LeaseEnd(StrEnum):
    """How a lease ended."""

    RESOLVED = "resolved"  # a tool answered, delegated or dismissed its last message
    FINISHED = "finished"  # the agent reported success
    FAILED = "failed"  # the agent reported a failure
    RELEASED = "released"  # given back; no attempt counted
    EXPIRED = "expired"  # ended by the sweep, or with a lost run; an attempt or an interruption counted
    REVOKED = "revoked"  # the agent was removed
    CANCELLED = "cancelled"  # its task was cancelled or reassigned


class FinishOutcome(StrEnum):
    """The agent's report when it finishes a lease."""

    DONE = "done"
    DISMISSED = "dismissed"
    FAILED = "failed"


def pause_after(interruptions: int) -> int:
    """Returns the seconds for which work waits after the coordinator has died so often while it ran: it may have been
    killed by the work.
    """
    return _PAUSES_SECONDS[min(interruptions, len(_PAUSES_SECONDS)) - 1]


def pause_after_failure(attempts: int) -> int:
    """Returns the seconds for which work waits after its agent has reported so many failures."""
    return _FAILURE_PAUSES_SECONDS[min(attempts, len(_FAILURE_PAUSES_SECONDS)) - 1]


def new_token() -> str:
    """Returns a lease token: 128 random bits."""
    return secrets.token_urlsafe(16)


def new_key() -> str:
    """Returns the key of a lease: 256 random bits."""
    return KEY_PREFIX + secrets.token_urlsafe(32)
