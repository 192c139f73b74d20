"""The context of a message for an agent: its source, channel and requester. It is never part of the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.threads import ChannelType
from swarm.domain.text.mrkdwn import readable

SOURCE: Final = "slack"

THREAD_CONTEXT: Final = "thread_context"
"""The thread's earlier messages as text, for agents without another place for them."""

OWN_KEYS: Final = frozenset(
    {
        "source",
        "channel_type",
        "channel_name",
        "channel_topic",
        "channel_purpose",
        "user_email",
        "overthink",
        "humble_followup",
        "started_by",
        THREAD_CONTEXT,
    }
)
"""The keys that the coordinator sets; a channel's own keys may not use them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelFacts:
    """Slack's description of a channel; empty fields are unknown."""

    name: str = ""  # without #
    topic: str = ""  # in Slack's format, with entities and links
    purpose: str = ""


NOTHING_KNOWN: Final = ChannelFacts()


def client_context(
    *,
    channel_type: ChannelType,
    facts: ChannelFacts = NOTHING_KNOWN,
    user_email: str | None = None,
    overthink: bool = False,
    humble_followup: bool = False,
    by_strangers: bool = False,
    extra: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Returns the ``client_context`` of a run, as JSON values. Keys that do not apply are absent, never null or empty.

    ``user_email`` is for channels that share it (`ChannelPolicy.share_email`). ``extra`` are the channel's own keys
    (`ChannelPolicy.client_context`); they never replace the coordinator's keys, even absent ones. Only channels have a
    name: Slack makes up a group's from its members, and a direct message has none.
    """
    is_channel = channel_type is ChannelType.CHANNEL
    own: dict[str, object] = {
        "source": SOURCE,
        "channel_type": channel_type.value,
        "channel_name": f"#{facts.name.removeprefix('#')}" if is_channel and facts.name else None,
        "channel_topic": readable(facts.topic, {}).strip(),
        "channel_purpose": readable(facts.purpose, {}).strip(),
        "user_email": user_email,
        "overthink": overthink or None,
        "humble_followup": humble_followup or None,
        "started_by": "strangers" if by_strangers else None,
        THREAD_CONTEXT: None,  # put in when the run begins
    }
    return {key: value for key, value in {**(extra or {}), **own}.items() if value not in (None, "")}
