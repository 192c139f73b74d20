"""Threads: one Slack conversation, its owner, and how much of it we know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from swarm.domain.model.transcript import ChannelType, ContextState

OWNED_FOR_IDLE_DAYS: Final = 7
"""Ownership of a thread ends after so many days without a message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """A thread that the swarm takes part in."""

    id: str
    team: str
    channel: str
    thread_ts: str
    channel_type: ChannelType
    owner_id: str | None
    epoch: int  # counts the changes of owner
    context: ContextState
    told_queued_at: int | None  # when the thread was told that nobody is there; None once it was answered
    watermark_ts: str  # what was said later than this and was not routed was missed
