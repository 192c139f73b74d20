"""Imports the files of other systems: reads them, checks the resulting settings, and writes ``swarm.yaml``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from swarm.config.importing import caipe, caipe_variables, servers, yui
from swarm.config.importing.documents import parsed, text_of
from swarm.config.importing.translation import Translation
from swarm.config.importing.writing import Reference, as_yaml, without_secrets
from swarm.config.reading import checked_settings, read_variables
from swarm.config.variables import DYNAMIC_AGENTS, DYNAMIC_AGENTS_VARIABLE, PLACEHOLDER, VARIABLES
from swarm.domain.answers.agents import Dialect
from swarm.domain.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A translation, and the contents of the files to write beside ``swarm.yaml``."""

    translation: Translation
    source: Path
    beside: Mapping[Path, str] = field(default_factory=dict)


def variables_of(env: Path | None) -> dict[str, str]:
    """Returns the variables of a process started here, or those of a ``.env`` file. Raises ConfigurationError."""
    if env is None:
        return read_variables()
    text_of(env)  # reports an unreadable file
    return {name: value for name, value in dotenv_values(env, interpolate=False).items() if value}


def from_caipe(file: Path, output: Path, variables: Mapping[str, str]) -> Imported:
    """Translates the configuration of CAIPE's bot, or the values of its Helm chart."""
    document = parsed(text_of(file), str(file))
    document, of_chart = caipe.of_chart(document)
    channels = caipe.mapping(document, str(file))
    if not channels:
        raise ConfigurationError(
            f"{file} has no channels.", hint="The file of SLACK_INTEGRATION_BOT_CONFIG is expected."
        )
    variables = {**of_chart, **{name: value for name, value in variables.items() if name != caipe_variables.BOT_CONFIG}}
    name = DYNAMIC_AGENTS_VARIABLE
    if name not in variables and caipe_variables.API_URL in variables:
        name = caipe_variables.API_URL
    service = {"url": Reference(name), "dialect": Dialect.CAIPE.value}
    done = caipe.translate(
        channels,
        str(file),
        {key: value for key, value in variables.items() if key != caipe_variables.API_URL},
        {"remote": {DYNAMIC_AGENTS: service}},
        reference=Reference,
    )
    if done.values.get("agents", {}).get("remote"):
        remark = "" if name in variables else f"set {name} to the address of the service"
        done.note(name, f"agents.remote.{DYNAMIC_AGENTS}.url", remark)
    _keep_variables(done, variables, [key for key in VARIABLES if key.startswith(("SLACK_", "CAIPE_"))])
    return Imported(translation=done, source=file)


def from_servers_config(file: Path, output: Path, variables: Mapping[str, str]) -> Imported:
    """Translates an MCP Slack bot: its servers, which stay in their file, and its model."""
    done = servers.translate(file, os.path.relpath(file, output.parent), variables)
    _keep_variables(done, variables, VARIABLES)
    return Imported(translation=done, source=file)


def from_yui(file: Path, output: Path, variables: Mapping[str, str]) -> Imported:
    """Translates Yui's configuration, its system prompt and its MCP servers."""
    document = caipe.mapping(parsed(text_of(file), str(file)), str(file))
    done, prompt, mcp_servers = yui.translate(document)
    beside = {}
    if prompt:
        beside[output.parent / yui.PROMPT] = prompt
    if mcp_servers:
        beside[output.parent / yui.SERVERS] = json.dumps(mcp_servers, indent=2, ensure_ascii=False) + "\n"
    _keep_variables(done, variables, [key for key in VARIABLES if key.startswith("SLACK_")])
    return Imported(translation=done, source=file, beside=beside)


def _keep_variables(done: Translation, variables: Mapping[str, str], names: Iterable[str]) -> None:
    """Notes the variables that swarm reads under the same name."""
    for name in names:
        if name in variables and name not in (note.source for note in done.notes):
            done.note(name, ".".join(VARIABLES[name]))


def refuse_existing(paths: Iterable[Path], *, force: bool) -> None:
    """Raises ConfigurationError for files that exist, unless they may be replaced."""
    if (found := [str(path) for path in paths if path.exists()]) and not force:
        raise ConfigurationError(
            f"{' and '.join(found)} exist{'s' * (len(found) == 1)}.",
            hint="--force replaces it, and --output names another file.",
        )


def write(imported: Imported, output: Path, *, force: bool) -> None:
    """Writes the files. Nothing is written if the settings are invalid or a file exists that may not be replaced.

    Raises ConfigurationError.
    """
    done = imported.translation
    without_secrets(done)
    _check(done, output.parent)
    refuse_existing([output, *imported.beside], force=force)
    heading = f"Written by `swarm import` from {imported.source.name}. Comments name the source of each value."
    for path, text in {**imported.beside, output: as_yaml(done, heading)}.items():
        _replace(path, text)


def _replace(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error


def _check(done: Translation, folder: Path) -> None:
    """Raises BadSettings for settings that a coordinator would refuse. Variables count as set."""
    checked_settings(_filled(done.values), folder)


def _filled(value: Any) -> Any:
    match value:
        case dict():
            return {name: _filled(part) for name, part in value.items()}
        case list():
            return [_filled(part) for part in value]
        case str():
            return PLACEHOLDER.sub(lambda name: f"https://{name[1].lower().replace('_', '-')}.invalid/value", value)
        case _:
            return value
