"""The settings of channels."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, JsonValue, field_validator

from swarm.config.section import Section
from swarm.domain.access import BOT_MESSAGES_PER_HOUR, External, Listen
from swarm.domain.answers.calls import TaskDisplay
from swarm.domain.prompts.client_context import OWN_KEYS


class ChannelSettings(Section):
    """The settings of one channel, or the defaults for all channels."""

    agent: str | None = Field(None, description="an agent's name; without it the default lead")
    enabled: bool = True
    listen: Listen = Field(
        Listen.MENTION, description="mention, all (people's root messages), bots (allowed bots' posts only)"
    )
    allowed_users: frozenset[str] | None = Field(None, description="user ids; null allows everybody")
    allowed_bots: frozenset[str] = Field(frozenset(), description="bot ids (B…) or bot users' ids (U…)")
    bot_messages_per_hour: int = Field(
        BOT_MESSAGES_PER_HOUR, ge=1, le=1_000, description="messages of bots that agents get per thread and hour"
    )
    external: External = Field(
        External.DENY, description="deny, or allow: guests and people of other workspaces reach agents"
    )
    display: TaskDisplay = Field(TaskDisplay.PLAN, description="how tools and plans are shown: plan, or timeline")
    client_context: Mapping[str, JsonValue] = Field(
        default_factory=dict, description="keys of your own for the agent's client context, to shape its style"
    )
    share_email: bool = Field(False, description="tell the agent the e-mail address of who asks")

    @field_validator("client_context")
    @classmethod
    def _are_their_own(cls, extra: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        if taken := sorted(OWN_KEYS & set(extra)):
            raise ValueError(f"'{taken[0]}' is set by swarm itself; keys of your own are expected")
        return extra
