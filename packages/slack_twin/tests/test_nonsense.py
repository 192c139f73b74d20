"""Arbitrary blocks, views, actions and responses, which must be accepted or refused in Slack's format."""

import asyncio
import copy
import random
from collections.abc import Callable
from typing import Any

import httpx2
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from slack_twin import build_twin, create_app

from tests.acting import (
    Json,
    actions,
    button,
    heard,
    modal,
    on_view,
    opened,
    options,
    plain,
    posted,
    pressing,
    text_input,
)
from tests.test_blocks import GOOD, GOOD_IN_MESSAGES
from tests.world import BOT_TOKEN, World

pytestmark = pytest.mark.req("TWIN-02", "TWIN-03")

JUNK: list[Any] = [
    *(None, True, 0, -1, 2**31, 1.5, "", "x", "\x00", "a" * 4_000, "\U000e0041", [], {}, [[]], [{}], [None], ["x"]),
    *({"type": "plain_text"}, {"type": "mrkdwn", "text": "x"}, {"type": "button"}, {"type": ["x"]}, {"text": {}}),
]
ELEMENTS = [
    *(button("a"), {"type": "static_select", "options": options("a", "b")}, {"type": "users_select"}),
    *({"type": "checkboxes", "options": options("a")}, {"type": "datepicker"}, {"type": "multi_channels_select"}),
    *({"type": "overflow", "options": options("a")}, {"type": "external_select"}, {"type": "datetimepicker"}),
]
BLOCKS: list[Json] = [*GOOD, *GOOD_IN_MESSAGES, actions(*ELEMENTS)]
VALUES: list[Any] = [
    *JUNK,
    "a",
    "alice",
    "#general",
    "2026-11-21",
    "09:30",
    ["a"],
    {"value": "a"},
    {"selected_option": 1},
]


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the path to every value in a structure."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(place for key, held in inner for place in places(held, (*path, key)))]


def spoiled(structure: Any, pick: Callable[[list[Any]], Any]) -> Any:
    """Returns the structure with nonsense at a random place, or with a value removed."""
    structure = copy.deepcopy(structure)
    *way, last = pick([place for place in places(structure) if place])
    node = structure
    for key in way:
        node = node[key]
    junk = pick([*JUNK, "LEAVE OUT"])
    if junk == "LEAVE OUT":
        del node[last]
    else:
        node[last] = junk
    return structure


@st.composite
def spoiled_blocks(draw: st.DrawFn) -> list[Any]:
    blocks: Any = draw(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=3))
    for _ in range(draw(st.integers(0, 2))):
        blocks = spoiled(blocks, lambda choices: draw(st.sampled_from(choices))) or [{}]
    return list(blocks)


async def play(blocks: list[Any], values: list[Any]) -> None:
    """Posts the blocks in a message, publishes them in a home tab, and acts on every interactive element."""
    twin = build_twin(rates=False)
    transport = httpx2.ASGITransport(app=create_app(twin))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:

        async def ask(path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
            answer = await http.post(path, content=orjson.dumps(body), headers={**JSON, **(headers or {})})
            assert answer.status_code < 500, answer.text
            return answer.json()

        token = {"Authorization": f"Bearer {BOT_TOKEN}"}
        message = await ask("/api/chat.postMessage", {"channel": "C0GENERAL", "blocks": blocks}, token)
        assert message["ok"] or message["error"] in REFUSALS, message
        home = {"user_id": "U000ALICE", "view": {"type": "home", "blocks": blocks}}
        view = await ask("/api/views.publish", home, token)
        assert view["ok"] or view["error"] == "invalid_arguments", view
        targets = [{"channel": "general", "ts": message["ts"]}] if message["ok"] else []
        targets += [{"view_id": view["view"]["id"]}] if view["ok"] else []
        shown = (message.get("message") or view.get("view") or {}).get("blocks", [])
        for target in targets:
            for action_id in action_ids(shown) | {"nowhere"}:
                for value in values:
                    act = {"user": "alice", "action_id": action_id, "value": value, "wait_seconds": 0, **target}
                    await ask("/twin/actions", act)
                    await ask("/twin/suggestions", {key: act[key] for key in act if key != "wait_seconds"})
                    await ask("/twin/actions", act | {"state": {action_id: value}})
    await twin.close()


JSON = {"Content-Type": "application/json"}
REFUSALS = {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "invalid_attachments", "no_text"}


def action_ids(node: Any) -> set[str]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    own = {node["action_id"]} if isinstance(node, dict) and isinstance(node.get("action_id"), str) else set()
    return own.union(*map(action_ids, inner))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks=spoiled_blocks(), values=st.lists(st.sampled_from(VALUES), max_size=3))
@example(blocks=[actions(*ELEMENTS)], values=VALUES)
def test_blocks_of_any_sort_are_refused_or_can_be_acted_on(blocks: list[Any], values: list[Any]) -> None:
    asyncio.run(play(blocks, values))


async def test_answers_of_any_sort_to_what_people_do_are_survived(world: World) -> None:
    """Almost valid responses reach the deepest code."""
    world.twin.limits.enabled = False
    pick = random.Random(7).choice
    line = await world.line()
    ts = await posted(world, actions({"type": "external_select", "action_id": "city"}))
    following = modal(text_input("name"), actions(button("a")))
    good: list[Any] = [
        {"response_action": "update", "view": following},
        {"response_action": "push", "view": following},
        {"response_action": "errors", "errors": {"name": "x"}},
        {"options": options("a", "b"), "option_groups": [{"label": plain("g"), "options": options("c")}]},
        {"text": "x", "blocks": [actions(button("a"))], "response_type": "in_channel", "attachments": [{"blocks": []}]},
    ]
    for _ in range(60):
        answer = spoiled(pick(good), pick)
        view = await opened(world, line, following)
        _, told = await heard(line, on_view(world, view["id"], submit=True, state={"name": "x"}), answer)
        assert told["ok"] is (told.get("error") is None)
        command = {"user": "alice", "channel": "general", "command": "/swarm", "wait_seconds": 0}
        _, told = await heard(line, asyncio.create_task(world.ask("POST", "commands", command)), answer)
        assert told["ok"] is (told.get("error") is None)
        asked = {"user": "alice", "channel": "general", "ts": ts, "action_id": "city", "value": "x"}
        _, told = await heard(line, asyncio.create_task(world.ask("POST", "suggestions", asked)), answer)
        assert isinstance(told["options"], list)


async def test_bodies_of_any_sort_at_a_response_url_are_survived(world: World) -> None:
    world.twin.limits.enabled = False
    pick = random.Random(7).choice
    line = await world.line()
    good = {"text": "x", "blocks": [actions(button("a"))], "replace_original": True, "thread_ts": "1.2"}
    for _ in range(20):
        payload, _ = await heard(line, pressing(world, await posted(world, actions(button("go"))), "go"))
        for _ in range(5):
            async with world.http.post(payload["response_url"], json=spoiled(good, pick)) as answer:
                assert answer.status in (200, 400)


CONTROL: list[tuple[str, Json, int]] = [
    ("commands", {"user": "alice", "channel": "general", "command": 7}, 422),
    ("commands", {"user": "alice", "channel": "general", "command": "/swarm", "text": []}, 422),
    ("commands", {"user": "alice", "channel": "general", "command": "/swarm", "wait_seconds": -1}, 422),
    ("shortcuts", {"user": "alice", "app": "nobody", "callback_id": "x"}, 404),
    ("shortcuts", {"user": "alice", "app": "swarm"}, 422),
    ("shortcuts", {"user": "alice", "app": "swarm", "callback_id": "x", "channel": "general", "ts": "1.2"}, 404),
    ("suggestions", {"user": "alice", "view_id": "V404", "action_id": "x"}, 404),
    ("suggestions", {"user": "alice", "channel": "general", "ts": "1.2", "action_id": "x"}, 404),
    ("homes", {"user": "alice"}, 422),
    ("homes", {"user": "alice", "app": "nobody"}, 404),
    ("seed", {"apps": [{"name": "x", "commands": [{"description": "x"}]}]}, 422),
    ("seed", {"apps": [{"name": "x", "commands": "x"}]}, 422),
]


@pytest.mark.parametrize(("path", "body", "status"), CONTROL, ids=lambda part: str(part)[:60])
async def test_a_control_call_that_makes_no_sense_is_refused(world: World, path: str, body: Json, status: int) -> None:
    found, answer = await world.control("POST", path, body)
    assert (found, set(answer)) == (status, {"error"})


async def test_the_views_of_nobody_are_not_found(world: World) -> None:
    for query in ("", "?user=", "?user=nobody"):
        status, answer = await world.control("GET", f"views{query}")
        assert (status, answer["error"]["code"]) == (404, "not_found")
