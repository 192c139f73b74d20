"""The manifest asks for what the code uses, and for nothing else."""

from __future__ import annotations

import ast
import inspect
import re
from types import ModuleType
from typing import Any

import pytest

from swarm.domain.answers import calls
from swarm.domain.commands import Subcommand
from swarm.slack import manifest
from swarm.slack.incoming import payloads
from swarm.slack.outgoing import files, gateway, pacing, streams, web_api

pytestmark = pytest.mark.req("OPS-02")

METHOD = re.compile(
    r"(agents|apps|auth|bots|chat|conversations|reactions|usergroups|users|files|views|team|assistant)(\.\w+)+"
)


def methods_in(module: ModuleType) -> set[str]:
    """The names of Slack's methods among the string constants of a module."""
    constants = (
        node.value for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Constant)
    )
    return {value for value in constants if isinstance(value, str) and METHOD.fullmatch(value)}


def test_the_tables_name_exactly_the_methods_that_the_gateway_calls() -> None:
    callers = (gateway, files, streams, calls, web_api)
    called = set().union(*map(methods_in, callers)) - {files.FILE_HOST}
    assert called == set(manifest.METHOD_SCOPES)
    assert called == set(pacing.METHOD_LIMITS)


def test_the_scopes_are_those_of_the_methods_and_events() -> None:
    assert manifest.bot_scopes() == [
        "app_mentions:read",
        "channels:history",
        "channels:read",
        "chat:write",
        "commands",
        "files:read",
        "files:write",
        "groups:history",
        "groups:read",
        "im:history",
        "im:read",
        "mpim:history",
        "mpim:read",
        "reactions:write",
        "usergroups:read",
        "users:read",
    ]


def test_every_scope_has_its_reason() -> None:
    assert sorted(manifest.WHY) == manifest.bot_scopes(agent=True, emails=True)


@pytest.mark.req("CHAN-03")
def test_peoples_addresses_are_asked_for_only_if_they_are_shared() -> None:
    assert set(manifest.bot_scopes(emails=True)) - set(manifest.bot_scopes()) == {"users:read.email"}


@pytest.mark.req("STREAM-09")
def test_an_app_that_is_an_agent_hears_of_slacks_own_stop_and_asks_for_one_scope_more() -> None:
    plain, agent = manifest.manifest(), manifest.manifest(agent=True)
    assert set(manifest.bot_scopes(agent=True)) - set(manifest.bot_scopes()) == {"assistant:write"}
    assert events_of(agent) - events_of(plain) == {"agent_session_stopped"} == set(manifest.AGENT_EVENT_SCOPES)
    assert "agent_session_stopped" in inspect.getsource(payloads)
    assert isinstance(plain["features"], dict)
    assert isinstance(agent["features"], dict)
    assert "agent_view" not in plain["features"]
    assert 0 < len(agent["features"]["agent_view"]["agent_description"]) <= 300


def events_of(app: dict[str, Any]) -> set[str]:
    return set(app["settings"]["event_subscriptions"]["bot_events"])


def test_socket_mode_needs_no_address_and_http_has_one() -> None:
    socket, http = manifest.manifest(manifest.EventTransport.SOCKET), manifest.manifest(manifest.EventTransport.HTTP)
    events = ["app_home_opened", "app_mention", "message.channels", "message.groups", "message.im", "message.mpim"]
    assert isinstance(socket["settings"], dict)
    assert isinstance(http["settings"], dict)
    assert socket["settings"]["socket_mode_enabled"] is True
    assert socket["settings"]["event_subscriptions"] == {"bot_events": events}
    assert http["settings"]["socket_mode_enabled"] is False
    assert http["settings"]["event_subscriptions"] == {
        "bot_events": events,
        "request_url": "https://example.com/slack/events",
    }


@pytest.mark.req("CHAN-08")
def test_the_app_has_a_command_and_a_home_tab_and_in_http_mode_the_command_has_an_address() -> None:
    socket, http = manifest.manifest(), manifest.manifest(manifest.EventTransport.HTTP, request_url="https://a.b/slack")
    assert command_of(socket)["command"] == "/swarm"
    assert "url" not in command_of(socket)
    assert command_of(http)["url"] == "https://a.b/slack"
    assert isinstance(socket["features"], dict)
    assert socket["features"]["app_home"]["home_tab_enabled"] is True
    assert "app_home_opened" in events_of(socket)
    for subcommand in Subcommand:
        assert subcommand in command_of(socket)["usage_hint"]


def command_of(found: dict[str, object]) -> dict[str, Any]:
    assert isinstance(found["features"], dict)
    (command,) = found["features"]["slash_commands"]
    return dict(command)
