"""Agents: programs with a token and a role."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from swarm.clock import SECOND
from swarm.domain.errors import Invalid

MOST_AGENTS: Final = 2_000
"""So many agents may be registered at once."""

MOST_ENROLLED: Final = 100
"""With so many workers, an enrolment key registers no further one: who has stolen it does not fill the room."""

OFFLINE_AFTER_SECONDS: Final = 120
SEEN_EVERY_SECONDS: Final = 30
"""Last seen is written at most so often: a heartbeat is not worth a write per poll."""

_NAME = re.compile(r"[a-z0-9-]{1,32}")
_RESERVED_NAMES: Final = frozenset({"all", "swarm"})  # swarm#all addresses everybody; swarm is the coordinator


class Role(StrEnum):
    """A lead reads, answers and delegates; a worker does what it is given."""

    LEAD = "lead"
    WORKER = "worker"


class Reach(StrEnum):
    """How an agent gets its work."""

    POLLING = "polling"  # it asks for it, with a token
    AGUI = "agui"  # the coordinator calls it, over AG-UI
    BUILTIN = "builtin"  # it runs inside the coordinator


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """A registered agent, without its token."""

    id: str
    name: str
    role: Role
    description: str
    capabilities: tuple[str, ...]
    created_at: int  # microseconds since 1970 UTC
    last_seen_at: int | None
    reach: Reach = Reach.POLLING
    enrolled: bool = False  # registered with an enrolment key
    token_hash: str | None = field(default=None, repr=False, compare=False)  # of the token by which it was known

    def online(self, now: int, offline_after_seconds: float, started_at: int) -> bool:
        """Whether the agent is there: see `is_online`."""
        return is_online(self.last_seen_at, now, offline_after_seconds, started_at)


def is_online(last_seen_at: int | None, now: int, offline_after_seconds: float, started_at: int) -> bool:
    """Whether an agent has polled or renewed lately; an agent that never did is offline.

    What happened while no coordinator ran (before ``started_at``) does not count: nobody could poll then.
    """
    return last_seen_at is not None and now - max(last_seen_at, started_at) < offline_after_seconds * SECOND


def check_name(name: str) -> str:
    """The name itself, if an agent may have it; otherwise raises Invalid."""
    if not _NAME.fullmatch(name) or name in _RESERVED_NAMES:
        raise Invalid(
            f"'{name}' cannot be an agent's name.",
            hint="Use 1 to 32 of a-z, 0-9 and '-'; 'all' and 'swarm' are reserved.",
            fields={"name": "1 to 32 characters of a-z, 0-9 and '-', not 'all' or 'swarm'"},
        )
    return name


def new_agent_token() -> str:
    """A bearer token: 256 random bits, shown once."""
    return "swarm_" + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """What is stored of a token. The token is random, so a fast hash is enough and keeps polls cheap."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
