"""How the swarm behaves: what the operator has decided, defaults filled in, as the use cases need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm.domain.access import ChannelPolicy
from swarm.domain.agents import OFFLINE_AFTER_SECONDS
from swarm.domain.inbox import REACTION_ANSWERED, REACTION_FAILED, REACTION_STORED
from swarm.domain.leases import LEASE_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Reactions:
    """The emoji that show a message's state; None switches one off."""

    stored: str | None = REACTION_STORED
    answered: str | None = REACTION_ANSWERED
    failed: str | None = REACTION_FAILED


@dataclass(frozen=True, kw_only=True, slots=True)
class Conduct:
    """The operator's decisions. ``channels`` is keyed by channel id."""

    default_agent: str | None = None  # a lead's name; None: the oldest lead that is online
    offline_after_seconds: float = OFFLINE_AFTER_SECONDS
    lease_seconds: float = LEASE_SECONDS
    started_at: int = 0  # microseconds; when this coordinator began to listen
    reactions: Reactions = field(default_factory=Reactions)
    channels: Mapping[str, ChannelPolicy] = field(default_factory=dict)
    everywhere: ChannelPolicy = field(default_factory=ChannelPolicy)

    def policy(self, channel: str) -> ChannelPolicy:
        """What holds in a channel."""
        return self.channels.get(channel, self.everywhere)
