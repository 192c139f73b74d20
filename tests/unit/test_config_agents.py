"""Settings of built-in agents, their models and tools: what a team that names a model gets, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from swarm.app import settings_mapping
from swarm.config import Kind, LocalTool, Settings, load, secrets
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.agents import Reach, Role
from swarm.domain.model.language_models import ModelSpec, Provider
from swarm.domain.model.sessions import SessionScope
from swarm_agents.app.limits import day_limits, run_limits, tool_limits

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def settings(yaml: str = "", **environment: str) -> Settings:
        (tmp_path / "swarm.yaml").write_text(yaml, encoding="utf-8")
        return load(environment, folder=tmp_path, user_home=tmp_path / "nobody")

    return settings


@pytest.mark.req("OPS-11", "AGENT-07")
@pytest.mark.parametrize(
    ("environment", "spec"),
    [
        (
            {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-1"},
            ModelSpec(provider=Provider.OPENAI, name="gpt-5-mini", api_key="sk-1", is_guessed=True),
        ),
        (
            {"LLM_MODEL": "qwen3:8b"},
            ModelSpec(provider=Provider.OLLAMA, name="qwen3:8b", base_url="http://localhost:11434", is_guessed=True),
        ),
        (
            {"LLM_MODEL": "llama3", "OLLAMA_BASE_URL": "http://gpu:11434"},
            ModelSpec(provider=Provider.OLLAMA, name="llama3", base_url="http://gpu:11434", is_guessed=True),
        ),
        (
            {"LLM_MODEL": "claude-sonnet-4-5", "LLM_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": "sk-2"},
            ModelSpec(provider=Provider.ANTHROPIC, name="claude-sonnet-4-5", api_key="sk-2"),
        ),
        (
            {"LLM_MODEL": "house", "LLM_PROVIDER": "openai", "OPENAI_BASE_URL": "http://house:8000/v1"},
            ModelSpec(provider=Provider.OPENAI, name="house", base_url="http://house:8000/v1"),
        ),
    ],
)
def test_the_names_that_teams_have_in_their_environment_name_a_model(
    read: Read, environment: dict[str, str], spec: ModelSpec
) -> None:
    assert settings_mapping.model_specs(read(**environment)) == [spec]


@pytest.mark.req("OPS-11")
def test_a_model_alone_gives_an_assistant(read: Read) -> None:
    settings = read(LLM_MODEL="gpt-5-mini")
    assert {name: chosen.kind for name, chosen in settings.agents.builtin.items()} == {"assistant": Kind.ASSISTANT}
    (agent,) = settings_mapping.streaming_agents(settings)
    assert (agent.name, agent.role, agent.reach) == ("assistant", Role.LEAD, Reach.BUILTIN)


@pytest.mark.req("OPS-11", "AGENT-02")
def test_with_mcp_servers_there_is_a_router_too_and_it_comes_first(read: Read, tmp_path: Path) -> None:
    (tmp_path / "servers_config.json").write_text("{}")
    settings = read(LLM_MODEL="gpt-5-mini")
    kinds = [(name, chosen.kind) for name, chosen in settings.agents.builtin.items()]
    assert kinds == [("tools", Kind.ROUTER), ("assistant", Kind.ASSISTANT)]
    assert settings.agents.default is None, "who was there before stays the default"


@pytest.mark.parametrize(
    "yaml",
    [
        "",
        "agents: {remote: {docs: {url: 'http://docs'}}}\nmodel: {name: gpt-5}",
        "agents: {builtin: {mine: {kind: router}}}\nmodel: {name: gpt-5}",
    ],
)
def test_nobody_is_added_without_a_model_or_to_agents_of_ones_own(read: Read, yaml: str) -> None:
    agents = read(yaml).agents
    assert "assistant" not in {*agents.builtin, *agents.remote}


@pytest.mark.req("AGENT-07")
def test_fallbacks_are_asked_in_their_order_with_their_own_providers(read: Read) -> None:
    yaml = """
    model:
      name: claude-sonnet-4-5
      provider: anthropic
      max_tokens: 900
      fallbacks: [{name: gpt-5-mini}, {name: "anthropic.claude-v2", provider: bedrock}]
    providers: {openai: {api_key: sk-1}, bedrock: {region: eu-central-1}}
    """
    specs = settings_mapping.model_specs(read(yaml))
    assert [spec.label for spec in specs] == [
        "anthropic:claude-sonnet-4-5",
        "openai:gpt-5-mini",
        "bedrock:anthropic.claude-v2",
    ]
    assert [spec.region for spec in specs] == [None, None, "eu-central-1"]
    assert {spec.max_tokens for spec in specs} == {900}


@pytest.mark.req("AGENT-12")
def test_an_agent_may_have_other_fallbacks_or_none(read: Read) -> None:
    yaml = """
    model: {name: gpt-5-mini, fallbacks: [{name: gpt-5}]}
    agents:
      builtin:
        usual: {kind: assistant}
        other: {kind: assistant, model: o4-mini, fallbacks: [{name: claude-sonnet-4-5}]}
        alone: {kind: assistant, fallbacks: []}
    """
    settings = read(yaml, OPENAI_API_KEY="sk-1")
    labels = {
        name: [spec.label for spec in settings_mapping.model_specs(settings, name)]
        for name in ("usual", "other", "alone")
    }
    assert labels == {
        "usual": ["openai:gpt-5-mini", "openai:gpt-5"],
        "other": ["openai:o4-mini", "anthropic:claude-sonnet-4-5"],
        "alone": ["openai:gpt-5-mini"],
    }


@pytest.mark.req("AGENT-07")
def test_another_model_of_an_agent_is_one_of_the_same_provider_whatever_its_name_suggests(read: Read) -> None:
    def label(model: str, of_agent: str) -> str:
        yaml = f"agents: {{builtin: {{helper: {{kind: assistant, model: '{of_agent}'}}}}}}"
        return settings_mapping.model_specs(read(yaml, LLM_MODEL=model), "helper")[0].label

    assert label("gpt-5-mini", "o4-mini") == "openai:o4-mini"
    assert label("qwen3", "gpt-oss:20b") == "ollama:gpt-oss:20b"
    assert label("claude-sonnet-4-5", "another") == "anthropic:another"


@pytest.mark.req("AGENT-07")
def test_limits_can_be_set_and_lifted(read: Read) -> None:
    limits = run_limits(read("limits: {requests: 3, tokens: null, cost_dollars: '0.25'}"))
    assert (limits.requests, limits.tokens, limits.cost_dollars) == (3, None, Decimal("0.25"))
    assert (limits.tool_calls, limits.seconds) == (50, 300)


@pytest.mark.req("AGENT-12")
def test_an_agent_takes_each_limit_that_is_not_its_own_from_the_common_ones(read: Read) -> None:
    yaml = """
    model: {name: gpt-5-mini}
    limits: {requests: 3, tokens: 500, thread: {requests: 9, cost_dollars: 2}, tools: {"jira/*": {calls: 4}}}
    agents:
      builtin:
        helper:
          kind: assistant
          limits: {tokens: null, thread: {requests: 7}, tools: {"jira/create_*": {calls: 1}}}
        usual: {kind: assistant}
    """
    settings = read(yaml)
    mine, usual = (run_limits(settings, name) for name in ("helper", "usual"))
    assert (mine.requests, mine.tokens, mine.tool_calls) == (3, None, 50)
    assert (usual.requests, usual.tokens) == (3, 500)
    assert (mine.key("tokens"), mine.key("requests")) == ("agents.builtin.helper.limits.tokens", "limits.requests")
    day = day_limits(settings, "helper")
    assert (day.requests, day.cost_dollars, day.seconds) == (7, Decimal("2"), None)
    assert day.key("requests") == "agents.builtin.helper.limits.thread.requests"
    assert day.key("cost_dollars") == "limits.thread.cost_dollars"
    assert [(one.pattern, one.calls, one.key) for one in tool_limits(settings, "helper")] == [
        ("jira/create_*", 1, "agents.builtin.helper.limits.tools.jira/create_*"),
        ("jira/*", 4, "limits.tools.jira/*"),
    ]


@pytest.mark.req("AGENT-05")
def test_sessions_are_kept_by_user_if_nothing_else_is_said(read: Read) -> None:
    session = read().runtime.session
    assert (session.scope, session.compaction_threshold, session.keep_recent_messages) == (SessionScope.USER, 50, 5)
    assert read("runtime: {session: {scope: thread}}").runtime.session.scope is SessionScope.THREAD


@pytest.mark.req("TOOL-06")
def test_the_caps_of_search_come_from_the_environment(read: Read) -> None:
    tools = read(SEARCH_MAX_CALLS="2", FETCH_DOCUMENT_MAX_CALLS="3").tools
    assert (tools.search_max_calls, tools.fetch_document_max_calls) == (2, 3)


@pytest.mark.req("AGENT-02", "AGENT-03")
def test_files_may_lie_in_the_home_folder(read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "servers.json").write_text('{"mcpServers": {}}')
    monkeypatch.setenv("HOME", str(home))
    settings = read(LLM_MODEL="gpt", SWARM_SERVERS_CONFIG="~/servers.json", SWARM_PROMPTS_CONFIG="~/words.yaml")
    assert (settings.tools.servers_config, settings.tools.prompts_config) == (
        home / "servers.json",
        home / "words.yaml",
    )
    assert "tools" in settings.agents.builtin


@pytest.mark.req("TOOL-05")
def test_an_assistant_has_no_tool_of_this_machine_that_nobody_named(read: Read) -> None:
    settings = read("agents: {builtin: {a: {kind: assistant}, b: {kind: assistant, tools: [git]}}}\nmodel: {name: gpt}")
    assert [chosen.tools for chosen in settings.agents.builtin.values()] == [[], [LocalTool.GIT]]


@pytest.mark.parametrize(
    ("yaml", "problem"),
    [
        ("agents: {builtin: {a: {kind: assistant}}}", "model.name"),
        ("agents: {builtin: {a: {kind: poet}}}\nmodel: {name: gpt}", "agents.builtin.a.kind"),
        ("agents: {builtin: {A: {kind: router}}}\nmodel: {name: gpt}", "'A' cannot be an agent's name"),
        (
            "agents: {builtin: {a: {kind: router}}, remote: {a: {url: 'http://a'}}}\nmodel: {name: gpt}",
            "'a' is under both",
        ),
        ("agents: {builtin: {a: {kind: assistant, tools: [rm]}}}\nmodel: {name: gpt}", "agents.builtin.a.tools"),
        ("agents: {default: a, builtin: {a: {kind: router, role: worker}}}\nmodel: {name: gpt}", "role is worker"),
        ("agents: {builtin: {a: {kind: router, tools: [git]}}}\nmodel: {name: gpt}", "only assistants have tools"),
        ("agents: {builtin: {a: {kind: router, prompt: a.md}}}\nmodel: {name: gpt}", "only assistants have a prompt"),
        ("runtime: {session: {compaction_threshold: 5}}", "less than compaction_threshold"),
        ("model: {name: gpt, provider: acme}", "model.provider"),
        ("model: {name: gpt, temperature: 9}", "model.temperature"),
        ("limits: {requests: 0}", "limits.requests"),
        ("limits: {cost_dollars: cheap}", "limits.cost_dollars"),
        ("tools: {shell: {commands: ['/bin/ls']}}", "'/bin/ls' is not the name of a program"),
        ("runtime: {session: {scope: galaxy}}", "runtime.session.scope"),
        ("providers: {openai: {base_url: nowhere}}", "providers.openai.base_url"),
    ],
)
def test_what_does_not_fit_is_named(read: Read, yaml: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(yaml)
    assert problem in str(raised.value)


def test_keys_of_providers_are_secrets(read: Read) -> None:
    settings = read(OPENAI_API_KEY="sk-hush", ANTHROPIC_API_KEY="sk-hush-too")
    assert {"sk-hush", "sk-hush-too"} <= set(secrets(settings))
    assert "hush" not in repr(settings)
    assert "hush" not in repr(settings_mapping.model_specs(read(LLM_MODEL="gpt", OPENAI_API_KEY="sk-hush")))
