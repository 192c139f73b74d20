"""The rules about Slack, held against a workspace: nothing differs in the twin, and what is planted is found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from slack_twin.faults import FaultKind
from slack_twin.seed import DEFAULT, SeedChannel
from slack_twin.server import running
from slack_twin.twin import Twin, build_twin
from swarm_lab.conformance.selftest import Finding, Selftest, selftest
from swarm_lab.conformance.selftest_rules import RULES

from swarm.domain.errors import ConfigurationError

pytestmark = pytest.mark.req("TWIN-08")

SEED = replace(
    DEFAULT, channels=(*DEFAULT.channels, SeedChannel(name="private", is_private=True, members=("alice", "swarm")))
)
FEW = {name: RULES[name] for name in ("text: entities", "update: of text and blocks", "stream: text in pieces")}


@pytest.fixture
async def workspace() -> AsyncIterator[tuple[Twin, str]]:
    twin = build_twin(seed=SEED, rates=False)
    async with running(twin) as url:
        yield twin, f"{url}api/"


async def tried(url: str, channel: str = "#private", *, told: list[Finding] | None = None, **more: object) -> Selftest:
    listener = (told if told is not None else []).append
    return await selftest(DEFAULT.apps[0].bot_token, url, channel, pace=False, told=listener, **more)  # type: ignore[arg-type]


async def posts_in(url: str) -> int:
    client = AsyncWebClient(DEFAULT.apps[0].bot_token, base_url=url)
    (channel,) = (await client.users_conversations(types="private_channel"))["channels"]
    found = (await client.conversations_history(channel=channel["id"]))["messages"]
    return sum(one.get("subtype") != "channel_join" for one in found)


async def test_in_the_twin_nothing_differs_and_nothing_is_left(workspace: tuple[Twin, str]) -> None:
    _, url = workspace
    told: list[Finding] = []
    done = await tried(url, told=told)
    assert [one.rule for one in told] == list(RULES)
    assert [one for one in done.findings if one.differs or one.not_tried] == []
    assert (done.left, await posts_in(url)) == (0, 0)
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
        await selftest(DEFAULT.apps[0].bot_token, url, "private", pace=False, told=broken_off, rules=FEW)
    assert await posts_in(url) == 0


@pytest.mark.parametrize(("channel", "said"), [("#general", "is public"), ("#nowhere", "in no channel #nowhere")])
async def test_a_channel_that_cannot_be_used_is_refused(workspace: tuple[Twin, str], channel: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await tried(workspace[1], channel)
