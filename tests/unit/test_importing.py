"""`swarm import` and `swarm config explain`: files, reports, errors, and that no secret is copied."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from swarm.cli import settings_commands
from swarm.config import Settings, checked_work_tree, load, read
from swarm.config.explaining import explain, notes
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import Provider
from swarm.domain.model.sessions import SessionScope
from swarm.domain.policy.channels import DirectReplies, Listen
from tests.support.caipe_configs import OLDER, THIRTY

pytestmark = pytest.mark.req("OPS-11")

SERVICE = "http://caipe.example:8001"
Run = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which commands are started, with an empty environment."""
    for name in ("HOME", "DYNAMIC_AGENTS_URL", "SLACK_INTEGRATION_BOT_CONFIG", "LLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def imports(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def imports(*words: str) -> str:
        settings_commands.imports(list(words), result_action="return_value")
        return capsys.readouterr().out

    return imports


def loaded(folder: Path, name: str = "swarm.yaml", **variables: str) -> Settings:
    return load({"SWARM_CONFIG": name, **variables}, folder=folder, user_home=folder / "nobody")


# CAIPE


def test_an_imported_file_means_the_same_as_the_variable(folder: Path, imports: Run) -> None:
    (folder / "bot.yaml").write_text(THIRTY, encoding="utf-8")
    imports("caipe", "bot.yaml")
    by_file = loaded(folder, DYNAMIC_AGENTS_URL=SERVICE)
    (folder / "nothing.yaml").write_text("")
    by_variable = loaded(folder, "nothing.yaml", DYNAMIC_AGENTS_URL=SERVICE, SLACK_INTEGRATION_BOT_CONFIG="bot.yaml")
    assert by_file == by_variable


def test_the_report_says_what_became_of_every_key_and_counts(folder: Path, imports: Run) -> None:
    (folder / "bot.yaml").write_text(THIRTY, encoding="utf-8")
    lines = imports("caipe", "bot.yaml").splitlines()
    assert "C0PLATHELP1.qanda.overthink → channels.C0PLATHELP1.overthink" in lines
    assert "C0PLATHELP1.other.delete_admins: not taken over: nobody deletes the app's messages with a button; " in (
        "\n".join(lines)
    )
    counted = re.fullmatch(
        r"swarm\.yaml: (\d+) taken over, (\d+) taken over with a difference, (\d+) not taken over\.", lines[-1]
    )
    assert counted is not None
    assert sum(map(int, counted.groups())) == len(lines) - 1


def test_every_value_has_its_source_as_a_comment(folder: Path, imports: Run) -> None:
    (folder / "bot.yaml").write_text(OLDER, encoding="utf-8")
    imports("caipe", "bot.yaml")
    text = (folder / "swarm.yaml").read_text(encoding="utf-8")
    assert "  C0PLATHELP1:  # #platform-help\n" in text
    assert "    overthink: true  # C0PLATHELP1.qanda.overthink\n" in text
    assert "      # C0ALERTS001.ai_alerts.custom_prompt\n      template: |\n        You triage" in text


def test_nothing_is_overwritten_unless_forced(folder: Path, imports: Run) -> None:
    (folder / "bot.yaml").write_text(OLDER, encoding="utf-8")
    (folder / "swarm.yaml").write_text("# mine")
    with pytest.raises(ConfigurationError, match=r"swarm.yaml exists\.") as raised:
        imports("caipe", "bot.yaml")
    assert "--force" in (raised.value.hint or "")
    assert (folder / "swarm.yaml").read_text() == "# mine"
    imports("caipe", "bot.yaml", "--output", "other.yaml")
    imports("caipe", "bot.yaml", "--force")
    assert (folder / "swarm.yaml").read_text() == (folder / "other.yaml").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["bot.yaml", "other.yaml", "swarm.yaml"]


def test_a_charts_values_are_understood_with_their_variables(folder: Path, imports: Run) -> None:
    values = {
        "slack-bot": {
            "config": {"SLACK_INTEGRATION_DEFAULT_AGENT_ID": "platform", "CAIPE_API_URL": "http://ui", "PORT": 3001},
            "botConfig": {"C0AAAA": {"name": "#a", "ai_enabled": True}},
        }
    }
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    imports("caipe", "values.yaml")
    variables = {"CAIPE_API_URL": "http://ui", "SLACK_INTEGRATION_DEFAULT_AGENT_ID": "platform"}
    assert read({"SWARM_CONFIG": "swarm.yaml", **variables}, folder=folder, user_home=folder).elsewhere == ()
    settings = loaded(folder, CAIPE_API_URL="http://ui")
    assert settings.agents.default == "platform"
    assert settings.agents.remote_in_full["platform"].url == "http://ui"


def test_a_file_without_channels_writes_nothing(folder: Path, imports: Run) -> None:
    (folder / "bot.yaml").write_text("# nothing\n")
    with pytest.raises(ConfigurationError, match=r"bot\.yaml has no channels"):
        imports("caipe", "bot.yaml")
    assert not (folder / "swarm.yaml").exists()


def test_variables_of_another_file_have_to_be_copied(folder: Path, imports: Run) -> None:
    (folder / "bot.yaml").write_text(OLDER, encoding="utf-8")
    for name in ("bot.env", ".env"):
        (folder / name).write_text("DYNAMIC_AGENTS_URL=http://caipe.example:8001\n")
    said = imports("caipe", "bot.yaml", "--env", "bot.env").splitlines()
    assert said[-1] == "swarm does not read bot.env: copy the variables that it needs into ./.env."
    assert ".env" not in imports("caipe", "bot.yaml", "--env", ".env", "--force")


def test_secrets_are_references_and_are_never_copied(folder: Path, imports: Run) -> None:
    token = "xoxb-123456789012-AbCdEfGhIjKlMnOpQrStUvWx"
    bot = {"C0AAAA": {"ai_alerts": {"enabled": True, "custom_prompt": f"Use {token} for {{alert_text}}"}}}
    (folder / "bot.yaml").write_text(yaml.safe_dump(bot))
    (folder / "theirs.env").write_text(
        "SLACK_INTEGRATION_ENABLE_AUTH=true\nOAUTH2_TOKEN_URL=http://login/token\nOAUTH2_CLIENT_ID=bot\n"
        f"OAUTH2_CLIENT_SECRET=hush-hush-hush\nSLACK_BOT_TOKEN={token}\nSLACK_INTEGRATION_DEFAULT_AGENT_ID=a\n"
    )
    said = imports("caipe", "bot.yaml", "--env", "theirs.env")
    text = (folder / "swarm.yaml").read_text(encoding="utf-8")
    assert token not in text + said
    assert "hush" not in text + said
    assert "client_secret: ${OAUTH2_CLIENT_SECRET}" in text
    assert "template: ${CHANNELS_C0AAAA_ALERTS_TEMPLATE}" in text
    assert "it is a secret, so set the variable CHANNELS_C0AAAA_ALERTS_TEMPLATE to it" in said
    assert "SLACK_BOT_TOKEN → slack.bot_token" in said


def test_a_text_with_a_reference_of_its_own_is_left_out(folder: Path, imports: Run) -> None:
    bot = {"C0AAAA": {"ai_alerts": {"enabled": True, "custom_prompt": "Cost: ${AMOUNT} {alert_text}"}}}
    (folder / "bot.yaml").write_text(yaml.safe_dump(bot))
    assert "C0AAAA.ai_alerts.custom_prompt: not taken over: it contains ${…}" in imports("caipe", "bot.yaml")
    assert loaded(folder).channels["C0AAAA"].alerts.template is None


@pytest.mark.parametrize(
    ("kind", "name", "text", "says"),
    [
        ("caipe", "bot.yaml", "C0AAAA:\n\tai_enabled: true", "bot.yaml: line 2, column 1: "),
        ("caipe", "bot.json", '{"C0AAAA": {"name": "a",\n "name": "b"}}', "C0AAAA.name stands twice (lines 1, 2)"),
        ("caipe", "bot.yaml", "[1]", "bot.yaml: a mapping is expected, not list"),
        ("servers-config", "s.json", '{"mcpServers": {\n  "a": }\n}', "s.json: line 2, column 8: Expecting value"),
        ("servers-config", "s.json", "[]", "s.json: "),
        ("servers-config", "s.json", '{"mcpServers": {"a": {}}}', "mcpServers.a: either command or url is expected"),
        ("yui", "config.yaml", "model: [", "config.yaml: line 1, column "),
        ("yui", "config.yaml", "tools: {shell: {allowlist: ls}}", "tools.shell.allowlist: a list of programs"),
        ("yui", "config.yaml", "model: {max_tokens: many}", "model.max_tokens"),
        ("yui", "config.yaml", "model: 3", "model: a mapping is expected"),
        ("yui", "config.yaml", "runtime: {session: [1]}", "runtime.session: a mapping is expected"),
    ],
)
def test_a_broken_file_is_named_with_the_place_and_nothing_is_written(
    folder: Path, imports: Run, kind: str, name: str, text: str, says: str
) -> None:
    (folder / name).write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        imports(kind, name)
    assert says in raised.value.message
    assert [path.name for path in folder.iterdir()] == [name]
    with pytest.raises(ConfigurationError, match="cannot be read"):
        imports(kind, "missing.json")


# An MCP Slack bot


def test_an_mcp_slack_bot_keeps_its_servers_file(folder: Path, imports: Run) -> None:
    (folder / "bot").mkdir()
    servers = {
        "mcpServers": {
            "calculator": {"command": "uvx", "args": ["mcp-calculator"], "allowedTools": ["add"]},
            "tickets": {"url": "https://t.example/mcp", "headers": {"Authorization": "Bearer ${TICKETS_TOKEN}"}},
            "search": {
                "command": "npx",
                "env": {"BRAVE_API_KEY": "BSAabcdef0123456789abcdef"},
                "type": "stdio",
                "autoApprove": [],
            },
            "old": {"command": "x", "disabled": True},
            "events": {"url": "https://e.example/sse", "type": "sse", "enabled": False},
        },
        "allowedTools": {"evnets": ["add"]},
    }
    (folder / "bot/servers_config.json").write_text(json.dumps(servers))
    (folder / "bot/.env").write_text(
        "LLM_MODEL=gpt-4.1-mini\nOPENAI_API_KEY=sk-proj-abcdef0123456789\nLLM_TEMPERATURE=0.1\nLLM_API_KEY=x\n"
        "SLACK_BOT_TOKEN=xoxb-1\nSLACK_APP_TOKEN=xapp-1\nLLM_RETRIES=3\n"
    )
    with capture_logs() as lines:
        said = imports("servers-config", "bot/servers_config.json", "--env", "bot/.env")
    assert lines == [], "the report says it all"
    text = (folder / "swarm.yaml").read_text()
    assert "sk-proj" not in text + said
    assert "BSAabc" not in text + said
    for line in (
        "mcpServers → tools.servers_config",
        "mcpServers.search → tools.servers_config (no tool may be used until allowedTools lists it; `swarm up` logs "
        "the names of the tools)",
        "mcpServers.search.autoApprove: not taken over: swarm reads no such key",
        "mcpServers.events: not taken over: it is disabled",
        "allowedTools.evnets: not taken over: there is no such server",
        "mcpServers.search.env.BRAVE_API_KEY → tools.servers_config (it is a secret in plain text; write "
        "${BRAVE_API_KEY} and set the variable)",
        "mcpServers.tickets.headers.Authorization → tools.servers_config (set the variable TICKETS_TOKEN, or swarm "
        "does not start)",
        "mcpServers.old: not taken over: it is disabled",
        "LLM_TEMPERATURE → model.temperature",
        "LLM_API_KEY: not taken over: set OPENAI_API_KEY, or ANTHROPIC_API_KEY",
        "LLM_RETRIES: not taken over: swarm reads no such variable",
        "OPENAI_API_KEY → providers.openai.api_key",
    ):
        assert line in said.splitlines(), line
    settings = loaded(folder)
    assert (settings.model.name, settings.model.temperature) == ("gpt-4.1-mini", 0.1)
    assert settings.tools.servers_config == Path("bot/servers_config.json")
    assert list(settings.agents.builtin) == ["tools", "assistant"], "the router answers first"


# Yui

YUI: dict[str, Any] = {
    "model": {
        "provider": "bedrock",
        "model_id": "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "region": "eu-west-1",
        "guardrail_id": "gr-1",
    },
    "tools": {
        "shell": {"allowlist": ["ls", "kiro-cli"], "blocklist": ["sudo"], "timeout_seconds": 20},
        "kiro": {"timeout_seconds": 600},
    },
    "slack": {"bot_token": "xoxb-1-2-hush", "app_token": "xapp-1-2-hush"},
    "runtime": {"session": {"compaction_threshold": 40, "keep_recent_messages": 6}, "heartbeat": {"enabled": True}},
    "meeting": {"whisper": {"model": "x"}, "retention_days": 3},
    "mcp": {
        "servers": [
            {"name": "docs", "transport": "stdio", "command": ["uvx", "docs"], "env": {"DOCS_TOKEN": "hush-hush-1234"}},
            {"name": "old", "transport": "sse", "url": "http://old"},
        ]
    },
}


def test_yui_becomes_an_assistant(folder: Path, imports: Run) -> None:
    workspace = folder.parent / "workspace"
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text("You are Yui. Answer {{briefly}}.")
    (folder / "config.yaml").write_text(
        yaml.safe_dump(YUI | {"tools": {**YUI["tools"], "file": {"workspace_root": str(workspace)}}})
    )
    said = imports("yui", "config.yaml")
    assert "hush" not in said + (folder / "swarm.yaml").read_text() + (folder / "servers_config.json").read_text()
    settings = loaded(folder, SLACK_BOT_TOKEN="xoxb-1", SLACK_APP_TOKEN="xapp-1")
    assert (settings.model.name, settings.model.provider) == (YUI["model"]["model_id"], Provider.BEDROCK)
    assert (settings.model.max_tokens, settings.providers.bedrock.region) == (4096, "eu-west-1")
    session = settings.runtime.session
    assert (session.scope, session.compaction_threshold, session.keep_recent_messages) == (SessionScope.THREAD, 40, 6)
    assert settings.channel_defaults.dm_replies is DirectReplies.FLAT
    assert (settings.tools.shell.commands, settings.tools.delegates.timeout_seconds) == (["ls"], 600)
    assert {"git", "kiro-delegate", "web-browse"} <= set(settings.agents.builtin["yui"].tools)
    assert checked_work_tree(settings, {}, folder=folder, user_home=folder.parent / "home") == workspace
    assert (folder / "yui-prompt.md.j2").read_text() == "{% raw %}You are Yui. Answer {{briefly}}.{% endraw %}"
    assert json.loads((folder / "servers_config.json").read_text()) == {
        "mcpServers": {
            "docs": {"command": "uvx", "args": ["docs"], "env": {"DOCS_TOKEN": "${DOCS_TOKEN}"}, "allowedTools": []}
        }
    }
    for part in ("model.guardrail_id", "runtime.heartbeat", "meeting", "mcp.servers.1", "tools.shell.blocklist"):
        assert f"\n{part}: not taken over: " in f"\n{said}", part
    with pytest.raises(ConfigurationError, match="exist"):
        imports("yui", "config.yaml", "--output", "other.yaml")
    assert not (folder / "other.yaml").exists(), "the prompt exists"


def test_a_share_of_the_context_is_no_number_of_messages(folder: Path, imports: Run) -> None:
    (folder / "config.yaml").write_text("runtime: {session: {compaction_threshold: 0.8}}")
    assert "runtime.session.compaction_threshold: not taken over: 0.8 is a share" in imports("yui", "config.yaml")
    assert loaded(folder).runtime.session.compaction_threshold == 50


# `swarm config explain`


@pytest.mark.req("HITL-11")
def test_the_rules_of_who_decides_say_which_calls_escape_them(folder: Path) -> None:
    (folder / "swarm.yaml").write_text(
        "decisions: [{tool: deploy, users: [U1]}, {channel: C0OTHER, users: [U2]},"
        " {agent: ops, tool: 'git*', users: [U3]},"
        " {agent: ops, users: [U4]}]"
    )
    reading = read({}, folder=folder, user_home=folder / "nobody")
    found = {one.key: one for one in explain(reading, "C0OWN") if one.key.startswith("decisions")}
    assert {key: one.value for key, one in found.items()} == {
        "decisions.0": {"tool": "deploy", "users": ["U1"], "need": 1},
        "decisions.2": {"agent": "ops", "tool": "git*", "users": ["U3"], "need": 1},
        "decisions.3": {"agent": "ops", "users": ["U4"], "need": 1},
    }
    gaps = [key for key, one in found.items() if "does not bind calls that name no tool" in one.source]
    assert gaps == ["decisions.0"]
    assert found["decisions.3"].source == "swarm.yaml: decisions"


@pytest.mark.req("CHAN-01")
def test_each_value_of_a_channel_comes_with_its_source(folder: Path) -> None:
    (folder / "swarm.yaml").write_text(
        "channel_defaults: {share_email: true}\nagents: {default: lead}\n"
        "channels: {C0OWN: {listen: all, escalation: {users: [U0000001]}}}"
    )
    variables = {
        "SLACK_INTEGRATION_BOT_CONFIG": OLDER,
        "DYNAMIC_AGENTS_URL": SERVICE,
        "SLACK_INTEGRATION_DM_AGENT_ID": "direct",
        "SLACK_INTEGRATION_PROMPT_AI_ALERTS": "Look: {alert_text}",
    }
    reading = read(variables, folder=folder, user_home=folder / "nobody")

    def of(channel: str) -> dict[str, tuple[object, str]]:
        return {one.key: (one.value, one.source) for one in explain(reading, channel)}

    own = of("C0OWN")
    assert own["listen"] == (Listen.ALL.value, "swarm.yaml: channels.C0OWN.listen")
    assert own["escalation.users"] == (["U0000001"], "swarm.yaml: channels.C0OWN.escalation.users")
    assert own["escalation.emoji"] == (None, "default")
    assert own["share_email"] == (True, "swarm.yaml: channel_defaults.share_email")
    assert own["agent"] == ("lead", "swarm.yaml: agents.default")
    assert own["display"] == ("plan", "default")
    assert own["alerts.template"] == ("Look: {alert_text}", "SLACK_INTEGRATION_PROMPT_AI_ALERTS")
    theirs = of("C0PLATHELP1")
    assert theirs["overthink"] == (True, "SLACK_INTEGRATION_BOT_CONFIG: C0PLATHELP1.qanda.overthink")
    assert theirs["agent"] == ("platform-engineer", "SLACK_INTEGRATION_BOT_CONFIG: C0PLATHELP1.agent_id")
    assert of("dm")["agent"] == of("D0UNKNOWN")["agent"] == ("direct", "SLACK_INTEGRATION_DM_AGENT_ID")
    assert of("C0UNKNOWN") == {**own, "listen": ("mention", "default"), "escalation.users": ([], "default")}
    (folder / "swarm.yaml").write_text("channels: {C0PLATHELP1: {listen: mention, escalation: {users: [U0000009]}}}")
    reading = read(variables, folder=folder, user_home=folder / "nobody")
    replaced = of("C0PLATHELP1")
    assert replaced["escalation.users"] == (["U0000009"], "swarm.yaml: channels.C0PLATHELP1.escalation.users")
    assert replaced["escalation.emoji"] == (None, "default"), "the entry in the file counts as a whole"
    assert notes(reading, "C0PLATHELP1") == []
    assert len(notes(reading, "C0CICDHELP1")) == 2
    with pytest.raises(ConfigurationError, match="'general' is not a channel's id"):
        of("general")


@pytest.mark.req("CHAN-01")
def test_an_agent_named_by_its_id_and_a_template_in_a_file_are_shown(folder: Path) -> None:
    (folder / "alert.txt").write_text("Look: {alert_text}")
    (folder / "swarm.yaml").write_text(
        "channel_defaults: {agent_id: Usual.agent}\nchannels: {C0OWN: {agent_id: The Platform Engineer, "
        "alerts: {template_file: alert.txt}}, C0NAMED: {alerts: {template: 'See {alert_text}'}}}"
    )
    reading = read({"DYNAMIC_AGENTS_URL": SERVICE}, folder=folder, user_home=folder / "nobody")
    own, named = ({one.key: (one.value, one.source) for one in explain(reading, of)} for of in ("C0OWN", "C0NAMED"))
    assert own["agent"] == ("the-platform-engineer", "swarm.yaml: channels.C0OWN.agent_id")
    assert own["agent_id"] == ("The Platform Engineer", "swarm.yaml: channels.C0OWN.agent_id")
    assert own["alerts.template"] == ("Look: {alert_text}", "the file alert.txt")
    assert named["agent"] == ("usual-agent", "swarm.yaml: channel_defaults.agent_id")
    assert named["alerts.template"] == ("See {alert_text}", "swarm.yaml: channels.C0NAMED.alerts.template")


@pytest.mark.req("CHAN-01")
def test_the_command_shows_a_table_or_json_without_secrets(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "swarm.yaml").write_text(
        "channels: {C0OWN: {client_context: {api_key: hush-hush-1, tone: terse}, escalation: {webhook: {url: "
        "'https://alert.example/integrations/hush-hush-2', format: pagerduty, routing_key: hush-hush-3}}}}"
    )
    monkeypatch.setenv("SLACK_INTEGRATION_BOT_CONFIG", OLDER)
    settings_commands.explain("C0OWN", as_json=True)
    out = capsys.readouterr().out
    told = {one["key"]: one["value"] for one in json.loads(out)["settings"]}
    assert "hush" not in out
    assert told["client_context"] == {"api_key": "…", "tone": "terse"}
    assert told["escalation.webhook.url"] == "https://alert.example/…"
    settings_commands.explain("C0PLATHELP1")
    shown = capsys.readouterr().out
    assert "overthink" in shown
    assert "C0PLATHELP1.other.delete_admins: not taken over: nobody deletes" in shown
    settings_commands.explain("C0OWN")
    assert "hush" not in capsys.readouterr().out
