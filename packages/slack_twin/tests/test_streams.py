"""Streamed messages: chat.startStream, appendStream, stopStream, and the Stop button."""

import asyncio
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import DividerBlock
from slack_sdk.models.messages.chunk import BlocksChunk, MarkdownTextChunk, PlanUpdateChunk, TaskUpdateChunk

from tests.test_shapes import differences, sample
from tests.world import World

pytestmark = pytest.mark.req("TWIN-02", "TWIN-03")
RECIPIENT: dict[str, Any] = {"recipient_user_id": "U000ALICE", "recipient_team_id": "T0TWIN"}


async def begin(world: World, **more: Any) -> dict[str, Any]:
    """Starts a stream in a thread of #general; returns its channel and ts."""
    root = await world.say("alice", "@swarm hello")
    started = await world.client().chat_startStream(channel=world.general, thread_ts=root, **RECIPIENT, **more)
    return {"channel": started["channel"], "ts": started["ts"]}


async def shown(world: World, target: dict[str, Any]) -> dict[str, Any]:
    return next(message for message in await world.seen() if message["ts"] == target["ts"])


async def refusal(world: World, method: str, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as refused:
        await getattr(world.client(), method)(**arguments)
    return str(refused.value.response["error"])


async def test_text_grows_while_it_streams_and_stays_when_it_is_stopped(world: World) -> None:
    target = await begin(world, markdown_text="**one** ")
    assert (await shown(world, target))["streaming"] is True
    await world.client().chat_appendStream(**target, markdown_text="two ")
    growing = await shown(world, target)
    assert (growing["text"], growing["streaming"]) == ("**one** two ", True)
    mark = {"event_type": "done", "event_payload": {"n": 1}}
    stopped = await world.client().chat_stopStream(
        **target, markdown_text="three", blocks=[DividerBlock()], metadata=mark
    )
    assert stopped["message"]["text"] == "**one** two three"
    ended = await shown(world, target)
    assert (ended["streaming"], ended["metadata"]) == (False, mark)
    assert [block["type"] for block in ended["blocks"]] == ["markdown", "divider"]
    assert ended["blocks"][0]["text"] == "**one** two three"


async def test_the_sdks_helper_streams_with_both_clients(world: World) -> None:
    root = await world.say("alice", "@swarm hello")
    place: dict[str, Any] = {"channel": world.general, "thread_ts": root, "buffer_size": 4, **RECIPIENT}

    def with_sync_client() -> None:
        stream = world.sync_client().chat_stream(**place)
        for piece in ("sync ", "text ", "flows"):
            stream.append(markdown_text=piece)
        stream.stop()

    await asyncio.to_thread(with_sync_client)
    stream = await world.client().chat_stream(**place)
    for piece in ("async ", "text"):
        await stream.append(markdown_text=piece)
    await stream.append(chunks=[TaskUpdateChunk(id="t", title="Look", status="complete")])
    await stream.stop(markdown_text=" flows")
    first, second = (await world.seen(thread_ts=root))[1:]
    assert (first["text"], first["streaming"]) == ("sync text flows", False)
    assert (second["text"], second["streaming"]) == ("async text flows", False)
    assert [block["type"] for block in second["blocks"]] == ["markdown", "task_card", "markdown"]


async def test_a_task_is_one_card_that_changes_in_place(world: World) -> None:
    target = await begin(
        world, chunks=[TaskUpdateChunk(id="a", title="Search", status="in_progress", details="first ")]
    )
    link = {"type": "url", "url": "https://twin.test/", "text": "Twin"}
    later = [
        MarkdownTextChunk(text="Found it."),
        TaskUpdateChunk(id="a", title="Searched", status="complete", details="second", output="ok", sources=[link]),
        BlocksChunk(blocks=[DividerBlock()]),
    ]
    await world.client().chat_appendStream(**target, chunks=later)
    card, text, divider = (await shown(world, target))["blocks"]
    assert (card["type"], card["task_id"], card["title"], card["status"]) == ("task_card", "a", "Searched", "complete")
    assert card["details"]["elements"][0]["elements"][0]["text"] == "first second"
    assert card["output"]["elements"][0]["elements"][0]["text"] == "ok"
    assert (card["sources"], text["text"], divider["type"]) == ([link], "Found it.", "divider")


async def test_in_plan_mode_all_tasks_are_in_one_plan_with_the_latest_title(world: World) -> None:
    target = await begin(world, task_display_mode="plan", chunks=[PlanUpdateChunk(title="Thinking")])
    steps = [
        TaskUpdateChunk(id="a", title="One", status="complete"),
        MarkdownTextChunk(text="text"),
        TaskUpdateChunk(id="b", title="Two", status="pending"),
        PlanUpdateChunk(title="Done"),
    ]
    await world.client().chat_stopStream(**target, chunks=steps)
    plan, text = (await shown(world, target))["blocks"]
    assert (plan["type"], plan["title"]) == ("plan", "Done")
    assert [(task["task_id"], task["status"]) for task in plan["tasks"]] == [("a", "complete"), ("b", "pending")]
    assert text["text"] == "text"


async def test_a_plan_without_a_title_takes_that_of_its_first_task(world: World) -> None:
    steps = [TaskUpdateChunk(id=name, title=f"Step {name}", status="pending") for name in "ab"]
    target = await begin(world, task_display_mode="plan", chunks=steps)
    (plan,) = (await shown(world, target))["blocks"]
    assert (plan["title"], len(plan["tasks"])) == ("Step a", 2)


async def test_a_stream_takes_only_the_kind_of_content_that_it_began_with(world: World) -> None:
    chunks = [{"type": "markdown_text", "text": "x"}]
    texts, chunked, bare = await begin(world, markdown_text="x"), await begin(world, chunks=chunks), await begin(world)
    assert await refusal(world, "chat_appendStream", **texts, chunks=chunks) == "streaming_mode_mismatch"
    assert await refusal(world, "chat_appendStream", **chunked, markdown_text="x") == "streaming_mode_mismatch"
    await world.client().chat_appendStream(**bare, chunks=chunks)
    assert await refusal(world, "chat_stopStream", **bare, markdown_text="x") == "streaming_mode_mismatch"
    assert (await shown(world, bare))["streaming"] is True


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_stream_grows_to_about_ten_kilobytes_and_refuses_what_is_beyond(world: World, chunked: bool) -> None:
    def piece(text: str) -> dict[str, Any]:
        return {"chunks": [{"type": "markdown_text", "text": text}]} if chunked else {"markdown_text": text}

    target = await begin(world, **piece("é" * 5_000))
    assert await refusal(world, "chat_appendStream", **target, **piece("x" * 1_000)) == "msg_too_long"
    await world.client().chat_appendStream(**target, **piece("x" * 100))
    assert len((await shown(world, target))["text"]) == 5_100
    assert await refusal(world, "chat_stopStream", **target, **piece("x" * 1_000)) == "msg_too_long"
    await world.client().chat_stopStream(**target)


async def test_cards_count_towards_the_size_of_a_stream(world: World) -> None:
    target = await begin(world, chunks=[{"type": "markdown_text", "text": "x" * 10_200}])
    card = {"type": "task_update", "id": "a", "title": "t" * 256, "status": "pending", "details": "d" * 200}
    assert await refusal(world, "chat_appendStream", **target, chunks=[card]) == "msg_too_long"


async def test_a_stream_ends_after_five_minutes_and_its_message_can_then_be_updated(world: World) -> None:
    target = await begin(world, markdown_text="half a")
    assert await refusal(world, "chat_update", **target, text="x") == "streaming_state_conflict"
    assert await refusal(world, "chat_delete", **target) == "cant_delete_message"
    await world.advance(299)
    await world.client().chat_appendStream(**target, markdown_text=" text")
    await world.advance(1)
    assert (await shown(world, target))["streaming"] is False
    for method in ("chat_appendStream", "chat_stopStream"):
        assert await refusal(world, method, **target, markdown_text="x") == "message_not_in_streaming_state"
    await world.client().chat_update(**target, text="the whole text", blocks=[])
    assert (await shown(world, target))["text"] == "the whole text"


@pytest.mark.req("TWIN-04")
async def test_open_streams_can_be_made_to_expire_at_once(world: World) -> None:
    target = await begin(world, markdown_text="half")
    await world.ask("POST", "faults", {"kind": "expire_stream", "app": "swarm"})
    ended = await shown(world, target)
    assert (ended["text"], ended["streaming"]) == ("half", False)
    again = await begin(world, markdown_text="fine")
    await world.client().chat_stopStream(**again)
    assert await refusal(world, "chat_appendStream", **target, markdown_text="x") == "message_not_in_streaming_state"


@pytest.mark.req("TWIN-04")
@pytest.mark.parametrize("fault", [{}, {"method": "chat.stopStream"}])
async def test_a_stream_can_be_made_to_expire_under_its_next_call(world: World, fault: dict[str, str]) -> None:
    """Without a method and an open stream, the fault affects the next stream that is written to."""
    before = [await begin(world, markdown_text="half")] if fault else []
    await world.ask("POST", "faults", {"kind": "expire_stream", **fault})
    target = before[0] if before else await begin(world, markdown_text="half")
    assert (await shown(world, target))["streaming"] is True
    method = "chat_stopStream" if fault else "chat_appendStream"
    assert await refusal(world, method, **target, markdown_text="x") == "message_not_in_streaming_state"
    assert ((await shown(world, target))["text"], (await shown(world, target))["streaming"]) == ("half", False)


async def test_a_stream_in_a_direct_conversation_needs_no_recipient_but_a_thread(world: World) -> None:
    root = await world.say("alice", "hello", channel="@swarm")
    direct = (await world.client().conversations_open(users="U000ALICE"))["channel"]["id"]
    await world.client().chat_startStream(channel=direct, thread_ts=root, markdown_text="hi")
    assert await world.error("chat.startStream", json={"channel": direct}) == "invalid_arguments"
    message = await world.client().chat_startStream(channel=world.general, thread_ts="", **RECIPIENT)
    assert (await shown(world, {"ts": message["ts"]}))["thread_ts"] is None


async def test_another_app_hears_of_a_stream_when_it_starts_and_when_it_ends(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    target = await begin(world, markdown_text="one ")
    other = await world.line("xapp-twin-other")
    await world.client().chat_appendStream(**target, markdown_text="two ")
    await world.client().chat_stopStream(**target, markdown_text="three")
    changed = (await other.next_acknowledged())["payload"]["event"]
    assert (changed["subtype"], changed["message"]["text"]) == ("message_changed", "one two three")
    assert changed["previous_message"]["text"] == "one two "
    second = (await begin(world, markdown_text="again"))["ts"]
    events = [(await other.next_acknowledged())["payload"]["event"] for _ in range(2)]
    assert (events[1]["ts"], events[1]["text"], events[1]["app_id"]) == (second, "again", "A000SWARM")
    foreign = world.client("xoxb-twin-other")
    with pytest.raises(SlackApiError, match="message_not_owned_by_app"):
        await foreign.chat_appendStream(**target, markdown_text="x")


async def test_stop_ends_the_stream_at_once_and_tells_the_app(world: World) -> None:
    target = await begin(world, markdown_text="one")
    root = (await shown(world, target))["thread_ts"]
    line = await world.line()
    place: dict[str, Any] = {"user": "bob", "channel": "general", "thread_ts": root}
    assert (await world.ask("POST", "stop", place))["stopped"] == [
        {"app": "swarm", "streaming_message_ts": [target["ts"]]}
    ]
    event = (await line.next_acknowledged())["payload"]["event"]
    assert event.pop("event_ts")
    assert event == {
        "type": "agent_session_stopped",
        "channel": world.general,
        "thread_ts": root,
        "user": "U00000BOB",
        "streaming_message_ts": [target["ts"]],
    }
    assert (await shown(world, target))["streaming"] is False
    assert await refusal(world, "chat_appendStream", **target, markdown_text="x") == "stopped_by_user"
    assert (await world.control("POST", "stop", place))[0] == 409
    await world.client().chat_stopStream(**target, session_status="active")
    assert (await shown(world, target))["text"] == "one"
    assert await refusal(world, "chat_stopStream", **target) == "message_not_in_streaming_state"


async def test_two_streams_at_once_do_not_mix_and_stop_concerns_one_thread(world: World) -> None:
    first, second = await begin(world, markdown_text="1"), await begin(world, markdown_text="a")
    for number in range(5):
        await world.client().chat_appendStream(**first, markdown_text=str(number))
        await world.client().chat_appendStream(**second, markdown_text="abcde"[number])
    root = (await shown(world, first))["thread_ts"]
    await world.ask("POST", "stop", {"user": "alice", "channel": "general", "thread_ts": root})
    assert [(m["text"], m["streaming"]) for m in await world.seen() if m["kind"] == "bot"] == [
        ("101234", False),
        ("aabcde", True),
    ]


async def test_starts_and_appends_have_their_tiers(world: World) -> None:
    roots = [await world.say("alice", "x") for _ in range(21)]
    for root in roots[:20]:
        await world.client().chat_startStream(channel=world.general, thread_ts=root, **RECIPIENT)
    last: dict[str, Any] = {"channel": world.general, "thread_ts": roots[20], **RECIPIENT}
    assert await refusal(world, "chat_startStream", **last) == "ratelimited"
    target = {"channel": world.general, "ts": (await world.seen())[-1]["ts"]}
    for _ in range(100):
        await world.client().chat_appendStream(**target, markdown_text="x")
    assert await refusal(world, "chat_appendStream", **target, markdown_text="x") == "ratelimited"


WRONG_STARTS: list[tuple[dict[str, Any], str]] = [
    ({"recipient_team_id": None}, "missing_recipient_team_id"),
    ({"recipient_user_id": None}, "missing_recipient_user_id"),
    ({"recipient_team_id": "T404"}, "team_not_found"),
    ({"recipient_user_id": "U404"}, "user_not_found"),
    ({"recipient_user_id": "U000SWARM"}, "user_not_found"),
    ({"thread_ts": "1000000000.000100"}, "thread_not_found"),
    ({"channel": "C404"}, "channel_not_found"),
    ({"task_display_mode": "gantt"}, "invalid_arguments"),
    ({"markdown_text": "x" * 12_001}, "msg_too_long"),
    ({"markdown_text": "x", "chunks": [{"type": "markdown_text", "text": "x"}]}, "invalid_arguments"),
    ({"chunks": {"type": "markdown_text"}}, "invalid_chunks"),
    ({"chunks": [7]}, "invalid_chunks"),
    ({"chunks": [{"type": "video"}]}, "invalid_chunks"),
    ({"chunks": [{"type": ["markdown_text"], "text": "x"}]}, "invalid_chunks"),
    ({"chunks": [{"type": "markdown_text"}]}, "invalid_chunks"),
    ({"chunks": [{"type": "markdown_text", "text": 7}]}, "invalid_chunks"),
    ({"chunks": [{"type": "task_update", "id": "a", "title": "t"}]}, "invalid_chunks"),
    ({"chunks": [{"type": "task_update", "id": "a", "title": "t", "status": ["complete"]}]}, "invalid_chunks"),
    ({"chunks": [{"type": "task_update", "id": "a", "title": "t" * 257, "status": "pending"}]}, "invalid_chunks"),
    (
        {"chunks": [{"type": "task_update", "id": "a", "title": "t", "status": "pending", "sources": ["x"]}]},
        "invalid_chunks",
    ),
    ({"chunks": [{"type": "plan_update"}]}, "invalid_chunks"),
    ({"chunks": [{"type": "blocks"}]}, "invalid_chunks"),
    ({"chunks": [{"type": "blocks", "blocks": [{"type": "nonsense"}]}]}, "invalid_blocks"),
]


async def test_a_stream_that_makes_no_sense_is_refused_and_leaves_no_message(world: World) -> None:
    world.twin.limits.enabled = False
    root = await world.say("alice", "hello")
    place = {"channel": world.general, "thread_ts": root, **RECIPIENT}
    answers = [(more, await world.error("chat.startStream", json=place | more)) for more, _ in WRONG_STARTS]
    assert answers == WRONG_STARTS
    assert len(await world.seen()) == 1


async def test_what_is_not_a_stream_cannot_be_appended_to_or_stopped(world: World) -> None:
    said = await world.say("alice", "hello")
    own = (await world.client().chat_postMessage(channel=world.general, text="x"))["ts"]
    for method in ("chat.appendStream", "chat.stopStream"):
        errors = [
            await world.error(method, json={"channel": world.general, "ts": ts, "markdown_text": "x"})
            for ts in (said, own, "1000000000.000100")
        ]
        assert errors == ["message_not_owned_by_app", "message_not_in_streaming_state", "message_not_found"]
    target = await begin(world)
    assert await refusal(world, "chat_appendStream", **target) == "no_text"
    assert await refusal(world, "chat_stopStream", **target, session_status="asleep") == "invalid_arguments"
    assert (await shown(world, target))["streaming"] is True


async def test_a_reset_forgets_streams(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    target = await begin(world, markdown_text="x")
    await world.ask("POST", "reset")
    assert await refusal(world, "chat_appendStream", **target, markdown_text="x") == "message_not_found"
    other = await world.line("xapp-twin-other")
    await world.advance(400)
    await world.say("alice", "nothing came before this")
    event = (await other.next_acknowledged())["payload"]["event"]
    assert event["text"] == "nothing came before this"


async def test_what_streams_answer_has_the_shape_of_the_recorded(world: World) -> None:
    root = await world.say("alice", "hello")
    client = world.client()
    started = await client.chat_startStream(channel=world.general, thread_ts=root, **RECIPIENT)
    target = {"channel": world.general, "ts": started["ts"]}
    appended = await client.chat_appendStream(**target, markdown_text="x")
    stopped = await client.chat_stopStream(**target)
    assert differences(started.data, sample("api/chat.startStream.json")) == []
    assert differences(appended.data, sample("api/chat.appendStream.json")) == []
    assert set(stopped.data) == {"ok", "channel", "ts", "message"}
