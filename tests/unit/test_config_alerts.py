"""Templates of alerts, and agents that channels name by their id in a service: what is read, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.app import settings_mapping
from swarm.config import BadSettings, Settings, load
from swarm.domain.model.threads import Author, AuthorKind, SlackMessage
from swarm.domain.policy.channels import ALERT_VARIABLES, AlertPolicy
from swarm.domain.prompts.alerts import alert_message, check_template

Read = Callable[[str], Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Settings of a swarm.yaml."""

    def read(yaml: str = "") -> Settings:
        (tmp_path / "swarm.yaml").write_text(yaml, encoding="utf-8")
        return load({}, folder=tmp_path, user_home=tmp_path / "nobody")

    return read


def alert(text: str, **more: str) -> SlackMessage:
    author = Author(id="B1", kind=AuthorKind.BOT, name="pager")
    return SlackMessage(channel="C1", ts="1700000000.000100", thread_ts=None, author=author, text=text, **more)  # type: ignore[arg-type]


# Templates


@pytest.mark.req("CHAN-04")
def test_values_are_inserted_once_and_braces_are_text() -> None:
    policy = AlertPolicy(
        template="{{{alert_text}}} {jira_project}{own}", jira_project="{own}", variables={"own": "{x}"}
    )
    hostile = "{own} {{own}} {alert_text.__class__} {0} %s ${HOME}"
    assert alert_message(alert(hostile), policy) == f"{{{hostile}}} {{own}}{{x}}"
    assert alert_message(alert("a &lt;@U1&gt; <@U2|bob>"), AlertPolicy(template="{alert_text}")) == "a <@U1> <@U2>"


BROKEN = {
    "{alert_txt}": ("no variable {alert_txt}", *ALERT_VARIABLES, "own"),
    "{alert_text.__class__}": ("'{alert_text.__class__}' is not a plain variable", *ALERT_VARIABLES),
    "{alert_text[0]}": ("'{alert_text[0]}' is not a plain variable",),
    "{alert_text!r}": ("'{alert_text!r}' is not a plain variable",),
    "{alert_text:>10}": ("'{alert_text:>10}' is not a plain variable",),
    "{}": ("'{}' is not a plain variable",),
    "{ alert_text }": ("'{ alert_text }' is not a plain variable",),
    "one\n{alert_text": ("line 2 has a single '{'; '{{' is a literal brace",),
    "alert_text}": ("line 1 has a single '}'; '}}' is a literal brace",),
    "{a{alert_text}": ("line 1 has a single '{'",),
}


@pytest.mark.req("CHAN-04")
@pytest.mark.parametrize(("template", "says"), BROKEN.items(), ids=BROKEN)
def test_a_broken_template_is_explained(template: str, says: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        check_template(template, ["own"])
    for words in says:
        assert words in str(refused.value)


@pytest.mark.req("CHAN-04")
@pytest.mark.parametrize(
    ("yaml", "key", "says"),
    [
        ("channels: {C123: {alerts: {template: '{nope}'}}}", "channels.C123.alerts.template", "no variable {nope}"),
        ("channel_defaults: {alerts: {template: '}'}}", "channel_defaults.alerts.template", "single '}'"),
        (
            "channel_defaults: {alerts: {template: '{own}'}, listen: alerts}\n"
            "channels: {C123: {alerts: {variables: {own: x}}}}",
            "channel_defaults.alerts.template",
            "no variable {own}",
        ),
        (
            "channel_defaults: {alerts: {template: '{own}'}}\n"
            "channels: {C123: {alerts: {variables: {own: x}}}, C456: {}}",
            "channels.C456.alerts.template",
            "no variable {own}",
        ),
        (
            "channels: {C123: {alerts: {template_file: missing.txt}}}",
            "channels.C123.alerts.template_file",
            "missing.txt cannot be read: No such file or directory",
        ),
        (
            "channels: {C123: {alerts: {template_file: bad.txt}}}",
            "channels.C123.alerts.template",
            "bad.txt: there is no variable {nope}",
        ),
        ("channels: {C123: {alerts: {template_file: empty.txt}}}", "channels.C123.alerts.template_file", "is empty"),
        ("channels: {C123: {alerts: {template_file: latin.txt}}}", "channels.C123.alerts.template_file", "utf-8"),
        ("channels: {C123: {alerts: {template_file: .}}}", "channels.C123.alerts.template_file", "directory"),
        ("channels: {C123: {alerts: {template_file: long.txt}}}", "channels.C123.alerts.template_file", "100,000"),
        (
            "channels: {C123: {alerts: {variables: {alert_text: x}}}}",
            "channels.C123.alerts.variables",
            "'alert_text' is set by swarm itself",
        ),
    ],
)
def test_a_template_that_cannot_be_used_is_named_by_its_key(
    read: Read, tmp_path: Path, yaml: str, key: str, says: str
) -> None:
    for name, content in {
        "bad.txt": b"{nope}",
        "empty.txt": b" \n",
        "latin.txt": b"\xff",
        "long.txt": b"x" * 100_001,
    }.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadSettings) as refused:
        read(yaml)
    assert list(refused.value.problems) == [key]
    assert says in refused.value.problems[key]
    assert key in refused.value.message


@pytest.mark.req("CHAN-04", "CHAN-01")
def test_a_channel_inherits_what_it_leaves_out_of_alerts(read: Read, tmp_path: Path) -> None:
    (tmp_path / "ours.txt").write_text("file {alert_text}", encoding="utf-8")
    policies = settings_mapping.policies(
        read(
            "channel_defaults: {alerts: {template: 'all {own}', window_seconds: 60, variables: {own: x}}}\n"
            "channels:\n  C123: {alerts: {jira_project: PAY}}\n  C456: {alerts: {template_file: ours.txt}}\n"
            "  C789: {alerts: {template: null}}\n"
        )
    )
    of = {channel: policies.of(channel).alerts for channel in ("C123", "C456", "C789", "C999")}
    assert (of["C123"].template, of["C123"].jira_project, of["C123"].window_seconds) == ("all {own}", "PAY", 60)
    assert [of[channel].template for channel in ("C456", "C789", "C999")] == ["file {alert_text}", None, "all {own}"]


# Agents by id

SERVICE = "agents: {remote: {caipe: {url: 'http://a', dialect: caipe, %s}}}\n"
TWO = """
agents:
  remote:
    one: {url: 'http://a', dialect: caipe}
    two: {url: 'http://b', dialect: caipe, agent_id: a-1}
"""
UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
DEFAULT_ID = "channel_defaults: {agent_id: a-2}\n"
BY_ID = "channels: {C123: {agent_id: %s}}"


@pytest.mark.req("CHAN-01", "STREAM-13")
@pytest.mark.parametrize(
    ("yaml", "agent", "agent_id"),
    [
        (SERVICE % "agent_id: a-1, role: worker" + BY_ID % "a-1", "caipe", "a-1"),
        (SERVICE % "agent_ids: {sre: a-1, docs: a-2}" + BY_ID % "a-2", "docs", "a-2"),
        (SERVICE % "agent_ids: {sre: a-1}" + BY_ID % "a-2", "a-2", "a-2"),
        (SERVICE % "agent_ids: {sre: a-1}" + BY_ID % "'Platform Team/7'", "platform-team-7", "Platform Team/7"),
        (SERVICE % "" + BY_ID % UUID, "3f2504e0-4f89-11d3-9a0c-d1bfaf4a", UUID),
        (SERVICE % "" + BY_ID % "all", "all-5ef5ef03", "all"),
        (SERVICE % "" + "channels: {C123: {agent: caipe, agent_id: a-1}}", "a-1", "a-1"),
        (SERVICE % "agent_ids: {sre: a-1}" + "channels: {C123: {agent: sre, agent_id: a-2}}", "a-2", "a-2"),
        (
            TWO + BY_ID % "a-1",
            "two",
            "a-1",
        ),
        (
            TWO + "channels: {C123: {agent: one, agent_id: a-1}}",
            "a-1",
            "a-1",
        ),
        (SERVICE % "agent_id: a-1" + "channel_defaults: {agent: other}\n" + BY_ID % "a-2", "a-2", "a-2"),
        (SERVICE % "agent_id: a-1" + DEFAULT_ID + "channels: {C123: {agent: caipe}}", "caipe", "a-1"),
        (SERVICE % "agent_id: a-1" + DEFAULT_ID, "a-2", "a-2"),
    ],
)  # fmt: skip
def test_a_channel_names_an_agent_by_its_id_in_a_service(read: Read, yaml: str, agent: str, agent_id: str) -> None:
    settings = read(yaml)
    assert settings_mapping.policies(settings).of("C123").agent == agent
    remote = {one.name: one for one in settings_mapping.remote_agents(settings)}
    assert remote[agent].agent_id == agent_id
    assert agent in {one.name for one in settings_mapping.streaming_agents(settings)}
    assert settings_mapping.channels_without_agent(settings) == []


@pytest.mark.req("CHAN-01")
def test_an_agent_by_id_has_the_settings_of_its_service(read: Read) -> None:
    settings = read(SERVICE % "role: worker, timeout_seconds: 7, token: secret, agent_ids: {sre: a-1}" + BY_ID % "a-2")
    (sre, derived) = settings_mapping.remote_agents(settings)
    assert (sre.name, derived.name, derived.url, derived.token, derived.timeout_seconds) == (
        "sre", "a-2", "http://a", "secret", 7
    )  # fmt: skip
    assert [one.role.value for one in settings_mapping.streaming_agents(settings)] == ["worker", "worker"]


@pytest.mark.req("CHAN-01")
@pytest.mark.parametrize(
    ("yaml", "key", "says"),
    [
        (BY_ID % "a-1", "channels.C123.agent_id", "there is no CAIPE service"),
        ("channel_defaults: {agent_id: a-1}", "channel_defaults.agent_id", "there is no CAIPE service"),
        (
            SERVICE % "" + "channels: {C123: {agent: ghost, agent_id: a-1}}",
            "channels.C123.agent_id",
            "agent is 'ghost', which is no CAIPE service",
        ),
        (
            "agents: {remote: {x: {url: 'http://a'}}}\nchannels: {C123: {agent: x, agent_id: a-1}}",
            "channels.C123.agent_id",
            "agent is 'x', which is no CAIPE service",
        ),
        (
            "agents: {remote: {x: {url: 'http://a', dialect: caipe}, y: {url: 'http://b', dialect: caipe}}}\n"
            + BY_ID % "a-1",
            "channels.C123.agent_id",
            "there are several CAIPE services (x, y); the key agent is expected to name one of them",
        ),
        (SERVICE % "agent_ids: {sre: a-1}" + BY_ID % "SRE", "channels.C123.agent_id", "would be named 'sre'"),
        (
            SERVICE % "" + "channels: {C123: {agent_id: A.1}, C456: {agent_id: a-1}}",
            "channels.C456.agent_id",
            "the agents 'A.1' and 'a-1' would both be named 'a-1'",
        ),
    ],
)
def test_an_id_without_a_service_or_a_name_stops_the_start(read: Read, yaml: str, key: str, says: str) -> None:
    with pytest.raises(BadSettings) as refused:
        read(yaml)
    assert list(refused.value.problems) == [key]
    assert says in refused.value.problems[key]
