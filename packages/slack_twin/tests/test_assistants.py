"""The display of apps in threads (status, title, prompts, session), and the assistant pane."""

import asyncio
from typing import Any

import pytest
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.middleware.assistant.async_assistant import AsyncAssistant
from slack_sdk.errors import SlackApiError

from tests.test_bolt import connected
from tests.world import PATIENCE_SECONDS, World

pytestmark = pytest.mark.req("TWIN-02")
PAST = "1000000000.000100"


async def status_in(world: World, thread_ts: str) -> dict[str, Any] | None:
    statuses = (await world.ask("GET", "assistant"))["statuses"]
    return next((status for status in statuses if status["thread_ts"] == thread_ts), None)


async def shown_in(world: World, thread_ts: str) -> dict[str, Any]:
    shown: list[dict[str, Any]] = (await world.ask("GET", "assistant"))["assistants"]
    return next(beside for beside in shown if beside["thread_ts"] == thread_ts)


async def test_a_status_lasts_two_minutes_or_until_the_app_answers_or_clears_it(world: World) -> None:
    client, general = world.client(), world.general
    root = await world.say("alice", "hello")
    place: dict[str, Any] = {"channel_id": general, "thread_ts": root}
    await client.assistant_threads_setStatus(**place, status="is thinking…", loading_messages=["reading", "writing"])
    status = await status_in(world, root)
    assert status is not None
    assert (status["app"], status["text"], status["loading_messages"]) == (
        "swarm",
        "is thinking…",
        ["reading", "writing"],
    )
    await world.advance(119)
    assert await status_in(world, root)
    await world.advance(1)
    assert await status_in(world, root) is None
    await client.assistant_threads_setStatus(**place, status="is thinking…")
    await client.chat_postMessage(channel=general, thread_ts=root, text="done")
    assert await status_in(world, root) is None
    await client.assistant_threads_setStatus(**place, status="is thinking…")
    await client.assistant_threads_setStatus(**place, status="")
    assert await status_in(world, root) is None


async def test_a_thread_gets_a_title_and_prompts_to_choose_from(world: World) -> None:
    root = await world.say("alice", "hello", channel="@swarm")
    direct = (await world.client().conversations_open(users="U000ALICE"))["channel"]["id"]
    prompts = [{"title": "Summary", "message": "Summarise this channel"}]
    await world.client().assistant_threads_setTitle(channel_id=direct, thread_ts=root, title="Holidays")
    await world.client().assistant_threads_setSuggestedPrompts(
        channel_id=direct, thread_ts=root, prompts=prompts, title="Try"
    )
    shown = await shown_in(world, root)
    assert (shown["title"], shown["prompts_title"], shown["prompts"]) == ("Holidays", "Try", prompts)
    await world.client().assistant_threads_setSuggestedPrompts(channel_id=direct, prompts=prompts)
    assert (await shown_in(world, ""))["prompts"] == prompts


async def test_a_session_begins_with_its_first_status_and_is_renamed_afterwards(world: World) -> None:
    root = await world.say("alice", "hello")
    place: dict[str, Any] = {"channel_id": world.general, "thread_ts": root}
    client = world.client()
    with pytest.raises(SlackApiError, match="session_not_found"):
        await client.agents_sessions_rename(**place, title="x")
    begun = await client.agents_sessions_setStatus(
        **place, status="processing", title="Trip", initiator_user_id="U000ALICE"
    )
    assert (begun["status"], begun["title"]) == ("processing", "Trip")
    again = await client.agents_sessions_setStatus(**place, status="active", title="ignored")
    assert (again["status"], again["title"]) == ("active", "Trip")
    await client.agents_sessions_rename(**place, title="Journey")
    shown = await shown_in(world, root)
    assert (shown["session"], shown["title"]) == ("active", "Journey")


async def test_stop_concerns_a_session_that_is_processing_and_leaves_its_status_to_the_app(world: World) -> None:
    root = await world.say("alice", "hello")
    line = await world.line()
    place: dict[str, Any] = {"user": "alice", "channel": "general", "thread_ts": root}
    assert (await world.control("POST", "stop", place))[0] == 409
    session: dict[str, Any] = {"channel_id": world.general, "thread_ts": root}
    await world.client().agents_sessions_setStatus(**session, status="processing")
    await world.ask("POST", "stop", place)
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["type"], event["streaming_message_ts"]) == ("agent_session_stopped", [])
    assert (await shown_in(world, root))["session"] == "processing"
    await world.client().agents_sessions_setStatus(**session, status="active")
    assert (await world.control("POST", "stop", place))[0] == 409
    assert (await world.control("POST", "stop", place | {"thread_ts": PAST}))[0] == 404


async def test_bolts_assistant_serves_the_pane_of_a_person(world: World) -> None:
    """Opening the pane, switching the channel and writing in the pane work with Bolt's own Assistant."""
    contexts: asyncio.Queue[Any] = asyncio.Queue()
    app = AsyncApp(client=world.client(), process_before_response=True)
    assistant = AsyncAssistant()

    async def started(say: Any, set_suggested_prompts: Any, get_thread_context: Any) -> None:
        await say("How can I help?")
        await set_suggested_prompts(prompts=[{"title": "Hi", "message": "Say hi"}])
        await contexts.put((await get_thread_context())["channel_id"])

    async def moved(payload: dict[str, Any]) -> None:
        await contexts.put(payload["assistant_thread"]["context"]["channel_id"])

    async def answer(payload: dict[str, Any], set_status: Any, set_title: Any, say: Any) -> None:
        await set_title(payload["text"])
        await set_status("is typing…")
        await say(f"You said {payload['text']}")
        await contexts.put("answered")

    assistant.thread_started(started)
    assistant.thread_context_changed(moved)
    assistant.user_message(answer)
    app.assistant(assistant)

    async def next_context() -> Any:
        return await asyncio.wait_for(contexts.get(), PATIENCE_SECONDS)

    async with connected(app):
        pane = {"user": "alice", "app": "swarm"}
        opened = await world.ask("POST", "assistant", pane | {"channel": "general"})
        assert await next_context() == world.general
        await world.ask("POST", "assistant", pane | {"channel": "random", "thread_ts": opened["thread_ts"]})
        assert await next_context() == "C00RANDOM"
        await world.say("alice", "hello", channel="@swarm", thread_ts=opened["thread_ts"])
        assert await next_context() == "answered"
    thread = await world.seen("@swarm", user="alice", thread_ts=opened["thread_ts"])
    assert [message["text"] for message in thread] == [
        "New Assistant Thread",
        "How can I help?",
        "hello",
        "You said hello",
    ]
    shown = await shown_in(world, opened["thread_ts"])
    assert (shown["title"], shown["prompts"]) == ("hello", [{"title": "Hi", "message": "Say hi"}])


def manifest_of(name: str, features: dict[str, Any]) -> dict[str, Any]:
    return {
        "display_information": {"name": name},
        "features": features,
        "oauth_config": {"scopes": {"bot": ["chat:write", "im:history", "assistant:write"]}},
        "settings": {
            "socket_mode_enabled": True,
            "event_subscriptions": {
                "bot_events": ["app_home_opened", "assistant_thread_started", "message.im"],
            },
        },
    }


async def test_an_agent_has_a_messages_tab_and_sessions_and_an_assistant_has_a_pane(world: World) -> None:
    """Each ignores or refuses what belongs to the other, as an app with neither does."""
    views: dict[str, dict[str, Any]] = {
        "agent": {"agent_view": {"agent_description": "x"}},
        "assistant": {"assistant_view": {"assistant_description": "x"}},
        "plain": {},
    }
    await world.ask("POST", "seed", {"apps": [{"manifest": manifest_of(name, views[name])} for name in views]})
    heard, worked = {}, {}
    for name in views:
        line, client = await world.line(f"xapp-twin-{name}"), world.client(f"xoxb-twin-{name}")
        await world.ask("POST", "assistant", {"user": "alice", "app": name})
        await world.ask("POST", "homes", {"user": "alice", "app": name, "tab": "messages", "channel": "general"})
        root = await world.say("alice", "hi", channel=f"@{name}")
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != "message":
            events.append((await line.next_acknowledged())["payload"]["event"])
        heard[name] = [(event["type"], event.get("context")) for event in events[:-1]]
        direct = events[-1]["channel"]
        place: dict[str, Any] = {"channel_id": direct, "thread_ts": root}
        _, begun = await world.raw(
            "agents.sessions.setStatus", token=f"xoxb-twin-{name}", json=place | {"status": "active"}
        )
        prompts = [{"title": "Hi", "message": "Say hi"}]
        await client.assistant_threads_setSuggestedPrompts(**place, prompts=prompts)
        await client.assistant_threads_setSuggestedPrompts(channel_id=direct, prompts=prompts)
        shown = (await world.ask("GET", "assistant"))["assistants"]
        worked[name] = (
            begun.get("error"),
            [one["thread_ts"] == "" for one in shown if one["app"] == name and one["prompts"]],
        )
    entity = {"type": "slack#/types/channel_id", "value": world.general, "team_id": "T0TWIN"}
    assert heard == {
        "agent": [("app_home_opened", {"entities": [entity]})],
        "assistant": [("assistant_thread_started", None), ("app_home_opened", None)],
        "plain": [("app_home_opened", None)],
    }
    assert worked == {
        "agent": (None, [True]),
        "assistant": ("feature_not_enabled", [False]),
        "plain": ("feature_not_enabled", [False]),
    }


async def test_a_manifest_declares_an_agent_or_an_assistant_but_not_both(world: World) -> None:
    both = manifest_of("both", {"agent_view": {"a": 1}, "assistant_view": {"a": 1}})
    status, answer = await world.control("POST", "seed", {"apps": [{"manifest": both}]})
    assert status == 422
    assert "exclude each other" in answer["error"]["message"]
    assert (await world.control("POST", "homes", {"user": "alice", "app": "swarm", "tab": "about"}))[0] == 422


async def test_an_app_that_is_no_assistant_hears_of_no_pane(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "plain", "scopes": ["im:history"]}]})
    line = await world.line("xapp-twin-plain")
    await world.ask("POST", "assistant", {"user": "alice", "app": "plain"})
    await world.say("alice", "hi", channel="@plain")
    assert (await line.next_acknowledged())["payload"]["event"]["type"] == "message"


WRONG_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("assistant.threads.setStatus", {"thread_ts": PAST, "status": "x"}, "invalid_thread_ts"),
    ("assistant.threads.setStatus", {}, "invalid_arguments"),
    ("assistant.threads.setStatus", {"status": "x", "loading_messages": ["x"] * 11}, "invalid_arguments"),
    ("assistant.threads.setStatus", {"status": "x", "loading_messages": [1]}, "invalid_arguments"),
    ("assistant.threads.setTitle", {"thread_ts": PAST, "title": "x"}, "invalid_thread_ts"),
    ("assistant.threads.setTitle", {}, "invalid_arguments"),
    ("assistant.threads.setSuggestedPrompts", {"prompts": [{"title": "x"}]}, "invalid_arguments"),
    ("assistant.threads.setSuggestedPrompts", {"prompts": [{"title": "x", "message": "y"}] * 5}, "invalid_arguments"),
    ("assistant.threads.setSuggestedPrompts", {"channel_id": "C404", "prompts": []}, "channel_not_found"),
    ("agents.sessions.setStatus", {"status": "asleep"}, "invalid_status"),
    ("agents.sessions.setStatus", {"status": "active", "thread_ts": PAST}, "invalid_thread_ts"),
    ("agents.sessions.setStatus", {"status": "active", "title": "x" * 201}, "invalid_arguments"),
    ("agents.sessions.setStatus", {"status": "active", "initiator_user_id": "U404"}, "user_not_in_channel"),
    ("agents.sessions.rename", {"title": "x"}, "session_not_found"),
]


async def test_a_call_that_makes_no_sense_is_refused_with_slacks_code(world: World) -> None:
    place: dict[str, Any] = {"channel_id": world.general, "thread_ts": await world.say("alice", "hello")}
    answers = [(method, more, await world.error(method, json=place | more)) for method, more, _ in WRONG_CALLS]
    assert answers == WRONG_CALLS
    assert (await world.ask("GET", "assistant")) == {"assistants": [], "statuses": []}
