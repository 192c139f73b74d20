"""Reads the settings from their sources and combines them.

If the settings contain a model but no agents, default agents are added, so that a model alone is enough to start.

The sources, in order of precedence: the environment, ``./.env``, ``~/.swarm/.env``, ``swarm.yaml``, and the
configuration of CAIPE's Slack bot (SLACK_INTEGRATION_BOT_CONFIG), whose channels count unless ``swarm.yaml`` has an
entry for the same channel. `Reading` also says where each value comes from.
"""

from __future__ import annotations

import copy
import difflib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml
from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from swarm.config.alert_templates import with_templates
from swarm.config.builtin import BuiltinAgentSettings, Kind
from swarm.config.channel_agents import agent_id_problems
from swarm.config.importing import caipe_variables
from swarm.config.importing.documents import yaml_problem
from swarm.config.importing.translation import Translation
from swarm.config.section import describe, expectation
from swarm.config.settings import Settings
from swarm.config.variables import (
    CONFIG_VARIABLE,
    DYNAMIC_AGENTS,
    DYNAMIC_AGENTS_VARIABLE,
    KNOWN,
    PLACEHOLDER,
    VARIABLES,
    report_unread,
)
from swarm.domain.answers.agents import Dialect
from swarm.domain.errors import ConfigurationError
from swarm.domain.text.unique_keys import UniqueKeys
from swarm_base.redaction import Redactor

_SECRET = re.compile(r"(token|secret|key)$")
_REDACTOR: Final = Redactor()


class BadSettings(ConfigurationError):
    """Some settings are invalid. ``problems`` has each bad key with its problem."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems: Mapping[str, str] = dict(problems)
        super().__init__(
            "; ".join(
                f"{key} {wrong}" if wrong.startswith("is ") else f"{key}: {wrong}".removeprefix(": ")
                for key, wrong in problems
            )
        )  # a problem of several keys together names them itself


def _meant(path: tuple[str, ...]) -> str:
    """Returns the settings beside an unknown one with a similar name, as a question; empty if there are none."""
    place = [step for step in path if not step.isdecimal()]
    beside = {
        known[len(place) - 1]
        for known in (name.split(".") for name, _ in describe(Settings))
        if len(known) >= len(place) and all(a in ("*", b) for a, b in zip(known, place[:-1], strict=False))
    }
    close = difflib.get_close_matches(place[-1].lower(), sorted(beside - {"*"}), n=1)
    return f"; did you mean {'.'.join([*path[:-1], *close])}?" if close else ""


def _problem(part: ErrorDetails, variables: Mapping[str, str]) -> tuple[str, str]:
    """Returns the key with its environment variable (of several, the one that is set), and the problem."""
    path = tuple(str(step) for step in part["loc"])
    names = [name for name, known in VARIABLES.items() if known == path]
    variable = next((name for name in names if variables.get(name)), names[0] if names else None)
    key = ".".join(path) + (f" ({variable})" if variable else "")
    if part["type"] == "extra_forbidden":
        if path[0] == "extensions" and len(path) == 2:
            return key, "no package that is installed has settings of this name"
        return key, f"there is no such setting{_meant(path)}"
    expected = expectation(part)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Settings with their sources."""

    settings: Settings
    variables: Mapping[str, str]
    file: Path
    file_values: Mapping[str, Any]  # of swarm.yaml
    translation: Translation  # of the configuration of CAIPE's bot
    elsewhere: tuple[str, ...]  # a sentence on each key or variable of CAIPE that became something else

    def origin(self, *path: str) -> str | None:
        """Returns the source of one setting as a text. None: no source sets it."""
        for name, known in VARIABLES.items():
            if known == path and name in self.variables:
                return name
        if self.is_in_file(*path):
            return f"{self.file.name}: {'.'.join(path)}"
        if path == ("agents", "default") and self.settings.agents.default == DYNAMIC_AGENTS:
            return DYNAMIC_AGENTS_VARIABLE
        if len(path) > 1 and path[0] == "channels" and self.is_in_file(*path[:2]):
            return None  # a channel's entry in the file counts as a whole
        key = self.translation.sources.get(".".join(path))
        return f"{key if key.isupper() else f'{caipe_variables.BOT_CONFIG}: {key}'}" if key else None

    def is_in_file(self, *path: str) -> bool:
        """Whether the settings file has a key."""
        values: object = self.file_values
        for key in path:
            if not isinstance(values, dict) or key not in values:
                return False
            values = values[key]
        return True


def load(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> Settings:
    """Returns the settings of a process started in ``folder``. Raises ConfigurationError, which names every bad key."""
    return read(environment, folder=folder, user_home=user_home).settings


def read(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> Reading:
    """Returns the settings of a process started in ``folder``, with their sources. Raises ConfigurationError."""
    folder = folder or Path.cwd()
    sources = _sources(environment, folder, user_home or home_folder())
    variables = _merged(sources)
    file = settings_file(folder, variables)
    file_values = _read_yaml(file, variables)
    values = copy.deepcopy(file_values)
    for name, path in reversed([*VARIABLES.items()]):  # the first variable of a setting takes precedence
        if variables.get(name):
            _put(values, path, variables[name])
    if variables.get(DYNAMIC_AGENTS_VARIABLE):
        _complete_dynamic_agents(values)
    translation = _translated(variables, folder, values)
    elsewhere = (*translation.elsewhere(), *_overruled(translation, file_values))
    _add(values, translation.values)
    if variables.get(DYNAMIC_AGENTS_VARIABLE):
        _make_default(values)
    settings = checked_settings(values, folder, variables)
    report_unread(sources, settings, _text_of(file), _text_of(folder / settings.tools.servers_config))
    return Reading(
        settings=_with_default_agents(settings, folder),
        variables=variables,
        file=file,
        file_values=file_values,
        translation=translation,
        elsewhere=elsewhere,
    )


def load_part(
    keys: Collection[tuple[str, ...]],
    environment: Mapping[str, str] | None = None,
    *,
    folder: Path | None = None,
    user_home: Path | None = None,
) -> tuple[Settings, str]:
    """Returns settings of which only ``keys`` are read, and why the settings file does not count; empty if it does.

    For programs that need a few settings of a coordinator, and may start in a folder whose settings file is for
    something else, or not finished. All other settings have their defaults. Raises ConfigurationError for a bad value
    of one of ``keys``, and for a file named by SWARM_CONFIG that does not exist.
    """
    folder = folder or Path.cwd()
    variables = _merged(_sources(environment, folder, user_home or home_folder()))
    file, problem = settings_file(folder, variables), ""
    try:
        document = _document(file)
    except ConfigurationError as error:
        document, problem = {}, error.message
    values: dict[str, Any] = {}
    for path in keys:
        found: object = document
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            _put(values, path, _filled_in(found, variables, ".".join(path), file))
    for name, path in reversed([*VARIABLES.items()]):
        if path in keys and variables.get(name):
            _put(values, path, variables[name])
    return checked_settings(values, folder, variables), problem


def _translated(variables: Mapping[str, str], folder: Path, values: Mapping[str, Any]) -> Translation:
    """Returns the settings from the configuration and the variables of CAIPE's bot."""
    if not caipe_variables.READ & variables.keys():
        return Translation(notes=[*caipe_variables.notes(variables)])
    from swarm.config.importing import caipe  # few installations need it

    agents = values.get("agents")
    text = variables.get(caipe_variables.BOT_CONFIG)
    document = caipe.configured(text, folder) if text else {}
    return caipe.translate(
        document, caipe_variables.BOT_CONFIG, variables, agents if isinstance(agents, dict) else None
    )


def _overruled(translation: Translation, file_values: Mapping[str, Any]) -> list[str]:
    """Returns a sentence that names the channels whose entry in the settings file replaces the translated one."""
    own = file_values.get("channels")
    both = [channel for channel in translation.values.get("channels", ()) if isinstance(own, dict) and channel in own]
    return [f"{', '.join(both)}: the entries in the settings file count."] if both else []


def _add(values: dict[str, Any], translated: Mapping[str, Any]) -> None:
    """Adds translated settings to those of higher precedence. A channel's own entry counts as a whole."""
    for key, value in translated.items():
        present = values.setdefault(key, value)
        if not isinstance(present, dict) or not isinstance(value, dict) or present is value:
            continue
        if key == "channels":
            values[key] = {**value, **present}
        elif key == DYNAMIC_AGENTS:
            present.update(value)  # is complete, and contains what is present
        else:
            _add(present, value)


def checked_settings(
    values: Mapping[str, Any], folder: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> Settings:
    """Returns the settings with the templates of alerts. Raises BadSettings, also for what concerns several keys."""
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise BadSettings([_problem(part, variables) for part in error.errors(include_url=False)]) from error
    settings, problems = with_templates(settings, folder)
    whole = {f"channels.{channel}": chosen for channel, chosen in settings.channels_in_full.items()}
    problems |= agent_id_problems(settings.agents, {"channel_defaults": settings.channel_defaults, **whole})
    if problems:
        raise BadSettings(list(problems.items()))
    return settings


def read_variables(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> dict[str, str]:
    """Returns all variables. The environment takes precedence over ``./.env``, and ``./.env`` over ``~/.swarm/.env``.
    Empty variables count as not set."""
    return _merged(_sources(environment, folder or Path.cwd(), user_home or home_folder()))


def _sources(environment: Mapping[str, str] | None, folder: Path, user_home: Path) -> dict[str, dict[str, str]]:
    """Returns the variables that are set, by source, in order of precedence."""
    given: dict[str, Mapping[str, str | None]] = {
        "in the environment": dict(os.environ if environment is None else environment)
    }
    files = {f"in {path}": _dotenv(path) for path in dotenv_files(folder, user_home)}
    return {
        where: {name: value for name, value in variables.items() if value}
        for where, variables in (given | files).items()
    }


def overruled_tokens(folder: Path | None = None, user_home: Path | None = None) -> tuple[str, ...]:
    """Returns Slack's tokens that a file sets to other values than the process's environment, which counts."""
    given, *files = _sources(None, folder or Path.cwd(), user_home or Path.home()).values()
    names = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN")
    return tuple(
        name for name in names if name in given and any(file.get(name, given[name]) != given[name] for file in files)
    )


def where_set(*setting: str) -> str:
    """Returns where a value comes from, such as "OPENAI_API_KEY (.env, line 3)" or "operator_token (swarm.yaml)"."""
    folder, names = Path.cwd(), [name for name, path in VARIABLES.items() if path == setting]
    for name in filter(os.environ.get, names):
        return f"{name} (the environment)"
    for file in dotenv_files(folder, home_folder()):
        for one in parse_stream(StringIO(_text_of(file))):
            if one.key in names and one.value:
                return f"{one.key} ({file.name if file.parent == folder else file}, line {one.original.line})"
    file = settings_file(folder, read_variables())
    if names and not (file.is_file() and f"{setting[-1]}:" in _text_of(file)):
        return names[0]
    return f"{'.'.join(setting)} ({file.name})"


def _dotenv(path: Path) -> dict[str, str | None]:
    """Returns the variables of a file. Raises ConfigurationError for one of ours that stands twice."""
    lines: dict[str, int] = {}
    for one in parse_stream(StringIO(_text_of(path))):
        name, line = one.key or "", one.original.line
        if name in KNOWN and lines.setdefault(name, line) != line:
            raise ConfigurationError(f"{path}: line {line}: {name} stands twice, first in line {lines[name]}")
    return dotenv_values(path)


def _merged(sources: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {name: value for variables in reversed(list(sources.values())) for name, value in variables.items()}


def home_folder() -> Path:
    """Returns the user's home folder. Raises ConfigurationError if there is none."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise ConfigurationError(
            "HOME is not set, and this system knows no home folder of your user.",
            hint="Set HOME to a folder of your own.",
        ) from error


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
    return {str(key): _filled_in(value, variables, str(key), path) for key, value in _document(path).items()}


def _document(path: Path) -> dict[object, object]:
    """Returns the mapping in a settings file, without the values of variables; empty if there is no file."""
    if not path.exists():
        return {}
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{path} cannot be read: {yaml_problem(error)}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: a mapping of settings is expected, not {type(document).__name__}")
    return document


def _text_of(path: Path) -> str:
    """Returns a file's text, or an empty string for an unreadable file, which is reported where the file is used."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _filled_in(value: object, variables: Mapping[str, str], key: str, path: Path) -> Any:
    """Returns the value with each ``${NAME}`` replaced."""
    if isinstance(value, dict):
        return {str(name): _filled_in(part, variables, f"{key}.{name}", path) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled_in(part, variables, f"{key}[{index}]", path) for index, part in enumerate(value)]
    if not isinstance(value, str):
        return value
    missing = [name for name in PLACEHOLDER.findall(value) if name not in variables]
    if missing:
        raise ConfigurationError(f"{path}: {key} refers to ${{{missing[0]}}}, which is not set")
    return PLACEHOLDER.sub(lambda found: variables[found.group(1)], value)


def _put(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    *parents, last = path
    for parent in parents:
        section = values.setdefault(parent, {})
        if not isinstance(section, dict):
            return  # the model reports the problem
        values = section
    values[last] = value


def _complete_dynamic_agents(values: dict[str, Any]) -> None:
    """Sets the dialect of the agent behind DYNAMIC_AGENTS_URL, unless the settings name one."""
    agents = values.get("agents")
    remote = agents.get("remote") if isinstance(agents, dict) else None
    if isinstance(remote, dict) and isinstance(remote.get(DYNAMIC_AGENTS), dict):
        remote[DYNAMIC_AGENTS].setdefault("dialect", Dialect.CAIPE)


def _make_default(values: dict[str, Any]) -> None:
    """Makes the agent behind DYNAMIC_AGENTS_URL the default agent if none is named."""
    agents = values.get("agents")
    remote = agents.get("remote") if isinstance(agents, dict) else None
    entry = remote.get(DYNAMIC_AGENTS) if isinstance(remote, dict) else None
    if isinstance(agents, dict) and isinstance(entry, dict) and not entry.get("agent_ids"):
        agents["default"] = agents.get("default") or DYNAMIC_AGENTS
