"""Agents talk to each other through the MCP tools: send-message, read-messages, list-agents, tray."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.domain.model.agents import Role
from tests.support.doors import Doors, Visitor, error_of
from tests.support.world import BOT


@pytest.fixture
async def wim(doors: Doors) -> Visitor:
    """A worker that is there."""
    return await doors.worker()


@pytest.mark.req("LOOP-17")
async def test_two_agents_talk(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    sent = await lea.uses("send-message", to="wim", text="can you look?")
    assert sent["addressees"] == [{"id": wim.id, "name": "wim", "status": "online"}]
    trigger = await wim.only()
    assert (trigger["kind"], trigger["notice"]["text"]) == ("agent_message", "can you look?")
    assert trigger["notice"]["actor"] == {"id": lea.id, "name": "lea"}
    read = await wim.uses("read-messages")
    (message,) = read["messages"]
    assert message == message | {"from": {"id": lea.id, "name": "lea"}, "to": "wim", "channel": None, "unread": True}
    assert (read["next_after"], read["more"]) == (sent["message_id"], False)
    await wim.uses("send-message", to=lea.id, text="done")
    assert [one["text"] for one in (await lea.uses("read-messages", agent="wim"))["messages"]] == [
        "can you look?",
        "done",
    ]
    assert (await wim.uses("read-messages"))["messages"] == []


@pytest.mark.req("LOOP-17")
async def test_a_channel_is_read_on_from_where_one_was(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    first = await lea.uses("send-message", channel="#reviews", text="@wim and @nobody: please look")
    assert [one["name"] for one in first["addressees"]] == ["wim"]
    assert first["unknown_mentions"] == ["nobody"]
    page = await wim.uses("read-messages", channel="reviews")
    assert [(one["channel"], one["to"]) for one in page["messages"]] == [("#reviews", None)]
    nothing = await wim.uses("read-messages", channel="#reviews", after=page["next_after"])
    assert nothing == {"messages": [], "next_after": page["next_after"], "more": False}
    await lea.uses("send-message", channel="#reviews", text="never mind")
    news = await wim.uses("read-messages", channel="#reviews", after=page["next_after"])
    assert [one["text"] for one in news["messages"]] == ["never mind"]


@pytest.mark.req("LOOP-17")
async def test_sending_needs_no_lease_takes_any_and_happens_once(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    said = {"to": "wim", "text": "hello"}
    sent = [
        await lea.uses("send-message", **said),
        await lea.uses("send-message", **said),
        await lea.uses("send-message", lease_token="of-my-run", **said),
        await lea.uses("send-message", "of-my-run", **said),
        await lea.uses("send-message", request_id="1", **said),
        await lea.uses("send-message", request_id="1", **said),
    ]
    assert [sent[0] == sent[1], sent[2] == sent[3], sent[4] == sent[5]] == [True, True, True]
    assert len({one["message_id"] for one in sent}) == 3


@pytest.mark.req("LOOP-17")
async def test_a_bad_call_says_what_is_wrong_and_sends_nothing(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    bad: list[tuple[str, dict[str, Any], str, set[str]]] = [
        ("send-message", {"text": "hello"}, "invalid", {"to", "channel"}),
        ("send-message", {"to": "wim"}, "invalid", {"text"}),
        ("send-message", {"to": "wim", "text": ""}, "invalid", {"text"}),
        ("send-message", {"to": "wim", "text": "x" * 40_001}, "invalid", {"text"}),
        ("send-message", {"to": "wim", "text": "a\0b"}, "invalid", {"text"}),
        ("send-message", {"to": ["wim"], "text": "hello"}, "invalid", {"to"}),
        ("send-message", {"to": "lea", "text": "hello"}, "invalid", {"to"}),
        ("send-message", {"to": "nobody", "text": "hello"}, "not_found", set()),
        ("send-message", {"channel": "No!", "text": "hello"}, "invalid", {"channel"}),
        ("read-messages", {"channel": "nowhere"}, "not_found", set()),
        ("read-messages", {"channel": "a", "agent": "wim"}, "invalid", {"channel", "agent"}),
        ("read-messages", {"agent": "nobody"}, "not_found", set()),
        ("read-messages", {"limit": 0}, "invalid", {"limit"}),
        ("read-messages", {"limit": 101}, "invalid", {"limit"}),
        ("read-messages", {"after": "1"}, "invalid", {"after"}),
        ("read-messages", {"unread_only": "yes"}, "invalid", {"unread_only"}),
    ]
    before = await doors.everything()
    async with lea.mcp() as client:
        for name, arguments, code, fields in bad:
            error = error_of(await client.call_tool(name, arguments))
            assert (error["code"], set(error.get("fields", {}))) == (code, fields), (name, str(arguments)[:80])
    assert await doors.everything() == before
    assert await doors.world.rows("SELECT id FROM agent_messages") == []


@pytest.mark.req("LOOP-17")
async def test_who_talks_without_end_is_slowed_down(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    async with lea.mcp() as client:
        for number in range(30):
            assert not (await client.call_tool("send-message", {"to": "wim", "text": f"{number}"})).is_error
        error = error_of(await client.call_tool("send-message", {"to": "wim", "text": "30"}))
    assert error["code"] == "rate_limited"
    assert "60 seconds" in error["message"]


@pytest.mark.req("LOOP-17")
async def test_list_agents_has_a_limit_and_says_how_many_it_leaves_out(doors: Doors, lea: Visitor) -> None:
    gone = [await doors.world.services.agents.register(f"gone-{at}", Role.WORKER) for at in range(3)]
    last = await doors.worker("last")
    team = await lea.uses("list-agents", limit=2)
    assert ([agent["name"] for agent in team["agents"]], team["left_out"]) == ([lea.name, last.name], len(gone))
    assert (await lea.uses("list-agents"))["left_out"] == 0


async def test_list_agents_shows_the_load_of_each(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    await lea.only()
    team = (await wim.uses("list-agents"))["agents"]
    assert [(agent["name"], agent["load"]) for agent in team] == [
        ("lea", {"open_tasks": 0, "threads_owned": 1, "running": 1}),
        ("wim", {"open_tasks": 0, "threads_owned": 0, "running": 0}),
    ]


@pytest.mark.req("LOOP-18")
async def test_the_tray_shows_mentions_alike_as_tool_and_over_http(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    sent = [
        await wim.uses("send-message", channel="talk", text="@lea " + "x" * 300),
        await wim.uses("send-message", to="lea", text="directly"),
    ]
    tray = await lea.uses("tray")
    assert tray == await lea.get("/tray")
    assert tray["mentions"] == 2
    assert tray["messages"] == [
        {
            "message_id": message["message_id"],
            "from": "wim",
            "channel": channel,
            "preview": preview,
            "sent_at": "2023-11-14T22:13:20.000000Z",
        }
        for message, channel, preview in zip(
            sent, ("#talk", None), ("@lea " + "x" * 194 + "…", "directly"), strict=True
        )
    ]
