"""The limits of a twin: messages, calls, files, and events per hour."""

from typing import Any

import pytest
from slack_twin import Settings, build_twin
from slack_twin.journal import KEPT, KEPT_BYTES, Call, Journal
from slack_twin.limits import Passage
from slack_twin.messages import Message, MessageLog
from slack_twin.settings import read_settings

from tests.world import World

pytestmark = pytest.mark.req("TWIN-03")


def log_of(*messages: tuple[str, str | None]) -> MessageLog:
    log = MessageLog()
    for ts, thread_ts in messages:
        log.add(Message(ts=ts, channel="C", user="U", text="", thread_ts=thread_ts))
    return log


def test_a_log_forgets_its_oldest_messages_with_all_traces() -> None:
    log = log_of(("1", None), ("2", "1"), ("3", None), ("4", "1"))
    log.keep(2)
    assert [message.ts for message in log.all()] == ["3", "4"]
    assert (list(log.shown()), list(log.replies("1"))) == (["3"], ["4"])
    log.keep(0)
    assert (log.all(), list(log.shown()), log.thread("1")) == ([], [], None)


async def test_a_channel_keeps_the_latest_messages(world: World) -> None:
    world.twin.workspace.retention = 3
    said = [await world.say("alice", f"{number}") for number in range(5)]
    assert [message["text"] for message in await world.seen()] == ["2", "3", "4"]
    body = {"channel": world.general, "text": "x", "thread_ts": said[0]}
    assert await world.error("chat.postMessage", json=body) == "thread_not_found"
    history = await world.client().conversations_history(channel=world.general)
    assert [message["ts"] for message in history["messages"]] == said[:1:-1]


async def test_a_stream_whose_message_was_forgotten_ends_quietly(world: World) -> None:
    world.twin.workspace.retention = 2
    root = await world.say("alice", "x")
    place: dict[str, Any] = {"recipient_user_id": "U000ALICE", "recipient_team_id": "T0TWIN", "thread_ts": root}
    started = await world.client().chat_startStream(channel=world.general, markdown_text="x", **place)
    for _ in range(2):
        await world.say("alice", "more")
    body = {"channel": world.general, "ts": started["ts"], "markdown_text": "x"}
    assert await world.error("chat.appendStream", json=body) == "message_not_found"
    await world.advance(301)
    assert len(await world.seen()) == 2


def call(text: str = "") -> Call:
    return Call(at=0.0, app=None, method="m", args={"text": text}, ok=True, error=None, status=200)


def test_the_journal_keeps_so_many_entries_and_numbers_on() -> None:
    journal: Journal[Call] = Journal()
    for _ in range(KEPT + 2):
        journal.add(call())
    kept = journal.since(0)
    assert (len(kept), kept[0]["seq"], kept[-1]["seq"]) == (KEPT, 3, KEPT + 2)


def test_the_journal_keeps_fewer_entries_when_they_are_large() -> None:
    journal: Journal[Call] = Journal()
    for _ in range(10):
        journal.add(call("x" * (KEPT_BYTES // 4)))
    assert [entry["seq"] for entry in journal.since(0)] == [7, 8, 9, 10]
    journal.add(call("x" * (KEPT_BYTES * 2)))
    assert [entry["seq"] for entry in journal.since(0)] == [11]


async def test_beyond_thirty_thousand_events_an_hour_the_app_hears_once_a_minute_that_they_are_lost(
    world: World,
) -> None:
    line = await world.line()
    for _ in range(29_999):
        assert world.twin.limits.take_event("A000SWARM") is Passage.FREE
    await world.say("alice", "the last one")
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "the last one"
    await world.say("alice", "lost")
    await world.say("alice", "lost too")
    told = (await line.next_acknowledged())["payload"]
    minute = told.pop("minute_rate_limited")
    assert (minute % 60, told) == (
        0,
        {"token": "twin", "type": "app_rate_limited", "team_id": "T0TWIN", "api_app_id": "A000SWARM"},
    )
    await world.advance(60)
    await world.say("alice", "lost again")
    assert (await line.next_acknowledged())["payload"]["minute_rate_limited"] == minute + 60
    await world.advance(3_600)
    await world.say("alice", "heard")
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "heard"


def test_settings_come_from_the_environment() -> None:
    given = {
        "TWIN_RATES": "off",
        "TWIN_OWN_EVENTS": "off",
        "TWIN_RETENTION_MESSAGES": "7",
        "TWIN_FILE_CAP_BYTES": "100",
    }
    settings = read_settings(given)
    assert settings == Settings(rates=False, retention_messages=7, file_cap_bytes=100)
    twin = build_twin(settings=settings)
    assert (twin.limits.enabled, twin.workspace.retention, twin.workspace.files.cap_bytes) == (False, 7, 100)
    assert read_settings({"TWIN_RATES": ""}) == Settings(own_events=True)


@pytest.mark.parametrize(
    ("name", "value"), [("TWIN_RATES", "maybe"), ("TWIN_RETENTION_MESSAGES", "0"), ("TWIN_FILE_CAP_BYTES", "1 MB")]
)
def test_a_setting_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be .*, not '{value}'"):
        read_settings({name: value})
