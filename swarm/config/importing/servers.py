"""Translates an MCP Slack bot: a ``servers_config.json`` and the variables of its model.

The file is used where it is, since swarm reads the same format; only tools that it allows (``allowedTools``) are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from swarm.config import mcp_servers as server
from swarm.config.importing.translation import Translation
from swarm.config.importing.writing import is_secret, variable_name
from swarm.config.variables import VARIABLES

_NOT_ALLOWED: Final = "no tool may be used until allowedTools lists it; `swarm up` logs the names of the tools"

_MODEL: Final[Mapping[str, tuple[str, ...]]] = {
    "LLM_MODEL": ("model", "name"),
    "LLM_PROVIDER": ("model", "provider"),
    "OPENAI_BASE_URL": ("providers", "openai", "base_url"),
    "ANTHROPIC_BASE_URL": ("providers", "anthropic", "base_url"),
    "OLLAMA_BASE_URL": ("providers", "ollama", "base_url"),
    # names that swarm does not read by itself
    "LLM_BASE_URL": ("providers", "openai", "base_url"),
    "LLM_TEMPERATURE": ("model", "temperature"),
    "LLM_MAX_TOKENS": ("model", "max_tokens"),
    "OPENAI_MODEL": ("model", "name"),
    "ANTHROPIC_MODEL": ("model", "name"),
    "OLLAMA_MODEL": ("model", "name"),
    "MODEL_NAME": ("model", "name"),
}
"""The variables that become settings. Of several for one setting, the first counts."""

_INSTEAD: Final = {"LLM_API_KEY": "OPENAI_API_KEY, or ANTHROPIC_API_KEY"}


def translate(file: Path, reference: str, variables: Mapping[str, str]) -> Translation:
    """Returns the settings. ``reference`` is the path of the file from the new ``swarm.yaml``.

    Raises ConfigurationError for a file that swarm could not read.
    """
    server.read(file, _AnyVariable(variables), warns=False)  # the notes tell the same
    document = server.document(file)
    entries = server.entries_in(document, file)
    done = Translation()
    done.put(("tools", "servers_config"), reference, next((section for section, *_ in entries), "mcpServers"))
    shared = document.get("allowedTools", [])
    for section, name, settings in entries:
        _server(
            done, f"{section}.{name}", settings, shared.get(name) if isinstance(shared, dict) else shared, variables
        )
    for name in shared if isinstance(shared, dict) else ():
        if name not in (known for _, known, _ in entries):
            done.leave(f"allowedTools.{name}", "there is no such server")
    for key in server.unread(document):
        done.leave(key, "swarm reads no such key")
    _model(done, variables)
    return done


class _AnyVariable(dict[str, str]):
    """Variables of which all are set, so that a file can be checked before they are."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "value"


def _server(
    done: Translation, at: str, settings: Mapping[str, Any], shared: object, variables: Mapping[str, str]
) -> None:
    if settings.get("disabled") or settings.get("enabled") is False:
        done.leave(at, "it is disabled")
        return
    done.note(at, "tools.servers_config", "" if settings.get("allowedTools", shared) else _NOT_ALLOWED)
    for key in server.unread(settings, is_server=True):
        done.leave(f"{at}.{key}", "swarm reads no such key")
    for section in ("env", "headers"):
        for key, value in settings.get(section, {}).items():
            _check_value(done, f"{at}.{section}.{key}", key, value, variables)


def _check_value(done: Translation, at: str, name: str, value: str, variables: Mapping[str, str]) -> None:
    """Notes a secret in plain text, and a variable that is not set."""
    named = variable_name((name,))
    if not server.PLACEHOLDER.search(value) and (is_secret(f"{name}: {value}") or is_secret(value)):
        done.note(at, "tools.servers_config", f"it is a secret in plain text; write ${{{named}}} and set the variable")
    for missing, default in server.PLACEHOLDER.findall(value):
        if missing not in variables and not default:
            done.note(at, "tools.servers_config", f"set the variable {missing}, or swarm does not start")


def _model(done: Translation, variables: Mapping[str, str]) -> None:
    chosen: dict[tuple[str, ...], str] = {}
    for name, path in _MODEL.items():
        if name not in variables:
            continue
        if path in chosen:
            done.leave(name, f"{chosen[path]} counts")
            continue
        chosen[path] = name
        done.put(path, variables[name], name)
    for name, instead in _INSTEAD.items():
        if name in variables:
            done.leave(name, f"set {instead}")
    if ("model", "name") not in chosen:
        done.leave("LLM_MODEL", "it is not set; without a model, no agent uses the servers")
    else:
        done.note(
            "mcpServers", "agents.builtin", "an agent `tools` turns a sentence into a call, an assistant converses"
        )
    for name in variables:
        if name.startswith(("LLM_", "MCP_", "BOT_")) and name not in {*_MODEL, *_INSTEAD, *VARIABLES}:
            done.leave(name, "swarm reads no such variable")
