"""Comparison of the twin's payloads with Slack's recorded ones: no unknown key, the same JSON types."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.world import APP_TOKEN, World

pytestmark = pytest.mark.req("TWIN-01", "TWIN-02")
SAMPLES = Path(__file__).parent / "samples"

# Slack sends these according to its documentation; the samples combine several variants and omit them.
NEWER = {
    "event.app_id",
    "event.metadata.event_payload",
    "event.client_msg_id",
    "event.parent_user_id",
    "event.team",
    "event.previous_message.files",
    "event.root.client_msg_id",
    "event.root.is_locked",
    "event.root.reply_users",
    "event.message.reply_users",
    "event.root.blocks",
    *(f"event.files.{name}" for name in ("channels", "groups", "from", "to", "cc")),
    *(f"event.attachments.{name}" for name in ("is_share", "files", "message_blocks", "private_channel_prompt")),
}
# The samples' first block has buttons, while that of a person is rich text.
RICH_TEXT = "blocks.elements.elements"


def sample(name: str) -> Any:
    return orjson.loads((SAMPLES / name).read_bytes())


def differences(sent: Any, known: Any, path: str = "") -> list[str]:
    """Returns the paths at which `sent` has a key that `known` lacks, or another JSON type."""
    if isinstance(sent, dict) and isinstance(known, dict):
        found = []
        for key, value in sent.items():
            place = f"{path}.{key}".lstrip(".")
            if place in NEWER or place.endswith(RICH_TEXT):
                continue
            found += [place] if key not in known else differences(value, known[key], place)
        return found
    if isinstance(sent, list) and isinstance(known, list):
        return [problem for item in sent if known for problem in differences(item, known[0], path)]
    return [] if type(sent) is type(known) or sent is None else [f"{path}: {sent!r} for {known!r}"]


def test_the_comparison_sees_unknown_keys_and_other_types() -> None:
    assert differences({"a": 1, "b": {"c": "x"}}, {"a": "", "b": {}}) == ["a: 1 for ''", "b.c"]


async def test_events_have_the_shape_of_the_recorded_ones(world: World) -> None:
    line = await world.line()
    events: dict[str, Any] = {}

    async def heard(name: str) -> None:
        events[name] = (await line.next_acknowledged())["payload"]

    ts = await world.say("alice", "@swarm hello")
    await heard("AppMentionPayload")
    await heard("MessagePayload")
    own = {"user": "alice", "channel": "general", "ts": ts}
    await world.ask("PATCH", "messages", own | {"text": "changed"})
    await heard("MessageChangedPayload")
    await world.ask("POST", "reactions", own | {"name": "tada"})
    await heard("ReactionAddedPayload")
    await world.ask("POST", "reactions", own | {"name": "tada", "remove": True})
    await heard("ReactionRemovedPayload")
    await world.say("bob", "too", thread_ts=ts, broadcast=True)
    await heard("MessageThreadBroadcastPayload")
    last = await world.say("bob", "", files=[{"name": "a.txt", "content": "x"}])
    await heard("MessageFileSharePayload")
    await heard("FileSharedPayload")
    await world.ask("DELETE", "messages", {"user": "bob", "channel": "general", "ts": last})
    await heard("MessageDeletedPayload")
    wrong = {
        name: found for name, sent in events.items() if (found := differences(sent, sample(f"events/{name}.json")))
    }
    assert wrong == {}


async def test_a_bots_post_and_a_joining_member_have_the_shape_of_the_recorded_ones(world: World) -> None:
    await world.ask(
        "POST", "seed", {"apps": [{"name": "other"}], "channels": [{"name": "club", "members": ["alice", "other"]}]}
    )
    other = await world.line("xapp-twin-other")
    await world.client().chat_postMessage(
        channel=world.general, text="x", metadata={"event_type": "t", "event_payload": {}}
    )
    posted = (await other.next_acknowledged())["payload"]
    await world.client().conversations_join(channel="C0000CLUB")
    assert (await other.next_acknowledged())["payload"]["event"]["subtype"] == "channel_join"
    joined = (await other.next_acknowledged())["payload"]
    assert differences(posted, sample("events/MessagePayload.json")) == []
    assert differences(joined, sample("events/MemberJoinedChannelPayload.json")) == []


async def test_answers_have_the_shape_of_the_recorded_ones(world: World) -> None:
    client, general = world.client(), world.general
    ts = await world.say("alice", "hello")
    own = (await client.chat_postMessage(channel=general, text="x"))["ts"]
    answers = {
        "auth.test": await client.auth_test(),
        "bots.info": await client.bots_info(bot="B000SWARM"),
        "chat.delete": await client.chat_delete(channel=general, ts=own),
        "chat.getPermalink": await client.chat_getPermalink(channel=general, message_ts=ts),
        "chat.postEphemeral": await client.chat_postEphemeral(channel=general, user="U000ALICE", text="x"),
        "conversations.info": await client.conversations_info(channel=general, include_num_members=True),
        "conversations.list": await client.conversations_list(),
        "conversations.join": await client.conversations_join(channel=general),
        "conversations.members": await client.conversations_members(channel=general),
        "users.info": await client.users_info(user="U000SWARM"),
        "users.list": await client.users_list(),
        "users.conversations": await client.users_conversations(),
        "usergroups.list": await client.usergroups_list(),
        "team.info": await client.team_info(),
        "apps.connections.open": await client.apps_connections_open(app_token=APP_TOKEN),
    }
    wrong = {
        name: found
        for name, answer in answers.items()
        if (found := differences(answer.data, sample(f"api/{name}.json")))
    }
    assert wrong == {}
