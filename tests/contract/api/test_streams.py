"""slack-stream through a real client: what it takes, what it gives, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.doors import Doors, Mode, Visitor, error_of, structured
from tests.support.live import playing
from tests.support.waiting import wait_until
from tests.support.world import BOT

pytestmark = pytest.mark.req("STREAM-11")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_answer_is_shown_while_it_is_written(doors: Doors, lea: Visitor, mode: Mode) -> None:
    root = await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    async with playing(doors.world) as show, lea.mcp(mode, lease=trigger["lease"]["token"]) as client:

        async def call(**said: object) -> dict[str, Any]:
            return structured(await client.call_tool("slack-stream", said))

        async def shown() -> str:
            return "".join(message.text for message in show.live.of(root))

        opened = await call(action="open", inbox_message_id=trigger["id"])
        turn_id = opened["turn_id"]
        assert opened == {"turn_id": turn_id, "status": "open", "characters": 0}
        await call(action="status", turn_id=turn_id, title="looking around")
        await call(action="task", turn_id=turn_id, id="s1", title="Look", status="complete")
        assert (await call(action="append", turn_id=turn_id, text="Good "))["characters"] == 5
        await wait_until(shown, lambda text: text == "Good ")
        closed = await call(action="close", turn_id=turn_id, text="morning.")
        assert closed == {"turn_id": turn_id, "status": "closed", "characters": 13}
        await wait_until(shown, lambda text: text == "Good morning.")
    assert (await doors.world.inbox_message(root)).status == "responded"
    assert await lea.poll() == []


async def test_each_action_says_what_it_needs(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    lease = trigger["lease"]["token"]
    turn_id = (await lea.uses("slack-stream", lease, action="open", inbox_message_id=trigger["id"]))["turn_id"]
    for said, missing in (
        ({"action": "append", "text": "hi"}, "turn_id"),
        ({"action": "append", "turn_id": turn_id}, "text"),
        ({"action": "task", "turn_id": turn_id, "title": "Look"}, "id"),
        ({"action": "task", "turn_id": turn_id, "id": "s1"}, "title"),
        ({"action": "status", "turn_id": turn_id}, "title"),
        ({"action": "close"}, "turn_id"),
        ({"action": "open"}, "inbox_message_id"),
        ({"action": "sing"}, "action"),
        ({"action": "task", "turn_id": turn_id, "id": "s1", "title": "Look", "status": "half done"}, "status"),
    ):
        error = error_of(await lea.tool("slack-stream", lease, **said))
        assert error["code"] == "invalid"
        assert missing in error["fields"]


async def test_what_is_said_with_open_is_the_first_of_the_answer_and_said_once(doors: Doors, lea: Visitor) -> None:
    root = await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    lease = trigger["lease"]["token"]

    async def shown() -> str:
        return "".join(message.text for message in show.live.of(root))

    async with playing(doors.world) as show:
        about = {"action": "open", "inbox_message_id": trigger["id"], "text": "Good "}
        opened = [await lea.uses("slack-stream", lease, **about) for _ in range(2)]
        assert opened[0] == opened[1] == {"turn_id": opened[0]["turn_id"], "status": "open", "characters": 5}
        await wait_until(shown, lambda text: text == "Good ")
        other = error_of(await lea.tool("slack-stream", lease, **about | {"text": "Bad "}))
        assert (other["code"], opened[0]["turn_id"] in other["message"]) == ("conflict", True)
        await lea.uses("slack-stream", lease, action="close", turn_id=opened[0]["turn_id"], text="morning.")
        await wait_until(shown, lambda text: text == "Good morning.")


@pytest.mark.parametrize(
    ("said", "dropped"),
    [
        ({"action": "open", "inbox_message_id": "m", "title": "Look"}, {"title"}),
        ({"action": "append", "text": "hi", "id": "s1", "status": "complete"}, {"id", "status"}),
        ({"action": "append", "text": "hi", "inbox_message_id": "m"}, {"inbox_message_id"}),
        ({"action": "task", "id": "s1", "title": "Look", "text": "hi", "result": "found"}, {"text", "result"}),
        ({"action": "status", "title": "looking", "text": "hi", "failed": "no"}, {"text", "failed"}),
        ({"action": "close", "text": "hi", "title": "Look", "task_id": "t"}, {"title", "task_id"}),
    ],
)
async def test_what_an_action_would_drop_is_refused(
    said: dict[str, Any], dropped: set[str], doors: Doors, lea: Visitor
) -> None:
    run = {} if said["action"] == "open" else {"turn_id": "t1"}
    error = error_of(await lea.tool("slack-stream", **said, **run))
    assert (error["code"], set(error["fields"])) == ("invalid", dropped)
    assert all(field in error["message"] for field in dropped)


async def test_arguments_that_say_nothing_are_taken_with_every_action(doors: Doors, lea: Visitor) -> None:
    """Models like to fill in everything that a schema names."""
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    lease = trigger["lease"]["token"]
    empty = {"inbox_message_id": None, "task_id": "", "id": "", "title": None, "status": "in_progress", "result": None}
    begin = empty | {"action": "open", "inbox_message_id": trigger["id"]}
    opened = await lea.uses("slack-stream", lease, **begin)
    said = empty | {"action": "append", "turn_id": opened["turn_id"], "text": "hi"}
    assert (await lea.uses("slack-stream", lease, **said))["characters"] == 2


async def test_a_run_that_comes_back_late_can_neither_open_nor_say_anything(doors: Doors, lea: Visitor) -> None:
    """Not even with the words, or the request's id, with which its successor has opened an answer."""
    await doors.world.says(f"{BOT} hello")
    first = await lea.only()
    about = {"action": "open", "inbox_message_id": first["id"], "request_id": "1"}
    await doors.world.later(61)
    second = await lea.only()
    turn_id = (await lea.uses("slack-stream", second["lease"]["token"], **about))["turn_id"]
    for lease in (first["lease"]["token"], None):
        assert error_of(await lea.tool("slack-stream", lease, **about))["code"] == "lease_lost"
    said = {"action": "append", "turn_id": turn_id, "text": "too late"}
    assert error_of(await lea.tool("slack-stream", first["lease"]["token"], **said))["code"] == "lease_lost"
    await lea.uses("slack-stream", second["lease"]["token"], action="close", turn_id=turn_id, text="in time")


async def test_what_is_too_long_is_refused_with_what_to_do(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    lease = trigger["lease"]["token"]
    turn_id = (await lea.uses("slack-stream", lease, action="open", inbox_message_id=trigger["id"]))["turn_id"]
    error = error_of(await lea.tool("slack-stream", lease, action="append", turn_id=turn_id, text="x" * 12_001))
    assert (error["code"], error["hint"]) == ("too_large", "Append it in several pieces.")
