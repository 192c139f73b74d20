"""The settings against the twin: what is found, and how few calls it takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from slack_twin.people import Channel, ChannelKind

from swarm.app import slack_check
from swarm.app.slack_check import SlackCheck, named
from swarm.config import Settings
from swarm.slack.outgoing.gateway import Gateway
from tests.contract.slack.workspace import Workspace

pytestmark = pytest.mark.req("OPS-17")

SLACK = {"bot_token": "xoxb-twin-swarm", "app_token": "xapp-twin-swarm"}


def settings(**values: Any) -> Settings:
    return Settings(**{"slack": SLACK, **values})


def in_channels(*channels: str, **more: Any) -> Settings:
    return settings(channels={channel: {"agent": "lead"} for channel in channels}, **more)


async def mistakes(gateway: Gateway, given: Settings) -> list[str]:
    return [one.message for one in await SlackCheck(gateway).look(given, named(given))]


async def test_every_kind_of_name_that_means_nothing_is_found_and_no_more_once_it_is_mended(
    workspace: Workspace, gateway: Gateway
) -> None:
    alone = {"members": ["alice"]}
    await workspace.seed(
        channels=[{"name": "old"}, {"name": "outside", **alone}, {"name": "secret", "is_private": True, **alone}],
        user_groups=[{"handle": "ops", "members": ["alice"]}],
    )
    directory, bot = workspace.twin.workspace.directory, workspace.app
    group = directory.user_groups["ops"].id
    old, outside, secret = [one.id for one in directory.channels.values() if one.name in ("old", "outside", "secret")]
    directory.channels[old].is_archived = True
    given = in_channels(
        "C0GENERAL", "C0GENERL", old, outside, secret,
        agents={"access": {"lead": {"channels": ["#general"], "users": ["U000ALICE", "alice"]}}},
        channel_defaults={"allowed_groups": [group, f"{group}X"], "allowed_bots": [bot.bot_id, "B0NOBODY", "*"]},
    )  # fmt: skip
    check = SlackCheck(gateway)
    assert [one.message for one in await check.look(given, named(given))] == [
        "agents.access.lead.channels: Slack shows the app no channel #general; did you mean C0GENERAL (#general)?",
        "agents.access.lead.users: Slack shows the app nobody with the id alice.",
        "channel_defaults.allowed_bots: Slack knows no bot B0NOBODY.",
        f"channel_defaults.allowed_groups: Slack knows no user group {group}X.",
        "channels.C0GENERL: Slack shows the app no channel C0GENERL; did you mean C0GENERAL (#general)?",
        f"channels.{old}: the channel {old} (#old) is archived.",
        f"channels.{outside}: the app is not in {outside} (#outside), and cannot answer there.",
        f"channels.{secret}: Slack shows the app no channel {secret}.",
    ]
    for channel in (outside, secret):
        directory.channels[channel].members[bot.bot_user] = None
    invited = in_channels("C0GENERAL", outside, secret)
    assert await check.look(invited, named(invited)) == ()
    switched_off = settings(channels={channel: {"enabled": False} for channel in (old, "C0NOWHERE")})
    assert [one.keys for one in await check.look(switched_off, named(switched_off))] == [("channels.C0NOWHERE",)]


async def test_a_large_workspace_costs_no_list_and_what_was_fine_no_second_call(
    workspace: Workspace, gateway: Gateway
) -> None:
    for number in range(3_000):
        channel = Channel(
            id=f"C0MANY{number:05}", name=f"many-{number}", kind=ChannelKind.PUBLIC, created=0, creator="U000ALICE"
        )
        workspace.twin.workspace.directory.channels[channel.id] = channel
    check, good = SlackCheck(gateway), in_channels("C0GENERAL", "C00RANDOM")
    for _ in range(3):
        assert await check.look(good, named(good)) == ()
    assert Counter(one["method"] for one in await workspace.all_calls()) == {"auth.test": 1, "conversations.info": 2}
    bad = in_channels("C0GENERAL", "C0MANY0012", "C0MANY0013")
    for _ in range(3):
        assert ["did you mean C0MANY" in one.message for one in await check.look(bad, named(bad))] == [True, True]
    calls = Counter(one["method"] for one in await workspace.all_calls())
    assert calls == {"auth.test": 1, "conversations.info": 8, "conversations.list": 4}


async def test_an_app_with_two_scopes_is_told_what_it_cannot_do(workspace: Workspace, gateway: Gateway) -> None:
    await workspace.seed(apps=[{"name": "swarm", "scopes": ["chat:write", "app_mentions:read"]}])
    (found,) = await mistakes(gateway, in_channels("C0NOWHERE", channel_defaults={"allowed_users": ["U0NOBODY"]}))
    assert "pass attachments of messages to the agents (files:read)" in found  # and nothing is said of what is hidden
    assert "chat:write" not in found
    assert "email" not in found
    (found,) = await mistakes(gateway, settings(channel_defaults={"share_email": True}))
    assert "users:read.email" in found


@pytest.mark.parametrize(
    ("error", "method", "said"),
    [
        ("missing_scope", "apps.connections.open", "SLACK_APP_TOKEN: missing_scope (it lacks connections:write)"),
        ("invalid_auth", "apps.connections.open", "SLACK_APP_TOKEN: invalid_auth."),
        ("token_revoked", "auth.test", "SLACK_BOT_TOKEN: token_revoked."),
    ],
)
async def test_without_a_coordinator_both_tokens_are_tried_too(
    workspace: Workspace, error: str, method: str, said: str
) -> None:
    given = in_channels("C0NOWHERE", slack={**SLACK, "api_base_url": workspace.api_url})
    assert await slack_check.ask(given, "C00RANDOM") == ()
    assert [one.keys for one in await slack_check.ask(given) or ()] == [("channels.C0NOWHERE",)]
    await workspace.fault("error", method=method, error=error)
    (found,) = await slack_check.ask(given) or ()
    assert said in found.message
    assert found.remedy
