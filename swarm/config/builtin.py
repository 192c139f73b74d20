"""The settings for agents that run in the coordinator: their models, sessions, tools and documents."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from swarm.domain.answers.agents import PARALLEL_RUNS, OnRestart
from swarm.domain.errors import Invalid
from swarm.domain.model.agents import Role
from swarm.domain.model.language_models import (
    MODEL_TIMEOUT_SECONDS,
    MOST_REQUESTS,
    MOST_SECONDS,
    MOST_TOKENS,
    MOST_TOOL_CALLS,
    OLLAMA_BASE_URL,
    TOOL_OUTPUT_CHARACTERS,
    Provider,
    guessed_provider,
)
from swarm.domain.model.sessions import COMPACTION_THRESHOLD, KEEP_RECENT_MESSAGES, SessionScope
from swarm.domain.policy.access import OPERATOR, check_callers
from swarm.domain.policy.channels import SuggestedPrompt
from swarm.domain.policy.section import HttpAddress, Section

SERVERS_CONFIG = Path("servers_config.json")
PROMPTS_CONFIG = Path("prompts/prompts_config.yaml")

HomePath = Annotated[Path, AfterValidator(Path.expanduser)]
"""A path in which ``~`` stands for the home folder, even if no shell has expanded it."""


class Kind(StrEnum):
    """The kinds of agents that come with swarm."""

    ROUTER = "router"  # turns a sentence into one call of an MCP tool
    ASSISTANT = "assistant"  # converses, remembers and uses tools


class LocalTool(StrEnum):
    """Tools that an operator must allow for an assistant by name. All but the last act on this machine or on others."""

    GIT = "git"
    SHELL = "shell"
    FILE_READ = "file-read"
    FILE_WRITE = "file-write"
    KIRO_DELEGATE = "kiro-delegate"
    CLAUDE_DELEGATE = "claude-delegate"
    CODEX_DELEGATE = "codex-delegate"
    WEB_BROWSE = "web-browse"
    MEMORY_STORE = "memory-store"
    MEMORY_RECALL = "memory-recall"
    CODE_EXECUTE = "code-execute"
    SWARM = "swarm"  # the swarm's own tools: other agents, tasks, threads, messages
    WRITE_PLAN = "write-plan"


class FallbackSettings(Section):
    """A model that answers if the models before it have failed."""

    name: str = Field(min_length=1, description="the provider's name for the model")
    provider: Provider | None = Field(None, description="a provider, as in model.provider")


class ToolLimitSettings(Section):
    """The limits of the tools that a pattern matches, for each tool by itself."""

    calls: int | None = Field(None, ge=0, description="maximum number of calls in one run")
    characters: int | None = Field(None, ge=500, description="maximum length of an output; longer output is truncated")
    seconds: float | None = Field(None, gt=0, description="maximum duration of one call, without waiting for people")


class ThreadLimitSettings(Section):
    """The limits for all answers of built-in agents in one thread, or other conversation, on one day (UTC).

    A limit ends the run, and nobody is asked; ``budgets.thread`` asks people, and counts all agents for good.
    """

    requests: int | None = Field(None, ge=1, description="maximum number of calls of the model")
    tokens: int | None = Field(None, ge=1, description="maximum number of tokens, read and written")
    tool_calls: int | None = Field(None, ge=0)
    cost_dollars: Decimal | None = Field(None, gt=0, description="maximum cost, as far as it is known")


class AgentLimitSettings(Section):
    """The limits of built-in agents; null means no limit."""

    requests: int | None = Field(MOST_REQUESTS, ge=1, description="maximum number of calls of the model")
    tokens: int | None = Field(
        MOST_TOKENS, ge=1, description="maximum number of tokens, read and written, in all calls"
    )
    tool_calls: int | None = Field(MOST_TOOL_CALLS, ge=0)
    seconds: float | None = Field(MOST_SECONDS, gt=0, description="maximum wall-clock time")
    cost_dollars: Decimal | None = Field(None, gt=0, description="maximum cost; applies if the model's price is known")
    thread: ThreadLimitSettings = ThreadLimitSettings()
    tools: Mapping[str, ToolLimitSettings] = Field(
        default_factory=dict, description="by tool: its name or server/tool, with * for anything"
    )

    @field_validator("tools")
    @classmethod
    def _are_patterns(cls, tools: Mapping[str, ToolLimitSettings]) -> Mapping[str, ToolLimitSettings]:
        if any(not pattern.strip() for pattern in tools):
            raise ValueError("an empty text matches no tool; a name such as create_* is expected")
        return tools


class BuiltinAgentSettings(Section):
    """An agent that runs in the coordinator."""

    kind: Kind = Field(description="router, or assistant")
    role: Role = Field(Role.LEAD, description="lead, or worker")
    description: str = Field("", description="what the agent is good at, for agents that delegate")
    prompt: Path | None = Field(None, description="a file with the assistant's system prompt, a Jinja2 template")
    instructions: str = Field(
        "",
        max_length=20_000,
        description="what an assistant does and how, in your words, added to its system prompt unchanged",
    )
    tools: list[LocalTool] = Field(
        default_factory=list, description="tools in addition to documents and MCP servers; for assistants only"
    )
    servers: list[str] | None = Field(
        None,
        description="MCP servers and tools that the agent has: names of servers, or server/tool, with * for anything; "
        "what is named here belongs only to agents that name it; by default all that no agent names; []: none",
    )
    approve: list[str] | None = Field(
        None,
        description="tools that a person must approve before each call: names with * for anything, or git push; by "
        "default git push, shell, delegates, and what an MCP server calls destructive; []: none",
    )
    model: str | None = Field(
        None, min_length=1, description="a model to use instead of model.name, from the same provider"
    )
    fallbacks: list[FallbackSettings] | None = Field(
        None, description="models to call if the agent's model cannot answer, instead of model.fallbacks; []: none"
    )
    limits: AgentLimitSettings = Field(
        AgentLimitSettings(), description="limits of this agent; what is not set here is taken from limits"
    )
    formerly: str | None = Field(
        None, min_length=1, description="the agent's earlier name: it keeps its memory, threads and tasks"
    )
    parallel: int = Field(
        PARALLEL_RUNS, ge=1, description="maximum number of simultaneous runs in one coordinator process"
    )
    on_restart: OnRestart = Field(
        OnRestart.RERUN, description="what to do with runs interrupted by a restart: rerun, or ask with a Retry button"
    )
    callers: list[str] = Field(
        default_factory=lambda: [OPERATOR],
        description="who may call the agent over AG-UI: operator (always allowed), leads, workers, or agents by name",
    )
    tool_details: bool = Field(
        False, description="show callers over AG-UI the arguments and results of the agent's tool calls"
    )
    footer: str = Field("", max_length=1_000, description="your own text below every answer, in mrkdwn")
    suggested_prompts: tuple[SuggestedPrompt, ...] = Field(
        (), max_length=4, description="prompts to choose from where people start a conversation with this agent"
    )

    @field_validator("callers")
    @classmethod
    def _are_callers(cls, callers: list[str]) -> list[str]:
        try:
            check_callers(callers)
        except Invalid as error:
            raise ValueError(f"{error.message} Expected: operator, leads, workers, or agents' names") from error
        return callers

    @field_validator("approve", "servers")
    @classmethod
    def _are_patterns(cls, patterns: list[str] | None) -> list[str] | None:
        if any(not pattern.strip() for pattern in patterns or ()):
            raise ValueError("an empty text matches no tool; a name such as create_* is expected")
        return patterns

    @model_validator(mode="after")
    def _has_what_its_kind_has(self) -> BuiltinAgentSettings:
        """Rejects settings that would have no effect on an agent of this kind."""
        if self.kind is Kind.ROUTER and self.tools:
            raise ValueError(
                "only assistants have tools; a router uses the tools of the MCP servers (tools.servers_config)"
            )
        if self.kind is Kind.ROUTER and self.instructions:
            raise ValueError("only assistants have instructions; a router uses router.decide (tools.prompts_config)")
        if self.kind is Kind.ROUTER and self.prompt:
            raise ValueError("only assistants have a prompt; a router uses router.decide (tools.prompts_config)")
        return self


class _SessionSettings(Section):
    """The memory of assistants."""

    scope: SessionScope = Field(
        SessionScope.USER, description="whether there is one memory for each user in a channel, or for each thread"
    )
    compaction_threshold: int = Field(
        COMPACTION_THRESHOLD, ge=2, description="number of messages above which older messages are summarised"
    )
    keep_recent_messages: int = Field(
        KEEP_RECENT_MESSAGES, ge=0, description="number of recent messages that are not summarised"
    )

    @model_validator(mode="after")
    def _leaves_something_to_summarise(self) -> _SessionSettings:
        if self.keep_recent_messages >= self.compaction_threshold:
            raise ValueError("keep_recent_messages is expected to be less than compaction_threshold")
        return self


class RuntimeSettings(Section):
    """The settings for running built-in agents."""

    session: _SessionSettings = _SessionSettings()


class GitSettings(Section):
    """The settings of the tool git."""

    author_name: str = Field("swarm", min_length=1, description="of commits")
    author_email: str = Field("swarm@localhost", min_length=1, description="of commits")
    protocols: list[str] = Field(
        default_factory=lambda: ["https", "ssh"],
        description='the allowed protocols of remotes; "file" runs hooks of the remote',
    )
    credential_helper: str = Field("", description="git's credential.helper; without it ~/.netrc and ssh keys")
    trusted_keys: list[str] = Field(
        default_factory=list, description="keys that a repository's configuration may contain, such as filter.lfs.*"
    )
    environment: list[str] = Field(
        default_factory=list,
        description="variables passed to git in addition to HOME, PATH and LANG, such as SSH_AUTH_SOCK",
    )
    timeout_seconds: float = Field(30, gt=0, description="maximum duration of one call")


class _ShellSettings(Section):
    """The settings of the tool shell, which is off if no commands are allowed."""

    commands: list[str] = Field(default_factory=list, description="programs that may be run, by name, such as ls")
    environment: list[str] = Field(
        default_factory=list, description="variables passed to them in addition to HOME, PATH and LANG"
    )
    timeout_seconds: float = Field(60, gt=0, description="maximum duration of one call")

    @field_validator("commands")
    @classmethod
    def _are_names(cls, commands: list[str]) -> list[str]:
        for command in commands:
            if not command or "/" in command or command.startswith("-") or any(map(str.isspace, command)):
                raise ValueError(f"'{command}' is not the name of a program; a name such as ls is expected")
        return commands


class _DelegateSettings(Section):
    """The coding programs to which assistants may delegate work."""

    kiro: Path = Field(Path("~/.local/bin/kiro-cli"), description="path of kiro-cli")
    claude: Path = Field(Path("claude"), description="path of claude, or a name to find on the PATH")
    codex: Path = Field(Path("codex"), description="path of codex, or a name to find on the PATH")
    timeout_seconds: float = Field(300, gt=0, description="maximum duration of one task")
    claude_options: list[str] = Field(
        default_factory=lambda: ["--permission-mode", "acceptEdits"],
        description="options that determine what claude may do without asking",
    )
    codex_options: list[str] = Field(
        default_factory=lambda: ["--sandbox", "workspace-write"],
        description="options that determine what codex may do without asking",
    )
    environment: list[str] = Field(
        default_factory=list,
        description="variables passed to them in addition to HOME, PATH and LANG, such as ANTHROPIC_API_KEY",
    )


class _AgentCoreSettings(Section):
    """Amazon Bedrock AgentCore; needs the extra "agentcore" and AWS credentials."""

    region: str | None = Field(None, description="by default AWS_REGION, or AWS's configuration")
    memory_id: str | None = Field(None, description="the id of the memory that memory-store and memory-recall use")
    actor_id: str = Field(
        "swarm", min_length=1, description="the owner of the memory, which everyone who talks to the agents shares"
    )


class ToolSettings(Section):
    """The tools of built-in agents."""

    servers_config: HomePath = Field(
        SERVERS_CONFIG, description="the MCP servers, in the same format as for other MCP clients"
    )
    prompts_config: HomePath = Field(
        PROMPTS_CONFIG, description="your own wordings, which replace the built-in ones key by key"
    )
    work_tree: Path | None = Field(
        None,
        description="the folder to which git, files, shell and delegates are limited; required if any of them is "
        "allowed",
    )
    output_characters: int = Field(
        TOOL_OUTPUT_CHARACTERS, ge=500, description="maximum length of a tool's output; longer output is truncated"
    )
    search_max_calls: int | None = Field(
        5, ge=0, description="maximum number of calls of search in one run; null: no limit"
    )
    fetch_document_max_calls: int | None = Field(
        10, ge=0, description="maximum number of calls of fetch_document in one run"
    )
    git: GitSettings = GitSettings()
    shell: _ShellSettings = _ShellSettings()
    delegates: _DelegateSettings = _DelegateSettings()
    agentcore: _AgentCoreSettings = _AgentCoreSettings()


class DocumentSettings(Section):
    """Documents that assistants can search."""

    folder: Path | None = Field(None, description="the folder of documents; without it there is no search")
    rescan_seconds: float = Field(30, gt=0, description="interval between checks of the folder for changes")
    most_bytes: int = Field(2_000_000, gt=0, description="maximum size of a file; larger files are ignored")


class ModelSettings(Section):
    """The model of the built-in agents. Without a name, no built-in agents run."""

    name: str | None = Field(
        None, min_length=1, description="the provider's name for the model, for example gpt-5-mini"
    )
    provider: Provider | None = Field(
        None,
        description="openai, anthropic, bedrock or ollama; by default guessed: gpt…, chatgpt…, o1…: openai; claude…: "
        "anthropic; else the provider whose base_url is set, else the only one whose api_key is set, else ollama",
    )
    timeout_seconds: float = Field(MODEL_TIMEOUT_SECONDS, gt=0, description="maximum silence of a model")
    max_tokens: int | None = Field(
        None, gt=0, description="maximum tokens of one answer; null: the provider's own limit"
    )
    temperature: float | None = Field(None, ge=0, le=2)
    fallbacks: list[FallbackSettings] = Field(
        default_factory=list, description="models to call, in this order, if the models before them cannot answer"
    )
    check_at_start: bool = Field(
        True, description="check at the start, with a request for one word, that the model answers"
    )


class _OpenAISettings(Section):
    """OpenAI, or a service that uses the same protocol."""

    api_key: SecretStr | None = None
    base_url: HttpAddress | None = Field(None, description="with its path, such as http://127.0.0.1:8000/v1")


class _AnthropicSettings(Section):
    """Anthropic."""

    api_key: SecretStr | None = None
    base_url: HttpAddress | None = None


class _BedrockSettings(Section):
    """Amazon Bedrock. Credentials are found in the same way as by AWS's own programs."""

    region: str | None = Field(None, description="by default AWS_REGION, or AWS's configuration")
    base_url: HttpAddress | None = None


class _OllamaSettings(Section):
    """Ollama."""

    base_url: HttpAddress = Field(OLLAMA_BASE_URL, description="without /v1")
    api_key: SecretStr | None = Field(None, description="needed if there is a proxy that expects a key")


class ProviderSettings(Section):
    """The connections to model providers."""

    openai: _OpenAISettings = _OpenAISettings()
    anthropic: _AnthropicSettings = _AnthropicSettings()
    bedrock: _BedrockSettings = _BedrockSettings()
    ollama: _OllamaSettings = _OllamaSettings()

    def guess(self, model: str) -> Provider:
        """Returns the likely provider of a model whose settings do not name a provider."""
        given = {provider: getattr(self, provider).model_fields_set for provider in Provider}
        return guessed_provider(
            model,
            addresses=[provider for provider, keys in given.items() if "base_url" in keys],
            keys=[provider for provider, keys in given.items() if "api_key" in keys],
        )
