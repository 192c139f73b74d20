"""Settings: what they may say, what a channel inherits, and how a mistake is named."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from swarm import clock
from swarm.app import process, settings_mapping
from swarm.cli.operator_commands import coordinator_settings
from swarm.config import Settings, differences, load, load_part, secrets
from swarm.config.reading import where_set
from swarm.domain.answers.agents import (
    ClientCredentials,
    Dialect,
    History,
    OnRestart,
    RemoteAgent,
    ResumeForm,
    StreamingAgent,
    ThreadContext,
)
from swarm.domain.answers.calls import TaskDisplay
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.agents import Role
from swarm.domain.policy.channels import Listen

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Settings of a swarm.yaml and of variables."""

    def read(yaml: str = "", **environment: str) -> Settings:
        (tmp_path / "swarm.yaml").write_text(yaml, encoding="utf-8")
        return load(environment, folder=tmp_path, user_home=tmp_path / "nobody")

    return read


# Channels

EVERY_CHANNEL_KEY = """
  agent: helper
  enabled: false
  listen: bots
  allowed_users: [U1]
  allowed_bots: [B1]
  bot_messages_per_hour: 3
  display: timeline
  client_context: {tone: short}
  share_email: true
"""


@pytest.mark.req("CHAN-01")
def test_a_channel_inherits_every_key_that_it_leaves_out(read: Read) -> None:
    settings = read(f"channel_defaults:{EVERY_CHANNEL_KEY}channels: {{C123: {{}}, C456: {{display: plan}}}}")
    everywhere = settings_mapping.policies(settings).everywhere
    assert everywhere.display is TaskDisplay.TIMELINE
    assert everywhere.client_context == {"tone": "short"}
    assert everywhere.share_email
    assert settings.channels_in_full["C123"] == settings.channel_defaults
    of = settings_mapping.policies(settings).of
    assert of("C123") == everywhere
    assert (of("C456").display, of("C456").listen) == (TaskDisplay.PLAN, Listen.BOTS)


@pytest.mark.req("CHAN-01")
def test_a_channels_own_word_wins_over_the_defaults_also_where_it_is_the_usual_one(read: Read) -> None:
    own = "{agent: null, enabled: true, listen: mention, allowed_users: null, client_context: {}, share_email: false}"
    policy = settings_mapping.policies(read(f"channel_defaults:{EVERY_CHANNEL_KEY}channels: {{C123: {own}}}")).of(
        "C123"
    )
    assert (policy.agent, policy.enabled, policy.listen, policy.allowed_users) == (None, True, Listen.MENTION, None)
    assert (dict(policy.client_context), policy.share_email) == ({}, False)
    assert (policy.allowed_bots, policy.bot_messages_per_hour) == (frozenset({"B1"}), 3), "which it leaves out"


@pytest.mark.req("CHAN-01")
@pytest.mark.parametrize(
    ("yaml", "agent"),
    [
        ("agents: {dm: helper}", "helper"),
        ("agents: {dm: helper}\nchannel_defaults: {agent: other}", "helper"),
        ("agents: {dm: helper}\nchannels: {D123: {listen: all}}", "helper"),
        ("agents: {dm: helper}\nchannels: {D123: {agent: own}}", "own"),
        ("agents: {dm: helper}\nchannels: {D123: {agent: null}}", None),
        ("channel_defaults: {agent: other}", "other"),
        ("", None),
    ],
)
def test_direct_messages_have_an_agent_of_their_own(read: Read, yaml: str, agent: str | None) -> None:
    policies = settings_mapping.policies(read(yaml))
    assert policies.of("D123").agent == agent
    assert policies.of("C999").agent == policies.everywhere.agent, "which is about direct messages only"


@pytest.mark.req("CHAN-07")
def test_policies_in_force_do_not_show_how_a_paging_service_is_reached(read: Read) -> None:
    hook = "{url: 'https://pager.example/hush', format: pagerduty, routing_key: hush-hush-hush}"
    policies = settings_mapping.policies(read(f"channels: {{C123: {{escalation: {{webhook: {hook}}}}}}}"))
    assert policies.of("C123").escalation.webhook is not None
    assert "hush" not in repr(policies)


# Agents that stream


@pytest.mark.req("STREAM-01")
def test_a_remote_agent_needs_no_more_than_an_address(read: Read) -> None:
    settings = read("agents: {remote: {helper: {url: 'https://helper.example/run'}}}")
    assert settings_mapping.streaming_agents(settings) == [
        StreamingAgent(name="helper", role=Role.LEAD, history=History.ALL, parallel=20, on_restart=OnRestart.RERUN)
    ]
    assert settings_mapping.remote_agents(settings) == [
        RemoteAgent(name="helper", url="https://helper.example/run", timeout_seconds=300, longest_run_seconds=3600)
    ]


EVERY_AGENT_KEY = """
agents:
  remote:
    helper:
      url: http://helper.example
      dialect: caipe
      role: worker
      description: helps
      oauth: {token_url: "https://login.example/token", client_id: swarm, client_secret: "${SECRET}", scope: run}
      agent_id: a-1
      history: all
      thread_context: message
      resume: data
      timeout_seconds: 30
      longest_run_seconds: 600
      parallel: 2
      on_restart: ask
      namespace: 6ba7b810-9dad-11d1-80b4-00c04fd430c8
      footer: ask <#C1>
"""


@pytest.mark.req("STREAM-01")
def test_everything_that_is_said_of_a_remote_agent_reaches_it(read: Read) -> None:
    settings = read(EVERY_AGENT_KEY, SECRET="hush-hush")
    assert settings_mapping.streaming_agents(settings) == [
        StreamingAgent(
            name="helper",
            role=Role.WORKER,
            description="helps",
            history=History.ALL,
            parallel=2,
            on_restart=OnRestart.ASK,
            footer="ask <#C1>",
        )
    ]
    assert settings_mapping.remote_agents(settings) == [
        RemoteAgent(
            name="helper",
            url="http://helper.example",
            dialect=Dialect.CAIPE,
            oauth=ClientCredentials(
                token_url="https://login.example/token", client_id="swarm", client_secret="hush-hush", scope="run"
            ),
            agent_id="a-1",
            timeout_seconds=30,
            longest_run_seconds=600,
            namespace=UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            thread_context=ThreadContext.MESSAGE,
            resume=ResumeForm.DATA,
        )
    ]


@pytest.mark.req("STREAM-13")
def test_several_agents_of_one_service_are_one_entry(read: Read) -> None:
    entry = "{url: 'http://caipe', dialect: caipe, token: hush-hush, role: worker, agent_ids: {sre: a-1, docs: a-2}}"
    settings = read(f"agents: {{remote: {{caipe: {entry}}}}}")
    reached = [(agent.name, agent.agent_id, agent.token) for agent in settings_mapping.remote_agents(settings)]
    assert reached == [("sre", "a-1", "hush-hush"), ("docs", "a-2", "hush-hush")]
    assert [(agent.name, agent.role) for agent in settings_mapping.streaming_agents(settings)] == [
        ("sre", Role.WORKER),
        ("docs", Role.WORKER),
    ]


@pytest.mark.req("STREAM-01")
@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        ("dialect: agui", History.ALL),
        ("dialect: caipe", History.NEW),
        ("dialect: agui, history: new", History.NEW),
        ("dialect: caipe, history: all", History.ALL),
    ],
)
def test_an_agent_without_a_memory_gets_the_whole_thread_unless_told_otherwise(
    read: Read, chosen: str, sent: History
) -> None:
    (agent,) = settings_mapping.streaming_agents(read(f"agents: {{remote: {{a: {{url: 'http://a', {chosen}}}}}}}"))
    assert agent.history is sent


@pytest.mark.req("OPS-11")
def test_dynamic_agents_url_is_an_agent_and_the_default_where_none_is_named(read: Read) -> None:
    settings = read(DYNAMIC_AGENTS_URL="https://agents.example")
    (agent,) = settings_mapping.remote_agents(settings)
    assert (agent.name, agent.url, agent.dialect) == ("dynamic-agents", "https://agents.example", Dialect.CAIPE)
    assert settings_mapping.policies(settings).default_agent == "dynamic-agents"


@pytest.mark.req("OPS-11")
@pytest.mark.parametrize(
    ("yaml", "environment"), [("agents: {default: lead}", {}), ("", {"SWARM_DEFAULT_AGENT": "lead"})]
)
def test_dynamic_agents_url_takes_no_other_defaults_place(read: Read, yaml: str, environment: dict[str, str]) -> None:
    settings = read(yaml, DYNAMIC_AGENTS_URL="https://agents.example", **environment)
    assert settings.agents.default == "lead"


@pytest.mark.req("OPS-11")
def test_swarm_yaml_may_say_more_of_the_dynamic_agents(read: Read) -> None:
    settings = read(
        "agents: {remote: {dynamic-agents: {agent_id: a-1, token: hush-hush}, other: {url: 'http://b'}}}",
        DYNAMIC_AGENTS_URL="https://agents.example",
    )
    dynamic, other = settings_mapping.remote_agents(settings)
    assert (dynamic.url, dynamic.agent_id, dynamic.dialect) == ("https://agents.example", "a-1", Dialect.CAIPE)
    assert other.dialect is Dialect.AGUI


def test_slack_is_told_whether_the_app_is_an_agent(read: Read) -> None:
    assert (read().slack.agent_sessions, read().slack.stop_button_after_seconds) == (None, 5)
    assert read(SLACK_AGENT_SESSIONS="on").slack.agent_sessions is True
    assert read(SLACK_AGENT_SESSIONS="off").slack.agent_sessions is False
    assert read("slack: {stop_button_after_seconds: null}").slack.stop_button_after_seconds is None


# Mistakes


def channel(keys: str) -> str:
    return f"channels: {{C123: {{{keys}}}}}"


def remote(keys: str, name: str = "helper") -> str:
    return f"agents: {{remote: {{{name}: {{url: 'http://a', {keys}}}}}}}"


MISTAKES = {
    "a display that is none": (channel("display: list"), ("channels.C123.display", "'list'", "plan", "timeline")),
    "a context that is no mapping": (channel("client_context: terse"), ("channels.C123.client_context", "'terse'")),
    "a context with what is no JSON": (
        channel("client_context: {since: 2026-01-01}"),
        ("channels.C123.client_context.since", "JSON"),
    ),
    "a context with a key of the coordinator": (
        channel("client_context: {source: web}"),
        ("channels.C123.client_context", "'source'", "keys of your own"),
    ),
    "sharing that is no yes or no": (channel("share_email: some"), ("channels.C123.share_email", "'some'", "boolean")),
    "a default that is none": ("channel_defaults: {display: list}", ("channel_defaults.display", "'list'")),
    "an agent for direct messages that is a list": ("agents: {dm: [a]}", ("agents.dm", "string")),
    "an id and ids": (
        "agents: {remote: {helper: {url: 'http://a', agent_id: a, agent_ids: {sre: b}}}}",
        ("agents.remote.helper", "agent_id and agent_ids"),
    ),
    "a name twice": (
        "agents: {remote: {sre: {url: 'http://a'}, helper: {url: 'http://a', agent_ids: {sre: b}}}}",
        ("agents", "'sre' is used twice"),
    ),
    "a worker of several as the default": (
        "agents: {default: sre, remote: {helper: {url: 'http://a', role: worker, agent_ids: {sre: b}}}}",
        ("agents", "default is 'sre', whose role is worker"),
    ),
    "no name of one of several": (
        "agents: {remote: {helper: {url: 'http://a', agent_ids: {'S R E': b}}}}",
        ("agents.remote.helper.agent_ids", "S R E"),
    ),
    "no address": ("agents: {remote: {helper: {}}}", ("agents.remote.helper.url", "required")),
    "an address that is none": (
        "agents: {remote: {helper: {url: 'ftp://u:hush-hush@a'}}}",
        ("agents.remote.helper.url", "ftp://", "http or https"),
    ),
    "an address without a host": (
        "agents: {remote: {helper: {url: 'http:///run'}}}",
        ("agents.remote.helper.url", "'http:///run'", "http or https"),
    ),
    "a port that is none": (
        "agents: {remote: {helper: {url: 'http://a:port/'}}}",
        ("agents.remote.helper.url", "'http://a:port/'"),
    ),
    "a name that no agent may have": (remote("role: lead", "Helper"), ("agents.remote", "'Helper'", "a-z")),
    "a name that is reserved": (remote("role: lead", "all"), ("agents.remote", "'all'", "reserved")),
    "a dialect that is none": (remote("dialect: acp"), ("agents.remote.helper.dialect", "'acp'", "agui", "caipe")),
    "a role that is none": (remote("role: boss"), ("agents.remote.helper.role", "'boss'", "lead", "worker")),
    "one user in place of a list": (
        "channels: {C0123456789: {allowed_users: 3}}",
        ("channels.C0123456789.allowed_users is 3: a list is expected",),
    ),
    "a list in place of settings": ("channels: {C0123456789: {alerts: [a]}}", ("alerts: a mapping is expected",)),
    "two identities": (
        remote("token: hush-hush, oauth: {token_url: 'http://t', client_id: a, client_secret: hush-hush}"),
        ("agents.remote.helper", "token and oauth", "one of them is expected"),
    ),
    "half an identity": (
        remote("oauth: {token_url: 'http://t', client_secret: hush-hush}"),
        ("agents.remote.helper.oauth.client_id", "required"),
    ),
    "a token service without an address": (
        remote("oauth: {token_url: t, client_id: a, client_secret: hush-hush}"),
        ("agents.remote.helper.oauth.token_url", "'t'", "http or https"),
    ),
    "a secret that is none": (remote("token: [hush-hush]"), ("agents.remote.helper.token", "string")),
    "a history that is none": (remote("history: some"), ("agents.remote.helper.history", "'some'", "new", "all")),
    "no patience": (remote("timeout_seconds: 0"), ("agents.remote.helper.timeout_seconds", "greater than 0")),
    "runs of no length": (remote("longest_run_seconds: -1"), ("longest_run_seconds", "-1", "greater than 0")),
    "no runs at all": (remote("parallel: 0"), ("agents.remote.helper.parallel", "0", "greater than or equal to 1")),
    "a restart policy that is none": (remote("on_restart: hope"), ("on_restart", "'hope'", "rerun", "ask")),
    "a namespace that is none": (remote("namespace: swarm"), ("agents.remote.helper.namespace", "'swarm'", "UUID")),
    "a footer without end": (remote(f"footer: {'x' * 1001}"), ("agents.remote.helper.footer", "1000")),
    "a worker for a default lead": (
        "agents: {default: helper, remote: {helper: {url: 'http://a', role: worker}}}",
        ("agents", "'helper'", "name of a lead"),
    ),
    "a key that does not exist": (remote("tokn: hush-hush"), ("agents.remote.helper.tokn", "no such setting")),
    "nothing kept for a day": (
        "retention: {threads_days: 0}",
        ("retention.threads_days", "0", "greater than or equal to 1"),
    ),
    "a Stop button before the run": (
        "slack: {stop_button_after_seconds: -1}",
        ("slack.stop_button_after_seconds", "-1", "greater than or equal to 0"),
    ),
}


@pytest.mark.req("CHAN-01", "STREAM-01")
@pytest.mark.parametrize(("yaml", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_key_and_what_is_expected(read: Read, yaml: str, says: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(yaml)
    for word in says:
        assert word in refused.value.message
    assert "hush" not in refused.value.message


def test_a_problem_of_several_settings_together_begins_with_their_names(read: Read) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read("agents: {builtin: {boss: {kind: assistant, tools: [swarm]}}}")
    assert refused.value.message.startswith("agents.builtin.boss needs a model")


@pytest.mark.req("OPS-11")
@pytest.mark.parametrize(
    ("name", "value"), [("DYNAMIC_AGENTS_URL", "agents.example"), ("SLACK_AGENT_SESSIONS", "perhaps")]
)
def test_a_mistake_in_a_variable_is_named_with_the_variable(read: Read, name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"\({name}\) is '{value}'"):
        read(**{name: value})


@pytest.mark.req("CHAN-06")
def test_retrys_prefix_has_an_alias_and_mistakes_name_the_variable_that_is_set(read: Read) -> None:
    own, alias = "SWARM_PROMPT_RETRY_PREFIX", "SLACK_INTEGRATION_PROMPT_RETRY_PREFIX"
    assert "tool" not in read().prompts.retry_prefix
    assert read(**{alias: "Again."}).prompts.retry_prefix == "Again."
    both = read("prompts: {retry_prefix: Once more.}", **{alias: "Again.", own: "Anew."})
    assert both.prompts.retry_prefix == "Anew."
    for name in (own, alias):
        with pytest.raises(ConfigurationError, match=rf"\({name}\)"):
            read(**{name: "x" * 3_001})
    with pytest.raises(ConfigurationError, match=rf"\({own}\)"):
        read(**{own: "x" * 3_001, alias: "fine"})
    assert settings_mapping.operating_policy(read("prompts: {retry_prefix: ' '}")).retry_prefix is None


@pytest.mark.req("OPS-02")
def test_a_variable_names_another_file_than_swarm_yaml(tmp_path: Path, read: Read) -> None:
    (tmp_path / "other.yaml").write_text("agents: {default: ada}", encoding="utf-8")
    assert read("agents: {default: lea}", SWARM_CONFIG="other.yaml").agents.default == "ada"
    assert read("agents: {default: lea}", SWARM_CONFIG=str(tmp_path / "other.yaml")).agents.default == "ada"
    assert read("agents: {default: lea}", SWARM_CONFIG="").agents.default == "lea"


@pytest.mark.req("OPS-11")
def test_a_settings_file_that_is_named_and_missing_stops_the_start(read: Read) -> None:
    with pytest.raises(ConfigurationError, match=r"SWARM_CONFIG is missing\.yaml: there is no such file"):
        read(SWARM_CONFIG="missing.yaml")


# A part of the settings

PART = (("home",), ("http", "port"), ("log", "level"))


def part(folder: Path, yaml: str, **environment: str) -> tuple[Settings, str]:
    """The settings of ``PART`` and why the file does not count."""
    (folder / "swarm.yaml").write_text(yaml, encoding="utf-8")
    return load_part(PART, environment, folder=folder, user_home=folder / "nobody")


@pytest.mark.req("RUN-01")
def test_a_part_of_the_settings_is_read_whatever_the_rest_says(tmp_path: Path) -> None:
    rest = "agents: {builtin: {lea: {kind: assistant}}}\nmodel: {name: '${UNSET}'}\nno_setting: 1\n"
    settings, problem = part(tmp_path, f"{rest}http: {{port: 81, allowed_hosts: 7}}\nlog: {{level: debug}}", PORT="82")
    assert (settings.http.port, settings.log.level, problem) == (82, "debug", "")
    assert (settings.agents, settings.model) == (Settings().agents, Settings().model)
    assert part(tmp_path, rest, SWARM_HOME="elsewhere", SWARM_NO_SETTING="1")[0].home == Path("elsewhere")


@pytest.mark.req("RUN-01")
@pytest.mark.parametrize("yaml", ["http: {port: 81", "- a list", "http: {port: 81}\n\t- x"])
def test_a_file_that_cannot_be_read_does_not_count_for_a_part_and_is_told(tmp_path: Path, yaml: str) -> None:
    settings, problem = part(tmp_path, yaml)
    assert settings == Settings()
    assert "swarm.yaml" in problem


@pytest.mark.req("RUN-01")
@pytest.mark.parametrize(
    ("yaml", "words"), [("http: {port: far}", r"http\.port \(PORT\) is 'far'"), ("home: ${UNSET}", "refers to")]
)
def test_a_mistake_in_the_part_itself_is_named(tmp_path: Path, yaml: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        part(tmp_path, yaml)
    with pytest.raises(ConfigurationError, match="no such file"):
        part(tmp_path, "", SWARM_CONFIG="missing.yaml")


# What is secret, and what differs


def test_secrets_are_found_at_every_depth(read: Read) -> None:
    settings = read(
        "agents: {remote: {a: {url: 'http://u:in-address@a', token: of-agent}, b: {url: 'http://b', oauth: "
        "{token_url: 'http://u:of-service@t', client_id: a, client_secret: of-client}}}}\n"
        "channels: {C123: {client_context: {docs: ['http://u:in-context@d']}}}",
        SWARM_OPERATOR_TOKEN="secret-of-operator",
    )
    assert set(secrets(settings)) == {
        "secret-of-operator", "of-agent", "in-address", "of-client", "of-service", "in-context",
    }  # fmt: skip


def test_what_differs_is_named_by_its_key(read: Read) -> None:
    before = read("channels: {C123: {agent: a}, C456: {}}\nagents: {remote: {a: {url: 'http://a'}}}")
    after = read(
        "channels: {C123: {agent: b}, C789: {}}\nhttp: {port: 1}\n"
        "agents: {remote: {a: {url: 'http://a', token: new-token}}}"
    )
    assert list(differences(before, after)) == [
        "http.port", "agents.remote.a.token", "channels.C123.agent", "channels.C456", "channels.C789",
    ]  # fmt: skip
    assert list(differences(after, after)) == []


@pytest.mark.req("OPS-02")
def test_swarm_url_and_port_say_where_the_coordinator_is(read: Read) -> None:
    assert read(PORT="1234").http.address == "http://127.0.0.1:1234"
    assert read(PORT="1234", SWARM_HOST="::").http.address == "http://[::1]:1234"
    assert read(PORT="1234", SWARM_URL="https://swarm.example.org/").http.address == "https://swarm.example.org"


@pytest.mark.req("AGENT-07")
@pytest.mark.parametrize(
    ("environment", "provider"),
    [
        ({"LLM_MODEL": "o4-mini", "OLLAMA_BASE_URL": "http://here:1"}, "openai"),
        ({"LLM_MODEL": "gpt-5-mini", "ANTHROPIC_API_KEY": "k"}, "openai"),
        ({"LLM_MODEL": "chatgpt-4o-latest"}, "openai"),
        ({"LLM_MODEL": "claude-sonnet-4-5", "OPENAI_API_KEY": "k"}, "anthropic"),
        ({"LLM_MODEL": "gpt-oss:20b"}, "ollama"),
        ({"LLM_MODEL": "olmo2:7b"}, "ollama"),
        ({"LLM_MODEL": "mistral-large", "OPENAI_BASE_URL": "http://here:1/v1", "ANTHROPIC_API_KEY": "k"}, "openai"),
        ({"LLM_MODEL": "mistral-large", "OPENAI_API_KEY": "k"}, "openai"),
        ({"LLM_MODEL": "mistral-large", "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "ollama"),
        ({"LLM_MODEL": "mistral-large", "OPENAI_API_KEY": "k", "OLLAMA_BASE_URL": "http://here:1"}, "ollama"),
    ],
)
def test_a_provider_that_nobody_names_is_guessed(read: Read, environment: dict[str, str], provider: str) -> None:
    (spec,) = settings_mapping.model_specs(read(**environment))
    assert (spec.provider, spec.is_guessed) == (provider, True)
    assert "LLM_PROVIDER" in spec.guess
    (named,) = settings_mapping.model_specs(read(**environment, LLM_PROVIDER="bedrock"))
    assert (named.provider, named.guess) == ("bedrock", "")


# The tests' clock


@pytest.mark.req("OPS-08")
@pytest.mark.parametrize("url", ["", "https://slack.com/api/", "https://127.0.0.1.example.org/api/"])
def test_a_clock_set_by_a_test_is_refused_where_slack_is_not_on_this_machine(read: Read, url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"SWARM_TEST_CLOCK.*for tests.*remove the setting"):
        read(SWARM_TEST_CLOCK="/tmp/ahead", SLACK_API_BASE_URL=url)


@pytest.mark.req("OPS-08")
def test_a_clock_set_by_a_test_is_ahead_by_what_its_file_says(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ahead"
    settings = read(SWARM_TEST_CLOCK=str(file), SLACK_API_BASE_URL="http://127.0.0.1:8400/api/")
    assert settings.test_clock == file
    for name, value in vars(clock.ClockOffset()).items():  # and afterwards as it was
        monkeypatch.setattr(clock.offset, name, value)
    with pytest.raises(ConfigurationError, match="does not contain a number of seconds"):
        process.follow_test_clock(file)
    file.write_text("3600\n")
    process.follow_test_clock(file)
    real = time.time_ns() // 1_000
    assert 3600 <= (clock.SystemClock().now_us() - real) / clock.SECOND < 3660
    file.write_text("")  # it is being replaced
    assert clock.offset.seconds() == 3600


# What stands twice, and keys that do not exist


@pytest.mark.req("OPS-11")
@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("channels:\n  C1: {listen: all}\n  C1: {}\n", "line 3, column 3: the key C1 stands twice, first in line 2"),
        ("http: {port: 1}\nlog: {}\nhttp: {}\n", "line 3, column 1: the key http stands twice, first in line 1"),
        ("log:\n  level: info\n  'level': debug\n", "line 3, column 3: the key level stands twice, first in line 2"),
        ("agents:\n  remote:\n    a: {url: 'http://a'}\n    a: {}\n", "the key a stands twice, first in line 3"),
        ("decisions:\n- {tool: x, users: [U1], tool: y}\n", "the key tool stands twice, first in line 2"),
    ],
)
def test_what_stands_twice_is_refused_with_both_lines(read: Read, yaml: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(yaml)
    assert says in raised.value.message


@pytest.mark.req("OPS-11")
def test_keys_that_are_merged_do_not_stand_twice(read: Read) -> None:
    settings = read("channels:\n  C123: &one {listen: all}\n  C223: {<<: *one, listen: mention}\n  C323: *one\n")
    assert [settings.channels_in_full[name].listen for name in ("C223", "C323")] == [Listen.MENTION, Listen.ALL]


@pytest.mark.req("OPS-11")
def test_a_variable_that_stands_twice_in_one_file_is_refused_with_both_lines(read: Read, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OTHER=1\nOTHER=2\nPORT=1\n# a comment\nexport PORT=2\n")
    with pytest.raises(ConfigurationError) as raised:
        read()
    assert raised.value.message == f"{tmp_path / '.env'}: line 5: PORT stands twice, first in line 3"


@pytest.mark.req("OPS-11")
def test_where_a_key_is_set_is_named_in_the_order_in_which_places_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    key = ("providers", "openai", "api_key")
    assert where_set(*key) == "OPENAI_API_KEY"  # nowhere
    (tmp_path / "swarm.yaml").write_text("providers: {openai: {api_key: sk-0}}\n")
    assert where_set(*key) == "providers.openai.api_key (swarm.yaml)"
    own = tmp_path / "ada" / ".swarm" / ".env"
    own.parent.mkdir(parents=True)
    own.write_text("OPENAI_API_KEY=sk-1\n")
    assert where_set(*key) == f"OPENAI_API_KEY ({own}, line 1)"
    (tmp_path / ".env").write_text("# keys\nOTHER=1\nexport OPENAI_API_KEY=sk-2\n")
    assert where_set(*key) == "OPENAI_API_KEY (.env, line 3)"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-3")
    assert where_set(*key) == "OPENAI_API_KEY (the environment)"


@pytest.mark.req("OPS-11")
@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("chanels: {}", "chanels: there is no such setting; did you mean channels?"),
        (
            "channels: {C1: {listn: all}}",
            "channels.C1.listn: there is no such setting; did you mean channels.C1.listen?",
        ),
        ("agents: {remote: {a: {uri: 'http://a'}}}", "did you mean agents.remote.a.url?"),
        ("budgets: {day: {token: 3}}", "did you mean budgets.day.tokens?"),
        ("decisions: [{tol: x, users: [U1]}]", "did you mean decisions.0.tool?"),
        ("zzzz: 1", "zzzz: there is no such setting"),
    ],
)
def test_an_unknown_key_names_the_one_that_is_meant(read: Read, yaml: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(yaml)
    assert says in raised.value.message
    assert ("did you mean" in raised.value.message) == ("zzzz" not in yaml)


@pytest.mark.req("OPS-11")
def test_commands_read_only_the_settings_by_which_they_find_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    (tmp_path / "swarm.yaml").write_text("http: {port: 8099}\nslack: {bot_token: '${NOBODY_SETS_IT}'}\nnonsense: 1\n")
    settings = coordinator_settings()
    assert (settings.http.address, settings.home) == ("http://127.0.0.1:8099", tmp_path)
    (tmp_path / "swarm.yaml").write_text("http: {port: 8099}\nhttp: {port: 8098}\n")
    with pytest.raises(ConfigurationError, match="the key http stands twice"):
        coordinator_settings()  # which of the two is meant, nobody knows
