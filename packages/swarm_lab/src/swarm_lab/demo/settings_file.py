"""The plan of a demo, and the coordinator's settings in it: a file with the folder's own settings, the writer and the
built-in agents, and variables that override it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from swarm_lab.demo.home import CODER_HOME, DATABASE
from swarm_lab.demo.rules.asked import MODEL
from swarm_lab.programs import free_port, twin_settings

WRITER: Final = "writer"
ROUTER: Final = "tools"
ASSISTANT: Final = "assistant"

OWN_FILE: Final = "swarm.yaml"
OWN_SERVERS: Final = "servers_config.json"

_PROMPTS: Final = (
    "fix the failing test",
    "how many lines of Python are in this repository?",
    "swarm#writer tell me about this repository",
    "swarm#assistant write down: buy milk",
)
"""The prompts to choose from in a new conversation."""

PAPERS: Final = Path(__file__).parent / "papers"
"""The documents that are searched if the folder's own settings name none."""


class Unusable(Exception):
    """The demo cannot extend this settings file. The message is user-facing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The places and settings of a demo."""

    port: int
    twin_port: int
    home: Path
    writer_port: int
    model_port: int
    own_settings: Path  # the coordinator's usual settings file
    slack: bool  # the environment contains real tokens, so there is no twin
    own_model: bool = False  # the environment names a model, which is used instead of the rules
    own_servers: Path | None = None  # the MCP servers file that the environment names
    database_url: str | None = field(default=None, repr=False)  # the environment's
    operator_token: str | None = field(default=None, repr=False)  # the environment's
    work_tree: Path | None = None  # created for the assistant's git tool
    no_coder: str = ""  # why there is no coder

    @property
    def coder_home(self) -> Path:
        return self.home / CODER_HOME

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def twin_url(self) -> str:
        return f"http://127.0.0.1:{self.twin_port}"

    @property
    def writer_url(self) -> str:
        return f"http://127.0.0.1:{self.writer_port}/"

    @property
    def model_url(self) -> str:
        return f"http://127.0.0.1:{self.model_port}/"


def plan(environment: Mapping[str, str]) -> Plan:
    """Derives the plan from the environment, without reading files. Raises ValueError for an invalid port."""
    return Plan(
        port=_port(environment, "PORT", 8080),
        twin_port=_port(environment, "TWIN_PORT", 8400),
        writer_port=free_port(),
        model_port=free_port(),
        home=Path(environment.get("SWARM_HOME") or ".demo").absolute(),
        own_settings=Path(environment.get("SWARM_CONFIG") or OWN_FILE).absolute(),
        slack=bool(environment.get("SLACK_BOT_TOKEN") and environment.get("SLACK_APP_TOKEN")),
        own_model=bool(environment.get("LLM_MODEL")),
        own_servers=Path(named).absolute() if (named := environment.get("SWARM_SERVERS_CONFIG")) else None,
        database_url=environment.get("SWARM_DATABASE_URL") or None,
        operator_token=environment.get("SWARM_OPERATOR_TOKEN") or None,
    )


def coordinator_settings(demo: Plan, *, is_scripted: bool) -> dict[str, str]:
    """Returns the coordinator's settings, which override those in files. With the twin, they include a separate
    database."""
    write(demo, is_scripted=is_scripted)
    settings = {
        "PORT": str(demo.port),
        "SWARM_HOME": str(demo.home),
        "SWARM_CONFIG": str(demo.home / OWN_FILE),
        "SWARM_SERVERS_CONFIG": str(demo.home / OWN_SERVERS),
    }
    if is_scripted:
        settings |= _rules(demo)
    if demo.slack:
        return settings
    database_url = demo.database_url or f"sqlite:///{demo.home / DATABASE}"
    sessions = {"SLACK_AGENT_SESSIONS": "true"}  # the twin's page has Slack's Stop button
    return {**settings, **twin_settings(demo.twin_url), "SWARM_DATABASE_URL": database_url, **sessions}


def _rules(demo: Plan) -> dict[str, str]:
    """Returns settings that replace the model by the rules and override those in files. The rules get no real key."""
    return {
        "LLM_MODEL": MODEL,
        "LLM_PROVIDER": "openai",
        "OPENAI_BASE_URL": f"{demo.model_url}v1",
        "OPENAI_API_KEY": "not-needed-here",
    }


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name) or str(default)
    if not value.isdecimal() or not 0 < int(value) < 65_536:
        raise ValueError(f"{name} is {value!r}; a port from 1 to 65535 is expected")
    return int(value)


def write(demo: Plan, *, is_scripted: bool) -> None:
    """Writes to the demo's home the folder's own settings (if there are any) with the demo's agents, and the MCP
    servers file.

    Raises Unusable.
    """
    own = demo.own_settings
    settings = _read(own)
    remote, builtin = _section(settings, own, "agents", "remote"), _section(settings, own, "agents", "builtin")
    remote[WRITER] = {
        "url": demo.writer_url,
        "role": "worker",
        "description": "Writes about the repository, and streams what it writes.",
        "footer": "a rule-driven program, not a model",
    }
    tools = _section(settings, own, "tools")
    if demo.work_tree and not tools.get("work_tree"):
        tools["work_tree"] = str(demo.work_tree)
    tree = tools.get("work_tree")
    is_ours = bool(demo.work_tree) and tree == str(demo.work_tree)
    for name, agent in _built_in(is_scripted=is_scripted, has_tree=bool(tree), may_write=is_ours).items():
        if name not in remote:
            builtin.setdefault(name, agent)
    prompts = [{"title": prompt, "message": prompt} for prompt in _PROMPTS[1 if demo.no_coder else 0 :]]
    _section(settings, own, "channel_defaults").setdefault("suggested_prompts", prompts)
    _section(settings, own, "documents").setdefault("folder", str(PAPERS))
    servers = _with_calculator(demo.own_servers or Path(tools.get("servers_config") or OWN_SERVERS))
    tools["servers_config"] = str(demo.home / OWN_SERVERS)
    demo.home.mkdir(parents=True, exist_ok=True)
    (demo.home / OWN_SERVERS).write_bytes(orjson.dumps(servers, option=orjson.OPT_INDENT_2))
    made = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    (demo.home / OWN_FILE).write_text(made, encoding="utf-8")


def names_model(own: Path) -> bool:
    """Whether the folder's own settings name a model. Raises Unusable."""
    return bool(_section(_read(own), own, "model").get("name"))


def _built_in(*, is_scripted: bool, has_tree: bool, may_write: bool) -> dict[str, Any]:
    """Returns the settings of a router and an assistant. Both are workers, so that the default agent does not
    change."""
    footer = {"footer": "rules in place of a model"} if is_scripted else {}
    router = {"kind": "router", "role": "worker", "description": "Turns a sentence into a call of a tool.", **footer}
    assistant: dict[str, Any] = {
        "kind": "assistant",
        "role": "worker",
        "description": "Converses, remembers, looks up.",
        **footer,
    }
    if is_scripted and has_tree:  # the operator decides whether a real model may use git and files
        assistant |= {"tools": ["git", "write-plan"]}
    if is_scripted and may_write:
        assistant |= {"tools": ["git", "file-write", "write-plan"], "approve": ["git push", "file-write"]}
    return {ROUTER: router, ASSISTANT: assistant}


def _with_calculator(own: Path) -> dict[str, Any]:
    """Returns the folder's own MCP servers, if there are any, with the calculator. Raises Unusable."""
    document = _read(own, orjson.loads)
    servers = _section(document, own, "mcpServers")
    for server in servers.values():
        if isinstance(server, dict) and isinstance(server.get("cwd"), str):  # relative to the folder's own file
            server["cwd"] = str(own.parent.absolute() / Path(server["cwd"]).expanduser())
    command = {"command": sys.executable, "args": ["-P", "-m", "swarm_lab.demo.calculator"]}
    servers.setdefault("calculator", {**command, "allowedTools": ["add", "subtract", "multiply", "divide"]})
    return document


def _section(settings: dict[str, Any], own: Path, *keys: str) -> dict[str, Any]:
    for place, key in enumerate(keys):
        section = settings.setdefault(key, {})
        if not isinstance(section, dict):
            raise Unusable(f"{own}: {'.'.join(keys[: place + 1])} is expected to be a mapping.")
        settings = section
    return settings


def _read(own: Path, parse: Callable[[bytes], Any] = yaml.safe_load) -> dict[str, Any]:
    """Reads a file of the folder, if it is there. Raises Unusable."""
    if not own.exists():
        return {}
    try:
        settings = parse(own.read_bytes())
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise Unusable(f"{own} cannot be read: {error}") from error
    if not isinstance(settings, dict | None):
        raise Unusable(f"{own}: a mapping of settings is expected.")
    return settings or {}
