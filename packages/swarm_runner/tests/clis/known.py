"""The real coding CLIs: where they are found, what they are given, and how their tools are called.

`make coding-clis` installs them where they are found; ``SWARM_TEST_CODING_CLIS`` may name another folder of commands.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.providers.anthropic_wire import AnthropicWire
from tests.support.providers.openai_wire import OpenAIWire
from tests.support.providers.responses_wire import ResponsesWire
from tests.support.providers.script import Call
from tests.support.providers.wire import Wire

FOLDER: Final = "SWARM_TEST_CODING_CLIS"
PRICE: Final = {"input": 1000, "output": 1000}  # dollars for a million tokens
INSTALLED: Final = Path(__file__).parents[4] / "tests" / "coding_clis/node_modules/.bin"
QUESTION: Final = {
    "header": "Colour",
    "question": "Which colour?",
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
}


def path_with(program: str) -> str:
    """The PATH with the program, or a skipped test."""
    path = os.pathsep.join([os.environ.get(FOLDER, str(INSTALLED)), os.environ["PATH"]])
    if shutil.which(program, path=path) is None:
        pytest.skip(f"NOT TESTED HERE: {program} is not installed; `make coding-clis` installs it")
    return path


def claude_environment(base_url: str, home: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "sk-ant-nobody",
        "ANTHROPIC_BASE_URL": base_url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


def opencode_environment(base_url: str, home: Path) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": base_url, "apiKey": "sk-nobody"},
        "models": {"m": {"name": "m", "cost": PRICE, "limit": {"context": 100_000, "output": 1000}}},
    }
    config = {"provider": {"local": provider}, "model": "local/m", "small_model": "local/m", "autoupdate": False}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def codex_environment(base_url: str, home: Path) -> dict[str, str]:
    folder = home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "local"\n[model_providers.local]\nname = "local"\n'
        f'base_url = "{base_url}"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\nrequest_max_retries = 0\n'
        "stream_max_retries = 0\n"
    )
    return {"OPENAI_API_KEY": "sk-nobody", "CODEX_HOME": str(folder)}


def _bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "Run it"})


def _lower_bash(command: str) -> Call:
    return Call("bash", {"command": command, "description": "Run it"})


def _exec(command: str) -> Call:
    """Codex runs a command in its own sandbox, and asks people about one that is to run outside."""
    return Call("exec_command", {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "Run it"})


@dataclass(frozen=True, kw_only=True)
class Cli:
    """A real CLI, as ``--provider`` names it."""

    provider: str
    program: str  # the command that must be there
    binary: str  # the name of the executable that talks with the model
    wire: Callable[[], Wire]
    environment: Callable[[str, Path], dict[str, str]]
    shell: Callable[[str], Call]
    swarm_tool: str  # how the model names a tool of the swarm
    question: Call | None = None  # None: it cannot ask people

    def swarm(self, tool: str, **arguments: Any) -> Call:
        """The model's call of a tool of the swarm."""
        known_as = tool.replace("-", "_") if self.binary == "codex" else tool
        return Call(self.swarm_tool.format(known_as), arguments)


_ASK_USER: Final = Call("AskUserQuestion", {"questions": [{**QUESTION, "multiSelect": False}]})
_REQUEST_INPUT: Final = Call("request_user_input", {"questions": [{**QUESTION, "id": "colour"}]})
_CLAUDE: Final[Mapping[str, Any]] = {
    "binary": "claude",
    "wire": AnthropicWire,
    "environment": claude_environment,
    "shell": _bash,
    "swarm_tool": "mcp__swarm__{}",
    "question": _ASK_USER,
}
_CODEX: Final[Mapping[str, Any]] = {
    "program": "codex-acp",
    "binary": "codex",
    "wire": ResponsesWire,
    "environment": codex_environment,
    "shell": _exec,
    "swarm_tool": "mcp__swarm/{}",
    "question": _REQUEST_INPUT,
}

CLIS: Final = (
    Cli(provider="claude", program="claude", **_CLAUDE),
    Cli(provider="codex", **_CODEX),
    Cli(
        provider="opencode",
        program="opencode",
        binary="opencode",
        wire=OpenAIWire,
        environment=opencode_environment,
        shell=_lower_bash,
        swarm_tool="swarm_{}",
    ),
    Cli(provider="acp:claude-agent-acp", program="claude-agent-acp", **_CLAUDE),
    Cli(provider="acp:codex-acp", **_CODEX),
)

each = pytest.mark.parametrize("cli", CLIS, ids=lambda cli: cli.provider)
"""For every real CLI."""
