"""Reads the settings from their sources and combines them.

If the settings contain a model but no agents, default agents are added, so that a model alone is enough to start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from swarm.config import variables as unused_variables
from swarm.config.builtin import BuiltinAgentSettings, Kind
from swarm.config.settings import Settings
from swarm.config.variables import CONFIG_VARIABLE, DYNAMIC_AGENTS, DYNAMIC_AGENTS_VARIABLE, VARIABLES
from swarm.domain.answers.agents import Dialect
from swarm.domain.errors import ConfigurationError
from swarm.telemetry.redaction import Redactor

_SECRET = re.compile(r"(token|secret|key)$")
_REDACTOR: Final = Redactor()


class BadSettings(ConfigurationError):
    """Some settings are invalid. ``problems`` has each bad key with its problem."""

    def __init__(self, error: ValidationError) -> None:
        found = [_problem(part) for part in error.errors(include_url=False)]
        self.problems: Mapping[str, str] = dict(found)
        super().__init__(
            "; ".join(f"{key} {wrong}" if wrong.startswith("is ") else f"{key}: {wrong}" for key, wrong in found)
        )


def _problem(part: ErrorDetails) -> tuple[str, str]:
    """Returns the key with its environment variable, and the problem."""
    path = tuple(str(step) for step in part["loc"])
    variable = next((name for name, known in VARIABLES.items() if known == path), None)
    key = ".".join(path) + (f" ({variable})" if variable else "")
    if part["type"] == "extra_forbidden":
        return key, "there is no such setting"
    expected = part["msg"].removeprefix("Value error, ")
    value = part.get("input")
    if isinstance(value, dict | list) or (path and _SECRET.search(path[-1])) or part["type"] == "missing":
        return key, expected
    return key, f"is {_REDACTOR.line(repr(value))}: {expected}"


ASSISTANT: Final = "assistant"
ROUTER: Final = "tools"


def _with_default_agents(settings: Settings, folder: Path) -> Settings:
    """Returns the settings, adding an assistant if there is a model but no agent runs in the coordinator.

    If MCP servers are configured, a router is added too. The router comes first, so that it answers if no default is
    named and no other lead is older.
    """
    agents = settings.agents
    if not settings.model.name or agents.builtin or agents.remote:
        return settings
    builtin = {ASSISTANT: BuiltinAgentSettings(kind=Kind.ASSISTANT, description="Converses and uses tools.")}
    if (folder / settings.tools.servers_config).is_file():
        router = BuiltinAgentSettings(kind=Kind.ROUTER, description="Turns a sentence into a call of a tool.")
        builtin = {ROUTER: router, **builtin}
    return settings.model_copy(update={"agents": agents.model_copy(update={"builtin": builtin})})


CONFIG_FILE: Final = "swarm.yaml"

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> Settings:
    """Returns the settings of a process started in ``folder``. Raises ConfigurationError, which names every bad key."""
    folder = folder or Path.cwd()
    sources = _sources(environment, folder, user_home or Path.home())
    variables = _merged(sources)
    file = settings_file(folder, variables)
    values = _read_yaml(file, variables)
    for name, path in VARIABLES.items():
        if variables.get(name):
            _put(values, path, variables[name])
    if variables.get(DYNAMIC_AGENTS_VARIABLE):
        _complete_dynamic_agents(values)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise BadSettings(error) from error
    unused_variables.check(
        sources,
        settings,
        unused_variables.text_of(file),
        unused_variables.text_of(folder / settings.tools.servers_config),
    )
    return _with_default_agents(settings, folder)


def read_variables(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> dict[str, str]:
    """Returns all variables. The environment takes precedence over ``./.env``, and ``./.env`` over ``~/.swarm/.env``.
    Empty variables count as not set."""
    return _merged(_sources(environment, folder or Path.cwd(), user_home or Path.home()))


def _sources(environment: Mapping[str, str] | None, folder: Path, user_home: Path) -> dict[str, dict[str, str]]:
    """Returns the variables that are set, by source, in order of precedence."""
    given: dict[str, Mapping[str, str | None]] = {
        "in the environment": dict(os.environ if environment is None else environment)
    }
    files = {f"in {path}": dotenv_values(path) for path in dotenv_files(folder, user_home)}
    return {
        where: {name: value for name, value in variables.items() if value}
        for where, variables in (given | files).items()
    }


def _merged(sources: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {name: value for variables in reversed(list(sources.values())) for name, value in variables.items()}


def dotenv_files(folder: Path, user_home: Path) -> tuple[Path, Path]:
    """Returns the files that may contain variables, in order of precedence. None of them has to exist."""
    return folder / ".env", user_home / ".swarm" / ".env"


def settings_file(folder: Path, variables: Mapping[str, str]) -> Path:
    """Returns the settings file. A file named by a variable must exist; ``swarm.yaml`` may be missing."""
    named = variables.get(CONFIG_VARIABLE)
    path = folder / (named or CONFIG_FILE)
    if named and not path.exists():
        raise ConfigurationError(f"{CONFIG_VARIABLE} is {named}: there is no such file")
    return path


def _read_yaml(path: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{path} cannot be read: {_reason(error)}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: a mapping of settings is expected, not {type(document).__name__}")
    return {str(key): _filled_in(value, variables, str(key), path) for key, value in document.items()}


def _reason(error: Exception) -> str:
    """Returns the problem with a file, without an excerpt, which might contain a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return str(error)


def _filled_in(value: object, variables: Mapping[str, str], key: str, path: Path) -> Any:
    """Returns the value with each ``${NAME}`` replaced."""
    if isinstance(value, dict):
        return {str(name): _filled_in(part, variables, f"{key}.{name}", path) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled_in(part, variables, f"{key}[{index}]", path) for index, part in enumerate(value)]
    if not isinstance(value, str):
        return value
    missing = [name for name in _PLACEHOLDER.findall(value) if name not in variables]
    if missing:
        raise ConfigurationError(f"{path}: {key} refers to ${{{missing[0]}}}, which is not set")
    return _PLACEHOLDER.sub(lambda found: variables[found.group(1)], value)


def _put(values: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    *parents, last = path
    for parent in parents:
        section = values.setdefault(parent, {})
        if not isinstance(section, dict):
            return  # the model reports the problem
        values = section
    values[last] = value


def _complete_dynamic_agents(values: dict[str, Any]) -> None:
    """Completes the settings of the agent behind DYNAMIC_AGENTS_URL. It uses the caipe protocol, and is the default
    agent if none is named."""
    agents = values.get("agents")
    remote = agents.get("remote") if isinstance(agents, dict) else None
    if isinstance(agents, dict) and isinstance(remote, dict) and isinstance(remote.get(DYNAMIC_AGENTS), dict):
        remote[DYNAMIC_AGENTS].setdefault("dialect", Dialect.CAIPE)
        agents["default"] = agents.get("default") or DYNAMIC_AGENTS
