"""The manifest asks for what the code uses, and for nothing else."""

from __future__ import annotations

import ast
import inspect
import re
from types import ModuleType
from typing import Any

import pytest

from swarm.domain.answers import calls
from swarm.slack import manifest
from swarm.slack.incoming import payloads
from swarm.slack.outgoing import files, gateway, pacing, sessions, streams, web_api

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
    callers = (gateway, files, sessions, streams, calls, web_api)
    called = set().union(*map(methods_in, callers)) - {files.FILE_HOST}
    assert called == set(manifest.METHOD_SCOPES)
    assert called == set(pacing.METHOD_LIMITS)


def test_the_scopes_are_those_of_the_methods_and_events() -> None:
    assert manifest.bot_scopes() == [
        "app_mentions:read",
        "assistant:write",
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
    assert sorted(manifest.WHY) == manifest.bot_scopes(emails=True)


@pytest.mark.req("CHAN-03")
def test_peoples_addresses_are_asked_for_only_if_they_are_shared() -> None:
    assert set(manifest.bot_scopes(emails=True)) - set(manifest.bot_scopes()) == {"users:read.email"}


@pytest.mark.req("STREAM-09", "CHAN-08")
def test_an_app_is_an_agent_unless_a_pane_or_neither_is_asked_for() -> None:
    view = manifest.View
    apps: dict[manifest.View, Any] = {one: manifest.manifest(view=one) for one in view}
    assert manifest.manifest() == apps[view.AGENT]
    assert set(manifest.bot_scopes(view.AGENT)) == set(manifest.bot_scopes(view.ASSISTANT))
    assert set(manifest.bot_scopes()) - set(manifest.bot_scopes(view.PLAIN)) == {"assistant:write"}
    assert {one: events_of(app) - set(manifest.EVENT_SCOPES) for one, app in apps.items()} == {
        view.AGENT: {"agent_session_stopped", "app_home_opened"},
        view.ASSISTANT: {"app_home_opened", "assistant_thread_started", "assistant_thread_context_changed"},
        view.PLAIN: {"app_home_opened"},
    }
    handled = inspect.getsource(payloads)
    for event in set().union(*manifest.VIEW_EVENT_SCOPES.values()):
        assert f'"{event}"' in handled
    features = {one: app["features"] for one, app in apps.items()}
    shown = {one: set(has) & {"agent_view", "assistant_view"} for one, has in features.items()}
    assert shown == {view.AGENT: {"agent_view"}, view.ASSISTANT: {"assistant_view"}, view.PLAIN: set()}
    assert 0 < len(features[view.AGENT]["agent_view"]["agent_description"]) <= 300
    for name, has in (("agent_view", features[view.AGENT]), ("assistant_view", features[view.ASSISTANT])):
        assert 0 < len(has[name]["suggested_prompts"]) <= 4


def events_of(app: dict[str, Any]) -> set[str]:
    return set(app["settings"]["event_subscriptions"]["bot_events"])


def test_socket_mode_needs_no_address_and_http_has_one() -> None:
    socket, http = manifest.manifest(manifest.EventTransport.SOCKET), manifest.manifest(manifest.EventTransport.HTTP)
    events = [
        "agent_session_stopped",
        "app_home_opened",
        "app_mention",
        "message.channels",
        "message.groups",
        "message.im",
        "message.mpim",
    ]
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
    assert command_of(socket)["usage_hint"] == "status | agents | tasks | stop | explain | feedback | help"


def command_of(found: dict[str, object]) -> dict[str, Any]:
    assert isinstance(found["features"], dict)
    (command,) = found["features"]["slash_commands"]
    return dict(command)
