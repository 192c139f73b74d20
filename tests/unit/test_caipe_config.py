"""The configuration of CAIPE's Slack bot becomes settings: both generations, its variables, and what has no place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.app import settings_mapping
from swarm.config import Reading, checked_work_tree, read
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.threads import Author, AuthorKind
from swarm.domain.policy.access import denial
from swarm.domain.policy.channels import ChannelPolicy, Listen
from tests.support.caipe_configs import NEWER, OLDER, THIRTY

pytestmark = pytest.mark.req("OPS-11")

SERVICE = "http://caipe.example:8001"
Read = Callable[..., Reading]


@pytest.fixture
def understood(tmp_path: Path) -> Read:
    """The settings of a swarm.yaml, a configuration of CAIPE's bot, and variables."""

    def understood(bot: str = "", yaml: str = "", **variables: str) -> Reading:
        (tmp_path / "swarm.yaml").write_text(yaml, encoding="utf-8")
        given = {"SLACK_INTEGRATION_BOT_CONFIG": bot} if bot else {}
        return read(given | variables, folder=tmp_path, user_home=tmp_path / "nobody")

    return understood


def policy(reading: Reading, channel: str) -> ChannelPolicy:
    return settings_mapping.policies(reading.settings).of(channel)


def agent_ids(reading: Reading) -> dict[str, str | None]:
    return {agent.name: agent.agent_id for agent in settings_mapping.remote_agents(reading.settings)}


def test_thirty_channels_of_both_generations_are_settings(understood: Read) -> None:
    reading = understood(THIRTY, DYNAMIC_AGENTS_URL=SERVICE)
    assert len(reading.settings.channels) == 30
    ids = agent_ids(reading)
    assert ids["platform-engineer"] == "platform-engineer"
    assert ids["cloud-docs-v2"] == "Cloud_Docs.v2", "an id that cannot be a name"
    (long,) = (name for name in ids if name.startswith("the-agent-of-the-data"))
    assert ids[long] == "the-agent-of-the-data-platform-team-in-production"
    assert len(long) <= 32
    assert {agent.url for agent in settings_mapping.remote_agents(reading.settings)} == {SERVICE}
    named = {policy(reading, channel).agent for channel in reading.settings.channels} - {None}
    assert named <= ids.keys(), "every channel's agent exists"


@pytest.mark.parametrize(
    ("channel", "enabled", "listen", "overthink", "bots"),
    [
        ("C0PLATHELP1", True, Listen.ALL, True, set()),
        ("C0PLATFORM1", True, Listen.MENTION, False, set()),
        ("C0DEVEX0001", True, Listen.MENTION, False, set()),  # merged with <<
        ("C0CLOUDQNA1", True, Listen.ALL, False, set()),
        ("C0CICDHELP1", True, Listen.ALL, True, {"B0JENKINS01"}),
        ("C0FEEDBACK1", True, Listen.ALL, False, {"*"}),
        ("C0ALERTS001", True, Listen.ALERTS, False, {"*"}),
        ("C0ALERTS002", True, Listen.ALERTS, False, {"*"}),
        ("C0ALERTS003", True, Listen.ALERTS, False, {"*"}),
        ("C0OLDTEAM01", False, Listen.MENTION, False, set()),
        ("C0ANNOUNCE1", False, Listen.MENTION, False, set()),
        ("C1SUPPORT01", True, Listen.ALL, True, set()),
        ("C1SUPPORT02", True, Listen.MENTION, False, set()),
        ("C1BOTS00001", True, Listen.BOTS, False, {"*"}),
        ("C1BOTS00002", True, Listen.BOTS, False, {"B1ARGOCD001"}),
        ("C1AMBIENT01", True, Listen.ALL, False, set()),
        ("C1OFF000001", False, Listen.MENTION, False, set()),
        ("C1EMPTY0001", True, Listen.MENTION, False, set()),
        ("C1MARKERS01", True, Listen.ALL, True, {"*"}),
        ("C1WORKFLOW1", True, Listen.MENTION, False, {"*"}),
    ],
)
def test_a_channel_listens_as_it_did(
    understood: Read, channel: str, enabled: bool, listen: Listen, overthink: bool, bots: set[str]
) -> None:
    chosen = policy(understood(THIRTY, DYNAMIC_AGENTS_URL=SERVICE), channel)
    assert (chosen.enabled, chosen.listen, chosen.overthink, set(chosen.allowed_bots)) == (
        enabled,
        listen,
        overthink,
        bots,
    )


def test_alerts_keep_their_template_and_the_fields_of_a_ticket(understood: Read) -> None:
    reading = understood(OLDER, DYNAMIC_AGENTS_URL=SERVICE, SLACK_INTEGRATION_PROMPT_AI_ALERTS="Look: {alert_text}")
    own = policy(reading, "C0ALERTS001").alerts
    assert own.template is not None
    assert '{{"severity": "high", "ticket": "{jira_project}-1"}}' in own.template
    assert own.jira_project == "OPS"
    assert own.jira_config == {
        "project_key": "OPS",
        "issue_type": "Incident",
        "additional_fields": {"labels": ["alert", "auto"], "customfield_10042": {"value": "P2"}},
    }
    assert policy(reading, "C0ALERTS002").alerts.template == "Look: {alert_text}"
    assert policy(reading, "C0ALERTS002").alerts.jira_config["issue_type"] == "Bug", "CAIPE's default"


def test_escalations_are_taken_over(understood: Read) -> None:
    reading = understood(THIRTY, DYNAMIC_AGENTS_URL=SERVICE)
    older = policy(reading, "C0PLATHELP1").escalation
    assert (older.users, older.groups, older.emoji) == (("U0ONCALL001",), ("S0PLATTEAM1",), "rotating_light")
    assert (older.agent, older.team) == ("platform-engineer", "platform-oncall")
    assert policy(reading, "C0ALERTS003").escalation.agent == "oncall-finder", "its own agent for VictorOps"
    newer = policy(reading, "C1SUPPORT01").escalation
    assert (newer.users, newer.emoji, newer.agent) == (("U1SUPPORT01",), "sos", "support-helper")
    asked = understood(NEWER, DYNAMIC_AGENTS_URL=SERVICE, SLACK_INTEGRATION_VICTOROPS_AGENT_ID="pager")
    assert policy(asked, "C1SUPPORT01").escalation.agent == "pager"
    assert agent_ids(asked)["pager"] == "pager"
    assert policy(reading, "C0ONCALL001").escalation.emoji == "eyes", "CAIPE's default"


def test_of_several_agents_the_one_that_hears_mentions_answers_and_the_others_can_be_addressed(
    understood: Read,
) -> None:
    reading = understood(NEWER, DYNAMIC_AGENTS_URL=SERVICE)
    assert (policy(reading, "C1MIXED0001").agent, policy(reading, "C1SEVERAL01").agent) == (
        "release-helper",
        "architect",
    )
    assert {"pipeline-watcher", "reviewer"} <= agent_ids(reading).keys()
    said = "\n".join(reading.elsewhere)
    assert "agents.0 (C1MIXED0001) is not taken over: one agent answers a channel; people reach this one with" in said
    assert "swarm#pipeline-watcher, and posts of bots do not reach it." in said


@pytest.mark.parametrize(
    "sentence",
    [
        "name (30 channels) is not taken over: channels are called as in Slack.",
        "other.delete_admins (C0PLATHELP1) is not taken over: nobody deletes the app's messages with a button; Slack's "
        "workspace admins can delete them.",
        "default (C0CLOUDQNA1) is not taken over: threads reach agents in full, up to prompts.history_characters.",
        "ai_enabled (C0ALERTS002) is channels.*.enabled, but people's mentions are answered as well.",
        "qanda.enabled (C0ALERTS003) is not taken over: a channel with alerts answers people's mentions only.",
        "qanda.overthnk (C0MISTAKE01) is not taken over: CAIPE's bot knows no such key.",
        "team (C1SUPPORT01) is not taken over: who may use an agent is in channels.*.allowed_users and agents.access.",
        "agents.0.execution_identity (C1SERVICE01) is not taken over: runs use the service's credentials "
        "(agents.remote.*.oauth).",
        "SLACK_INTEGRATION_APP_NAME is not taken over: the app is called as in Slack.",
    ],
)
def test_what_went_elsewhere_is_said_in_one_sentence_each(understood: Read, sentence: str) -> None:
    reading = understood(THIRTY, DYNAMIC_AGENTS_URL=SERVICE, SLACK_INTEGRATION_APP_NAME="Forge")
    assert reading.elsewhere.count(sentence) == 1


def test_a_bots_name_permits_nobody_and_is_said(understood: Read) -> None:
    reading = understood(OLDER, DYNAMIC_AGENTS_URL=SERVICE)
    assert policy(reading, "C0CICDHELP1").allowed_bots == {"B0JENKINS01"}
    (said,) = (one for one in reading.elsewhere if "GitLab" in one)
    assert "add its id (B… or U…) to allowed_bots" in said


def test_an_entry_of_the_settings_file_wins_as_a_whole(understood: Read) -> None:
    yaml = "channels: {C0PLATHELP1: {agent: own}, C0NEWONE001: {listen: all}}\nchannel_defaults: {share_email: true}"
    reading = understood(OLDER, yaml, DYNAMIC_AGENTS_URL=SERVICE)
    assert (policy(reading, "C0PLATHELP1").agent, policy(reading, "C0PLATHELP1").listen) == ("own", Listen.MENTION)
    assert policy(reading, "C0NEWONE001").listen is Listen.ALL
    assert policy(reading, "C0CLOUDQNA1").listen is Listen.ALL
    assert policy(reading, "C0CLOUDQNA1").share_email, "channel_defaults hold for translated channels"
    assert "C0PLATHELP1: the entries in the settings file count." in reading.elsewhere


def test_the_default_agents_are_translated(understood: Read) -> None:
    ids = {"SLACK_INTEGRATION_DEFAULT_AGENT_ID": "Platform", "SLACK_INTEGRATION_DM_AGENT_ID": "dm-agent"}
    reading = understood(OLDER, DYNAMIC_AGENTS_URL=SERVICE, **ids)
    assert (reading.settings.agents.default, reading.settings.agents.dm) == ("platform", "dm-agent")
    assert agent_ids(reading)["platform"] == "Platform"
    alone = understood(DYNAMIC_AGENTS_URL=SERVICE, **ids)
    assert agent_ids(alone) == {"platform": "Platform", "dm-agent": "dm-agent"}
    own = understood(OLDER, "agents: {default: lead}", DYNAMIC_AGENTS_URL=SERVICE, **ids)
    assert own.settings.agents.default == "lead", "the settings file wins"


def test_the_service_may_be_known_already(understood: Read) -> None:
    entry = "agents: {remote: {caipe: {url: 'http://own.example', dialect: caipe, token: secret-token, %s}}}"
    one = understood(NEWER, entry % "agent_id: architect")
    assert policy(one, "C1SEVERAL01").agent == "caipe", "the agent that has this id"
    other = next(agent for agent in settings_mapping.remote_agents(one.settings) if agent.name == "reviewer")
    assert (other.url, other.token, other.agent_id) == ("http://own.example", "secret-token", "reviewer")
    several = understood(NEWER, entry % "agent_ids: {house: architect, desk: support-helper}")
    assert (policy(several, "C1SEVERAL01").agent, policy(several, "C1SUPPORT02").agent) == ("house", "desk")
    assert {"house", "desk", "reviewer"} <= agent_ids(several).keys()


def test_an_agent_of_the_same_name_is_used(understood: Read) -> None:
    yaml = "model: {name: m}\nagents: {builtin: {network: {kind: assistant}}}"
    reading = understood(OLDER, yaml, DYNAMIC_AGENTS_URL=SERVICE)
    assert policy(reading, "C0NETWORK01").agent == "network"
    assert "network" not in agent_ids(reading)


def test_ids_that_would_have_one_name_get_two(understood: Read) -> None:
    bot = "C0AAAA: {ai_enabled: true, agent_id: docs}\nC0BBBB: {ai_enabled: true, agent_id: Docs}\n"
    reading = understood(bot + "C0CCCC: {ai_enabled: true, agent_id: swarm}", DYNAMIC_AGENTS_URL=SERVICE)
    assert sorted(agent_ids(reading).values(), key=str) == ["Docs", "docs", "swarm"]
    assert policy(reading, "C0AAAA").agent == "docs"
    assert str(policy(reading, "C0BBBB").agent).startswith("docs-")
    assert str(policy(reading, "C0CCCC").agent).startswith("swarm-"), "a reserved name"


def test_without_a_service_its_agents_are_missing_and_it_is_said(understood: Read) -> None:
    reading = understood(OLDER)
    assert agent_ids(reading) == {}
    assert "agent_id is not taken over: no CAIPE service is known; set DYNAMIC_AGENTS_URL." in reading.elsewhere


def test_the_web_interface_is_used_if_there_is_nothing_better(understood: Read) -> None:
    variables = {
        "CAIPE_API_URL": "http://web.example",
        "SLACK_INTEGRATION_ENABLE_AUTH": "true",
        "OAUTH2_TOKEN_URL": "http://login.example/token",
        "OAUTH2_CLIENT_ID": "bot",
        "SLACK_INTEGRATION_AUTH_CLIENT_ID": "slack-bot",
        "OAUTH2_CLIENT_SECRET": "hush-hush",
    }
    reading = understood(OLDER, **variables)
    agent = settings_mapping.remote_agents(reading.settings)[0]
    assert agent.url == "http://web.example"
    assert agent.oauth is not None
    assert (agent.oauth.client_id, agent.oauth.client_secret) == ("slack-bot", "hush-hush")
    assert any("refuses conversations that it has not opened" in said for said in reading.elsewhere)
    better = understood(OLDER, DYNAMIC_AGENTS_URL=SERVICE, **variables)
    assert settings_mapping.remote_agents(better.settings)[0].url == SERVICE
    assert not any("hush" in said for said in reading.elsewhere)


def test_a_silenced_bot_stays_silent(understood: Read) -> None:
    reading = understood(OLDER, DYNAMIC_AGENTS_URL=SERVICE, SLACK_INTEGRATION_SILENCE_ENV="TRUE")
    policies = settings_mapping.policies(reading.settings)
    assert not any(chosen.enabled for chosen in (*policies.channels.values(), policies.everywhere))


def test_the_names_of_caipes_variables_are_names_of_settings(understood: Read) -> None:
    reading = understood(
        SLACK_INTEGRATION_BOT_TOKEN="xoxb-theirs",
        SLACK_INTEGRATION_APP_TOKEN="xapp-theirs",
        SLACK_INTEGRATION_BOT_MODE="socket",
        SLACK_BOT_MODE="http",
    )
    slack = reading.settings.slack
    assert slack.bot_token is not None
    assert (slack.bot_token.get_secret_value(), slack.mode.value) == ("xoxb-theirs", "socket")
    ours = understood(
        SLACK_INTEGRATION_BOT_TOKEN="xoxb-theirs", SLACK_BOT_TOKEN="xoxb-ours", SLACK_APP_TOKEN="xapp-ours"
    )
    assert ours.settings.slack.bot_token is not None
    assert ours.settings.slack.bot_token.get_secret_value() == "xoxb-ours"


def test_the_configuration_may_be_a_file(understood: Read, tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text(OLDER, encoding="utf-8")
    assert understood("bot.yaml", DYNAMIC_AGENTS_URL=SERVICE).settings.channels.keys() >= {"C0PLATHELP1"}
    assert understood("{C0AAAA: {ai_enabled: true}}").settings.channels.keys() == {"C0AAAA"}
    long = f"{{C0AAAA: {{ai_enabled: true, name: {'x' * 5_000}}}}}"
    assert understood(long).settings.channels.keys() == {"C0AAAA"}, "longer than any path"


@pytest.mark.req("SEC-02")
def test_agents_cannot_change_the_file_with_the_channels(understood: Read, tmp_path: Path) -> None:
    tree = tmp_path.with_name(f"{tmp_path.name}-tree")
    tree.mkdir()
    (tree / "bot.yaml").write_text(OLDER, encoding="utf-8")
    yaml = f"model: {{name: m}}\ntools: {{work_tree: {tree}}}\n"
    settings = understood(yaml=yaml + "agents: {builtin: {a: {kind: assistant, tools: [file-write]}}}").settings

    def check(bot: str) -> None:
        given = {"SLACK_INTEGRATION_BOT_CONFIG": bot}
        checked_work_tree(settings, given, folder=tmp_path, user_home=tmp_path / "nobody")

    check(OLDER)
    with pytest.raises(ConfigurationError, match=r"the channels \(SLACK_INTEGRATION_BOT_CONFIG\)"):
        check(str(tree / "bot.yaml"))


@pytest.mark.req("CHAN-10")
def test_all_bots_are_permitted_by_an_asterisk_and_nobody_else() -> None:
    bot = Author(id="U1", name="alertmanager", kind=AuthorKind.BOT, bot_id="B1")
    assert denial(bot, ChannelPolicy(allowed_bots=frozenset({"*"}))) is None
    assert denial(bot, ChannelPolicy(allowed_bots=frozenset({"B2"}))) is not None
    assert denial(bot, ChannelPolicy(allowed_bots=frozenset({"*"}), enabled=False)) is not None


@pytest.mark.parametrize(
    ("bot", "says"),
    [
        ("missing.yaml", "SLACK_INTEGRATION_BOT_CONFIG is missing.yaml: there is no such file"),
        ("C0AAAA:\n  ai_enabled: [true\nC0BBBB: {}", "SLACK_INTEGRATION_BOT_CONFIG: line 3, column 7: "),
        ("C0AAAA: {ai_enabled: true}\nC0AAAA: {}", "line 2, column 1: the key C0AAAA stands twice"),
        ("general: {ai_enabled: true}", "'general' is not a channel's id; an id such as C0123456789 is expected"),
        ("C0AAAA: {ai_enabled: perhaps}", "C0AAAA.ai_enabled: Input should be a valid boolean"),
        ("C0AAAA: {qanda: {include_bots: yes}}", "C0AAAA.qanda.include_bots: a mapping is expected"),
        ("C0AAAA: {agents: [{users: {listen: never}}]}", "C0AAAA.agents.0.agent_id: Field required"),
        ("C0AAAA: {agents: [{agent_id: a, users: {listen: never}}]}", "C0AAAA.agents.0.users.listen: Input should be"),
        ("C0AAAA: yes", "C0AAAA: the settings of a channel are expected"),
        ("- C0AAAA:\n", "a mapping is expected, not list"),
    ],
)
def test_a_mistake_stops_the_start_and_is_named(understood: Read, bot: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        understood(bot)
    assert says in raised.value.message
