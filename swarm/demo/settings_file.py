"""Writes the coordinator's settings file for the demo: the folder's own settings, the writer, and the built-in
agents."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

WRITER: Final = "writer"
ROUTER: Final = "tools"
ASSISTANT: Final = "assistant"

OWN_FILE: Final = "swarm.yaml"
OWN_SERVERS: Final = "servers_config.json"

PAPERS: Final = Path(__file__).parent / "papers"
"""The documents that are searched if the folder's own settings name none."""

_CALCULATOR: Final = "calculator"
_CALCULATOR_TOOLS: Final = ("add", "subtract", "multiply", "divide")


class Unusable(Exception):
    """The demo cannot extend this settings file. The message is user-facing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The additions to the settings."""

    writer_url: str
    servers_file: Path  # the new MCP servers file
    own_servers: Path | None = None  # the MCP servers file that the environment names
    work_tree: Path | None = None  # for the assistant's git tool, unless the folder's own settings name a work tree
    is_scripted: bool = True  # whether the rules answer instead of a model


def write(path: Path, *, own: Path, wanted: Wanted) -> None:
    """Writes to ``path`` the settings of ``own`` (if it exists) with the demo's agents, and writes the MCP servers
    file.

    Raises Unusable.
    """
    settings = _read(own)
    remote, builtin = _section(settings, own, "agents", "remote"), _section(settings, own, "agents", "builtin")
    remote[WRITER] = {
        "url": wanted.writer_url,
        "role": "worker",
        "description": "Writes about the repository, and streams what it writes.",
        "footer": "a rule-driven program, not a model",
    }
    tools = _section(settings, own, "tools")
    if wanted.work_tree and not tools.get("work_tree"):
        tools["work_tree"] = str(wanted.work_tree)
    for name, agent in _built_in(is_scripted=wanted.is_scripted, has_tree=bool(tools.get("work_tree"))).items():
        if name not in remote:
            builtin.setdefault(name, agent)
    _section(settings, own, "documents").setdefault("folder", str(PAPERS))
    _write_servers(wanted.servers_file, own=wanted.own_servers or Path(tools.get("servers_config") or OWN_SERVERS))
    tools["servers_config"] = str(wanted.servers_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")


def names_model(own: Path) -> bool:
    """Whether the folder's own settings name a model. Raises Unusable."""
    return bool(_section(_read(own), own, "model").get("name"))


def _built_in(*, is_scripted: bool, has_tree: bool) -> dict[str, Any]:
    """Returns the settings of a router and an assistant. Both are workers, so that the default agent does not
    change."""
    footer = {"footer": "rules in place of a model"} if is_scripted else {}
    router = {"kind": "router", "role": "worker", "description": "Turns a sentence into a call of a tool.", **footer}
    assistant = {"kind": "assistant", "role": "worker", "description": "Converses, remembers, looks up.", **footer}
    # The rules use only git status; the operator decides whether a real model may use git.
    return {ROUTER: router, ASSISTANT: {**assistant, "tools": ["git"]} if is_scripted and has_tree else assistant}


def _write_servers(path: Path, *, own: Path) -> None:
    """Writes an MCP servers file with the servers of the folder's own file, if it exists, and the calculator. Raises
    Unusable."""
    document = _json(own)
    servers = document.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise Unusable(f"{own}: mcpServers is expected to be a mapping.")
    for server in servers.values():
        if isinstance(server, dict) and isinstance(server.get("cwd"), str):  # relative to the folder's own file
            server["cwd"] = str(own.parent.absolute() / Path(server["cwd"]).expanduser())
    servers.setdefault(
        _CALCULATOR,
        {
            "command": sys.executable,
            "args": ["-P", "-m", "swarm.demo.calculator"],
            "allowedTools": list(_CALCULATOR_TOOLS),
        },
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))


def _json(own: Path) -> dict[str, Any]:
    if not own.exists():
        return {}
    try:
        document = orjson.loads(own.read_bytes())
    except (OSError, ValueError) as error:
        raise Unusable(f"{own} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise Unusable(f"{own}: an object with mcpServers is expected.")
    return document


def _section(settings: dict[str, Any], own: Path, *keys: str) -> dict[str, Any]:
    """Returns a section, creating it if missing."""
    for place, key in enumerate(keys):
        section = settings.setdefault(key, {})
        if not isinstance(section, dict):
            raise Unusable(f"{own}: {'.'.join(keys[: place + 1])} is expected to be a mapping.")
        settings = section
    return settings


def _read(own: Path) -> dict[str, Any]:
    if not own.exists():
        return {}
    try:
        settings = yaml.safe_load(own.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise Unusable(f"{own} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise Unusable(f"{own}: a mapping of settings is expected.")
    return settings
