"""Ids of conversations."""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID, uuid5

import pytest

from swarm.domain.answers.agents import (
    CAIPE_NAMESPACE,
    Dialect,
    RemoteAgent,
    caipe_conversation_id,
    conversation_id,
    conversation_with,
)

pytestmark = pytest.mark.req("STREAM-02")

OTHER = UUID("11111111-2222-3333-4444-555555555555")


def test_the_id_of_a_thread_never_changes() -> None:
    """Agents keep what was said under it, so not even a new version of ours may change it."""
    assert conversation_id("T1", "C1", "1700000000.000100") == "eedf7670-03ad-5355-879f-dfb3d91d0bd7"


def test_team_channel_and_thread_each_make_another_conversation() -> None:
    ids = {
        conversation_id(*place)
        for place in [("T", "C", "1.1"), ("U", "C", "1.1"), ("T", "D", "1.1"), ("T", "C", "1.2")]
    }
    assert len(ids) == 4
    assert {UUID(id).version for id in ids} == {5}


def test_caipes_id_is_over_the_timestamp_alone_in_the_namespace_of_its_own_bot() -> None:
    assert uuid5(NAMESPACE_URL, "slack.caipe.io") == CAIPE_NAMESPACE
    assert caipe_conversation_id("1700000000.000100") == str(uuid5(CAIPE_NAMESPACE, "1700000000.000100"))


def test_the_dialect_and_the_namespace_of_an_agent_choose() -> None:
    place = {"team": "T", "channel": "C", "thread_ts": "1.1"}
    agui, caipe = (RemoteAgent(name="a", url="http://a", dialect=dialect) for dialect in Dialect)
    assert conversation_with(agui, **place) == conversation_id("T", "C", "1.1")
    assert conversation_with(caipe, **place) == caipe_conversation_id("1.1")
    own = RemoteAgent(name="a", url="http://a", dialect=Dialect.CAIPE, namespace=OTHER)
    assert conversation_with(own, **place) == str(uuid5(OTHER, "1.1"))
    own = RemoteAgent(name="a", url="http://a", namespace=OTHER)
    assert conversation_with(own, **place) == conversation_id("T", "C", "1.1", namespace=OTHER)


@pytest.mark.req("CHAN-01")
def test_two_peoples_flat_direct_messages_are_two_conversations() -> None:
    for dialect in Dialect:
        agent = RemoteAgent(name="a", url="http://a", dialect=dialect)
        ids = {conversation_with(agent, team="T", channel=channel, thread_ts="") for channel in ("D1", "D2")}
        assert len(ids) == 2
