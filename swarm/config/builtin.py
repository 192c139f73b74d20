"""The settings for agents that run in the coordinator: their sessions, tools and documents."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from swarm.config.section import Section
from swarm.domain.access import OPERATOR, check_callers
from swarm.domain.answers.agents import PARALLEL_RUNS, OnRestart
from swarm.domain.errors import Invalid
from swarm.domain.model.agents import Role
from swarm.domain.model.sessions import COMPACTION_THRESHOLD, KEEP_RECENT_MESSAGES, SessionScope

SERVERS_CONFIG = Path("servers_config.json")
PROMPTS_CONFIG = Path("prompts/prompts_config.yaml")

HomePath = Annotated[Path, AfterValidator(Path.expanduser)]
"""A path in which ``~`` stands for the home folder, even if no shell has expanded it."""


class Kind(StrEnum):
    """The kinds of agents that come with swarm."""

    ROUTER = "router"  # turns a sentence into one call of an MCP tool
    ASSISTANT = "assistant"  # converses, remembers and uses tools


class LocalTool(StrEnum):
    """Tools that an operator must allow for an assistant by name, since they act on this machine or on others."""

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


class BuiltinAgentSettings(Section):
    """An agent that runs in the coordinator."""

    kind: Kind = Field(description="router, or assistant")
    role: Role = Field(Role.LEAD, description="lead, or worker")
    description: str = Field("", description="what it is good at, for the agents that delegate")
    prompt: Path | None = Field(None, description="a file with the assistant's system prompt, a Jinja2 template")
    tools: list[LocalTool] = Field(
        default_factory=list, description="beside documents and MCP servers; of assistants only"
    )
    model: str | None = Field(None, min_length=1, description="another model than model.name, of the same provider")
    parallel: int = Field(PARALLEL_RUNS, ge=1, description="so many runs at once in one coordinator process")
    on_restart: OnRestart = Field(
        OnRestart.RERUN, description="what a restart has cut off: rerun it, or ask with a Retry button"
    )
    callers: list[str] = Field(
        default_factory=lambda: [OPERATOR],
        description="who may call it over AG-UI: operator (who always may), leads, workers, or agents by name",
    )
    tool_details: bool = Field(
        False, description="tell callers over AG-UI with which arguments it calls its tools, and what these answer"
    )
    footer: str = Field("", max_length=1_000, description="words of your own below every answer, mrkdwn")

    @field_validator("callers")
    @classmethod
    def _are_callers(cls, callers: list[str]) -> list[str]:
        try:
            check_callers(callers)
        except Invalid as error:
            raise ValueError(f"{error.message} Expected: operator, leads, workers, or agents' names") from error
        return callers

    @model_validator(mode="after")
    def _has_what_its_kind_has(self) -> BuiltinAgentSettings:
        """Rejects settings that would have no effect on an agent of this kind."""
        if self.kind is Kind.ROUTER and self.tools:
            raise ValueError("tools are an assistant's; a router has those of the MCP servers (tools.servers_config)")
        if self.kind is Kind.ROUTER and self.prompt:
            raise ValueError("prompt is an assistant's; a router has router.decide (tools.prompts_config)")
        return self


class _SessionSettings(Section):
    """The memory of assistants."""

    scope: SessionScope = Field(
        SessionScope.USER, description="one memory for each user in a channel, or for each thread"
    )
    compaction_threshold: int = Field(
        COMPACTION_THRESHOLD, ge=2, description="with more messages than this, the older ones are summarised"
    )
    keep_recent_messages: int = Field(KEEP_RECENT_MESSAGES, ge=0, description="so many are kept as they are")

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
        default_factory=lambda: ["https", "ssh"], description='of remotes; "file" runs the hooks of the other side'
    )
    credential_helper: str = Field("", description="git's credential.helper; without it ~/.netrc and ssh keys")
    trusted_keys: list[str] = Field(
        default_factory=list, description="keys that a repository's configuration may have, as filter.lfs.*"
    )
    environment: list[str] = Field(
        default_factory=list, description="variables that git gets beside HOME, PATH and LANG, as SSH_AUTH_SOCK"
    )
    timeout_seconds: float = Field(30, gt=0, description="so long one call may take")


class _ShellSettings(Section):
    """The settings of the tool shell, which is off if no commands are allowed."""

    commands: list[str] = Field(default_factory=list, description="programs that may be run, by name, as ls")
    environment: list[str] = Field(
        default_factory=list, description="variables that they get beside HOME, PATH and LANG"
    )
    timeout_seconds: float = Field(60, gt=0, description="so long one call may take")

    @field_validator("commands")
    @classmethod
    def _are_names(cls, commands: list[str]) -> list[str]:
        for command in commands:
            if not command or "/" in command or command.startswith("-") or any(map(str.isspace, command)):
                raise ValueError(f"'{command}' is no name of a program; a name such as ls is expected")
        return commands


class _DelegateSettings(Section):
    """The coding programs to which assistants may delegate work."""

    kiro: Path = Field(Path("~/.local/bin/kiro-cli"), description="where kiro-cli is")
    claude: Path = Field(Path("claude"), description="where claude is; a name is looked for on the PATH")
    codex: Path = Field(Path("codex"), description="where codex is; a name is looked for on the PATH")
    timeout_seconds: float = Field(300, gt=0, description="so long one task may take")
    claude_options: list[str] = Field(
        default_factory=lambda: ["--permission-mode", "acceptEdits"], description="what claude may do without asking"
    )
    codex_options: list[str] = Field(
        default_factory=lambda: ["--sandbox", "workspace-write"], description="what codex may do without asking"
    )
    environment: list[str] = Field(
        default_factory=list, description="variables that they get beside HOME, PATH and LANG, as ANTHROPIC_API_KEY"
    )


class _AgentCoreSettings(Section):
    """Amazon Bedrock AgentCore; needs the extra "agentcore" and AWS's credentials."""

    region: str | None = Field(None, description="without it AWS_REGION, or AWS's configuration")
    memory_id: str | None = Field(None, description="of the memory that memory-store and memory-recall use")
    actor_id: str = Field("swarm", min_length=1, description="whose memory it is; all who talk to the agents share it")


class ToolSettings(Section):
    """The tools of built-in agents."""

    servers_config: HomePath = Field(SERVERS_CONFIG, description="the MCP servers, in the form of other MCP clients")
    prompts_config: HomePath = Field(
        PROMPTS_CONFIG, description="wordings of your own, key by key before the built-in ones"
    )
    work_tree: Path | None = Field(
        None,
        description="the folder that git, files, shell and delegates stay in; without it none of them may be allowed",
    )
    output_characters: int = Field(20_000, ge=500, description="more of one tool's output is cut")
    search_max_calls: int | None = Field(5, ge=0, description="calls of search in one run; null: no limit")
    fetch_document_max_calls: int | None = Field(10, ge=0, description="calls of fetch_document in one run")
    git: GitSettings = GitSettings()
    shell: _ShellSettings = _ShellSettings()
    delegates: _DelegateSettings = _DelegateSettings()
    agentcore: _AgentCoreSettings = _AgentCoreSettings()


class DocumentSettings(Section):
    """Documents that assistants can search."""

    folder: Path | None = Field(None, description="without it there is no search")
    rescan_seconds: float = Field(30, gt=0, description="so often the folder is looked through for changes")
    most_bytes: int = Field(2_000_000, gt=0, description="a larger file is left out")
