"""What an agent is told about where a message comes from: it shapes the answer, and is never part of the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.threads import ChannelType
from swarm.domain.text.mrkdwn import readable

SOURCE: Final = "slack"

THREAD_CONTEXT: Final = "thread_context"
"""What was said in the thread before, as text: for agents that have no other place for it."""

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
"""The keys that the coordinator sets itself, and that no channel's own may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelFacts:
    """What Slack says about a channel; empty where it says nothing, or cannot be asked."""

    name: str = ""  # without #
    topic: str = ""  # as Slack writes it, with its entities and links
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
    """The ``client_context`` of a run, as JSON values. Keys that do not apply are absent: no null, no empty text.

    ``user_email`` is for channels that share it (`ChannelPolicy.share_email`). ``extra`` are the channel's own keys
    (`ChannelPolicy.client_context`); none takes the place of the coordinator's, absent ones included. The name is a
    channel's only: that of a group is made up by Slack out of its members, and a direct message has none.
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
