"""What an agent is told of where a message comes from: what applies, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.model.threads import Author, AuthorKind, ChannelType
from swarm.domain.prompts.input import OWN_KEYS, ChannelFacts, client_context

pytestmark = pytest.mark.req("CHAN-03")

GENERAL = ChannelFacts(name="general", topic="everything", purpose="to talk")

ALICE = Author(id="U1", kind=AuthorKind.USER, name="alice")

words = st.text(max_size=5)
json_values = st.none() | st.booleans() | st.integers() | words | st.lists(words, max_size=2)
situations = st.fixed_dictionaries(
    {
        "channel_type": st.sampled_from(ChannelType),
        "facts": st.builds(ChannelFacts, name=words, topic=words, purpose=words),
        "user": st.none() | st.just(ALICE),
        "user_email": st.none() | words,
        "overthink": st.booleans(),
        "humble_followup": st.booleans(),
        "extra": st.dictionaries(words | st.sampled_from(sorted(OWN_KEYS)), json_values, max_size=4),
    }
)


def test_all_that_applies_is_told() -> None:
    assert client_context(
        channel_type=ChannelType.CHANNEL,
        facts=GENERAL,
        user=ALICE,
        user_email="alice@example.org",
        overthink=True,
        humble_followup=True,
        extra={"tone": "short"},
    ) == {
        "source": "slack",
        "user": {"id": "U1", "name": "alice"},
        "channel_type": "channel",
        "channel_name": "#general",
        "channel_topic": "everything",
        "channel_purpose": "to talk",
        "user_email": "alice@example.org",
        "overthink": True,
        "humble_followup": True,
        "tone": "short",
    }


@pytest.mark.parametrize("channel_type", ChannelType)
def test_what_does_not_apply_is_absent(channel_type: ChannelType) -> None:
    assert client_context(channel_type=channel_type) == {"source": "slack", "channel_type": channel_type.value}


@pytest.mark.parametrize("channel_type", [ChannelType.DM, ChannelType.GROUP])
def test_only_a_channel_has_a_name_that_people_know(channel_type: ChannelType) -> None:
    assert "channel_name" not in client_context(channel_type=channel_type, facts=GENERAL)


def test_a_topic_and_a_purpose_read_as_people_see_them() -> None:
    facts = ChannelFacts(topic=" R&amp;D, see <#C2|random> ", purpose="<https://a.example|our page>")
    context = client_context(channel_type=ChannelType.CHANNEL, facts=facts)
    assert context["channel_topic"] == "R&D, see #random"
    assert context["channel_purpose"] == "our page (https://a.example)"


@given(situations)
def test_no_key_is_null_or_empty_and_all_of_it_is_json(given: dict[str, Any]) -> None:
    context = client_context(**given)
    assert all(value not in (None, "") for value in context.values())
    assert json.loads(json.dumps(context)) == context


@given(situations)
def test_a_channels_own_keys_come_along_and_take_nobodys_place(given: dict[str, Any]) -> None:
    context = client_context(**given)
    plain = client_context(**{**given, "extra": {}})
    assert {key: value for key, value in context.items() if key in OWN_KEYS} == plain
    kept = {key for key, value in given["extra"].items() if value not in (None, "")} - OWN_KEYS
    assert set(context) == set(plain) | kept
