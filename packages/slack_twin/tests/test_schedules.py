"""Scheduled messages: posted by the twin's clock, listed, and deleted before their time."""

from typing import Any

import pytest

from tests.world import World

pytestmark = pytest.mark.req("TWIN-02")


async def scheduled(world: World, seconds: int, text: str = "later", **more: Any) -> Any:
    post_at = int(world.twin.clock.now()) + seconds
    return (await world.client().chat_scheduleMessage(channel="#general", post_at=post_at, text=text, **more)).data


async def texts(world: World) -> list[str]:
    return [message["text"] for message in await world.seen()]


async def test_a_scheduled_message_is_posted_at_its_time(world: World) -> None:
    answer = await scheduled(world, 3_600, text="later & later")
    assert (answer["channel"], answer["message"]["type"]) == (world.general, "delayed_message")
    assert (answer["message"]["text"], answer["message"]["bot_id"]) == ("later &amp; later", "B000SWARM")
    await world.advance(3_599)
    assert await texts(world) == []
    await world.advance(1)
    assert await texts(world) == ["later & later"]
    assert (await world.client().chat_scheduledMessages_list())["scheduled_messages"] == []


async def test_what_is_scheduled_is_listed_in_order_and_taken_back(world: World) -> None:
    late, soon = await scheduled(world, 7_200, "late"), await scheduled(world, 600, "soon")
    listed = (await world.client().chat_scheduledMessages_list(channel=world.general))["scheduled_messages"]
    assert [(one["id"], one["text"]) for one in listed] == [
        (soon["scheduled_message_id"], "soon"),
        (late["scheduled_message_id"], "late"),
    ]
    until = (await world.client().chat_scheduledMessages_list(latest=soon["post_at"]))["scheduled_messages"]
    assert [one["text"] for one in until] == ["soon"]
    own = {"channel": world.general, "scheduled_message_id": soon["scheduled_message_id"]}
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    wrong = "invalid_scheduled_message_id"
    assert await world.error("chat.deleteScheduledMessage", token="xoxb-twin-other", json=own) == wrong
    await world.client().chat_deleteScheduledMessage(**own)
    assert await world.error("chat.deleteScheduledMessage", json=own) == wrong
    await world.advance(7_200 - 59)
    own["scheduled_message_id"] = late["scheduled_message_id"]
    assert await world.error("chat.deleteScheduledMessage", json=own) == wrong, "in the last minute"
    await world.advance(59)
    assert await texts(world) == ["late"]


async def test_a_time_that_makes_no_sense_is_refused(world: World) -> None:
    now = int(world.twin.clock.now())
    message = {"channel": world.general, "text": "x"}
    for post_at, error in {
        "soon": "invalid_time",
        "": "invalid_time",
        now: "time_in_past",
        now + 121 * 86_400: "time_too_far",
    }.items():
        assert await world.error("chat.scheduleMessage", json=message | {"post_at": post_at}) == error
    wrong = message | {"channel": "C404", "post_at": now + 60}
    assert await world.error("chat.scheduleMessage", json=wrong) == "channel_not_found"
    assert await world.error("chat.scheduledMessages.list", json={"channel": "C404"}) == "invalid_channel"


async def test_a_message_whose_channel_was_archived_meanwhile_is_lost(world: World) -> None:
    plans = (await world.client().conversations_create(name="plans"))["channel"]["id"]
    post_at = int(world.twin.clock.now()) + 60
    await world.client().chat_scheduleMessage(channel=plans, post_at=post_at, text="later")
    await world.client().conversations_archive(channel=plans)
    await world.advance(60)
    await world.client().conversations_unarchive(channel=plans)
    history = await world.client().conversations_history(channel=plans)
    assert "later" not in [message["text"] for message in history["messages"]]


async def test_reset_forgets_what_was_scheduled(world: World) -> None:
    await scheduled(world, 60)
    await world.ask("POST", "reset", {})
    await world.advance(60)
    assert await texts(world) == []
