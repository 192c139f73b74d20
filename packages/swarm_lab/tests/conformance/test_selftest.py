"""The rules about Slack, held against a workspace: nothing differs in the twin, and what is planted is found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient
from slack_twin.changes import Change, MessageChanged, MessageDeleted, MessagePosted
from slack_twin.faults import FaultKind
from slack_twin.seed import DEFAULT, SeedChannel
from slack_twin.server import running
from slack_twin.settings import Settings
from slack_twin.twin import Twin, build_twin
from slack_twin.workspace import Draft

from swarm.domain.errors import ConfigurationError
from swarm_lab.cli.slack_selftest import run
from swarm_lab.conformance.selftest import NO_EVENTS, NOT_ALONE, STOPPED, Finding, Selftest, selftest
from swarm_lab.conformance.selftest_events import ELSEWHERE
from swarm_lab.conformance.selftest_rules import RULES

pytestmark = pytest.mark.req("TWIN-08")

SEED = replace(
    DEFAULT, channels=(*DEFAULT.channels, SeedChannel(name="private", is_private=True, members=("alice", "swarm")))
)
APP_TOKEN = DEFAULT.apps[0].app_token
FEW = {name: RULES[name] for name in ("text: entities", "update: of text and blocks", "stream: text in pieces")}


@pytest.fixture
async def workspace() -> AsyncIterator[tuple[Twin, str]]:
    twin = build_twin(seed=SEED, rates=False, settings=Settings(own_events=True))
    async with running(twin) as url:
        yield twin, f"{url}api/"


async def tried(
    url: str, channel: str = "#private", *, told: Callable[[Finding], object] = lambda finding: None, **more: object
) -> Selftest:
    return await selftest(DEFAULT.apps[0].bot_token, url, channel, pace=False, told=told, **more)  # type: ignore[arg-type]


async def posts_in(url: str) -> int:
    client = AsyncWebClient(DEFAULT.apps[0].bot_token, base_url=url)
    (channel,) = (await client.users_conversations(types="private_channel"))["channels"]
    found = (await client.conversations_history(channel=channel["id"]))["messages"]
    return sum(one.get("subtype") != "channel_join" for one in found)


async def test_in_the_twin_nothing_differs_and_nothing_is_left(workspace: tuple[Twin, str]) -> None:
    twin, url = workspace
    told: list[Finding] = []
    done = await tried(url, told=told.append, app_token=APP_TOKEN)
    assert [one.rule for one in told] == list(RULES)
    assert [one for one in done.findings if one.differs or one.not_tried] == []
    assert (done.heard.not_tried, done.heard.others) == ("", set())
    assert all(one.slack["events"] for one in done.findings if one.slack["message"])
    assert (done.left, await posts_in(url)) == (0, 0)
    assert not list(twin.workspace.files.all())
    assert b"xoxb" not in done.report("today", {})


async def test_what_differs_is_named_with_both_answers(workspace: tuple[Twin, str]) -> None:
    twin, url = workspace
    twin.faults.plan(FaultKind.ERROR, method="chat.update", error="edit_window_closed")
    done = await tried(url, rules=FEW)
    (found,) = [one for one in done.findings if one.differs]
    assert (found.rule, found.slack["answers"][1], found.twin["answers"][1]) == (
        "update: of text and blocks",
        "edit_window_closed",
        "ok",
    )


async def test_what_the_app_may_not_do_is_not_tried(workspace: tuple[Twin, str]) -> None:
    twin, url = workspace
    twin.faults.plan(FaultKind.ERROR, method="chat.startStream", error="missing_scope")
    done = await tried(url, rules=FEW)
    assert {one.rule: one.not_tried for one in done.findings if one.not_tried} == {
        "stream: text in pieces": "missing_scope"
    }


async def test_a_break_deletes_what_was_posted(workspace: tuple[Twin, str]) -> None:
    _, url = workspace

    def broken_off(finding: Finding) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await tried(url, "private", told=broken_off, rules=FEW)
    assert await posts_in(url) == 0


@pytest.mark.parametrize(("channel", "said"), [("#general", "is public"), ("#nowhere", "in no channel #nowhere")])
async def test_a_channel_that_cannot_be_used_is_refused(workspace: tuple[Twin, str], channel: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await tried(workspace[1], channel)


async def test_what_differs_in_an_event_only_is_named(workspace: tuple[Twin, str]) -> None:
    twin, url = workspace

    def planted(change: Change) -> None:
        if isinstance(change, MessageChanged):
            change = replace(change, message=replace(change.message, text="planted"))
        twin.delivery.on_change(change)

    twin.workspace.listeners[:] = [planted]
    done = await tried(url, rules=FEW, app_token=APP_TOKEN)
    found = next(one for one in done.findings if one.rule == "update: of text and blocks")
    assert (found.differs, found.slack["message"]) == (True, found.twin["message"])
    assert [one["events"][1]["message"]["text"] for one in (found.slack, found.twin)] == ["planted", "a &amp; b"]


async def test_an_event_that_does_not_come_is_a_difference(workspace: tuple[Twin, str]) -> None:
    twin, url = workspace
    deliver = twin.delivery.on_change
    twin.workspace.listeners[:] = [lambda change: None if isinstance(change, MessageChanged) else deliver(change)]
    done = await tried(url, rules=FEW, app_token=APP_TOKEN, patience_seconds=0.2)
    assert [one.differs for one in done.findings] == [False, True, True]


async def test_without_a_token_for_it_or_without_own_events_events_are_not_tried(workspace: tuple[Twin, str]) -> None:
    twin, url = workspace
    assert (await tried(url, rules=FEW)).not_tried(FEW)["events"] == "SLACK_APP_TOKEN is not set"
    twin.workspace.own_events = False
    done = await tried(url, rules=FEW, app_token=APP_TOKEN, patience_seconds=0.2)
    assert (done.not_tried(FEW)["events"], [one.differs for one in done.findings]) == (NO_EVENTS, [False] * 3)
    assert (await tried(url, rules=FEW, app_token="xapp-wrong")).heard.not_tried == "invalid_auth"


@pytest.mark.parametrize("later", [False, True], ids=["before", "meanwhile"])
async def test_events_are_not_taken_from_a_running_coordinator(workspace: tuple[Twin, str], later: bool) -> None:
    url = workspace[1]
    others: list[object] = []
    session = aiohttp.ClientSession()

    async def connect() -> None:
        opened = await AsyncWebClient(base_url=url).apps_connections_open(app_token=APP_TOKEN)
        others.append(await session.ws_connect(opened["url"]))

    async with session:
        connecting: list[asyncio.Future[None]] = []
        if not later:
            await connect()
        told = (lambda finding: connecting.append(asyncio.ensure_future(connect()))) if later else str
        done = await tried(url, told=told, app_token=APP_TOKEN, rules=FEW, patience_seconds=0.2)
    assert done.heard.not_tried == (NOT_ALONE if later else ELSEWHERE)
    assert not any(one.differs for one in done.findings)


async def test_what_people_write_meanwhile_is_left_to_the_next_connection(workspace: tuple[Twin, str]) -> None:
    twin, url = workspace
    directory = twin.workspace.directory
    channel, alice = directory.channel("general"), directory.user("alice")
    assert channel is not None
    assert alice is not None
    message = Draft(user=alice.id, text="meanwhile")
    done = await tried(url, told=lambda finding: twin.workspace.post(channel, message), app_token=APP_TOKEN, rules=FEW)
    assert ([one.differs for one in done.findings], len(done.heard.others)) == ([False] * 3, 3)
    assert not any(one["acked"] for one in twin.delivery.journal.since(0) if one["channel"] == channel.id)
    assert b"meanwhile" not in done.report("today", {})


@pytest.mark.parametrize("when", [MessagePosted, MessageDeleted])
async def test_when_it_is_stopped_nothing_is_left_and_the_rest_is_not_tried(
    workspace: tuple[Twin, str], when: type[Change]
) -> None:
    twin, url = workspace
    stop = asyncio.Event()
    twin.workspace.listeners.append(lambda change: stop.set() if isinstance(change, when) else None)
    done = await tried(url, rules=FEW, app_token=APP_TOKEN, stop=stop)
    assert (done.left, await posts_in(url)) == (0, 0)
    assert [why for name, why in done.not_tried(FEW).items() if name in FEW] == (
        [STOPPED] * 3 if when is MessagePosted else []
    )


@pytest.mark.parametrize("app_token", ["", "xapp-environment"])
def test_the_command_takes_its_tokens_from_the_environment(
    app_token: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-environment")
    monkeypatch.setenv("SLACK_APP_TOKEN", app_token)
    monkeypatch.setenv("SLACK_API_BASE_URL", "http://127.0.0.1:9/api/")
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:9/api/ cannot be reached"):
        run("#private", None)
