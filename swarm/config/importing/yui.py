"""Translates Yui's ``config.yaml`` (an agent for one person on Strands and Amazon Bedrock, with Slack and Kiro).

Yui's system prompt (``AGENTS.md`` and ``SOUL.md`` in its workspace) and its MCP servers become files beside
``swarm.yaml``. Yui's defaults are written out, since swarm has others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from swarm.config.builtin import LocalTool
from swarm.config.importing.translation import Translation
from swarm.config.importing.writing import Reference, is_secret, variable_name
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import Provider
from swarm.domain.model.sessions import SessionScope
from swarm.domain.policy.channels import DirectReplies

PROMPT: Final = "yui-prompt.md.j2"
SERVERS: Final = "servers_config.json"
AGENT: Final = "yui"

_DEFAULTS: Final[Mapping[str, object]] = {
    "model.model_id": "us.anthropic.claude-sonnet-4-20250514-v1:0",
    "model.region": "us-east-1",
    "model.max_tokens": 4096,
    "tools.shell.allowlist": ["ls", "cat", "grep", "find", "python3", "kiro-cli", "brew"],
    "tools.shell.timeout_seconds": 30,
    "tools.file.workspace_root": "~/.yui/workspace",
    "tools.kiro.binary_path": "~/.local/bin/kiro-cli",
    "tools.kiro.timeout_seconds": 300,
    "runtime.session.compaction_threshold": 50,
    "runtime.session.keep_recent_messages": 5,
}

_TARGETS: Final[Mapping[str, tuple[str, ...]]] = {
    "model.model_id": ("model", "name"),
    "model.region": ("providers", "bedrock", "region"),
    "model.max_tokens": ("model", "max_tokens"),
    "tools.shell.timeout_seconds": ("tools", "shell", "timeout_seconds"),
    "tools.file.workspace_root": ("tools", "work_tree"),
    "tools.kiro.binary_path": ("tools", "delegates", "kiro"),
    "tools.kiro.timeout_seconds": ("tools", "delegates", "timeout_seconds"),
    "runtime.session.keep_recent_messages": ("runtime", "session", "keep_recent_messages"),
}

_LEFT: Final[Mapping[str, str]] = {
    "model.guardrail_id": "guardrails of Bedrock are not used",
    "model.guardrail_version": "guardrails of Bedrock are not used",
    "model.guardrail_latest_message": "guardrails of Bedrock are not used",
    "tools.shell.blocklist": "only the listed programs run, without a shell, and people approve each call",
    "tools.outlook": "there is no such tool; add an MCP server",
    "runtime.session.db_path": "sessions are in swarm's database; Yui's sessions are not imported",
    "runtime.heartbeat": "nothing runs without a message",
    "runtime.daemon": "run `swarm up` as a service of your system",
    "channels": "the command line is `swarm chat`, and Slack's tokens are variables",
    "meeting": "meetings are not recorded",
    "workshop": "workshops are not tested",
    "autonomy": "limits and approve set what an agent may do, and people approve calls of tools",
}
"""Parts without a counterpart, each with the reason."""

_SECTIONS: Final = frozenset(
    {"slack", "mcp"}
    | {key[:at] for key in {*_TARGETS, *_LEFT, *_DEFAULTS} for at, sign in enumerate(key) if sign == "."}
)

_TOOLS: Final = (
    LocalTool.SHELL,
    LocalTool.FILE_READ,
    LocalTool.FILE_WRITE,
    LocalTool.GIT,
    LocalTool.KIRO_DELEGATE,
    LocalTool.WEB_BROWSE,
    LocalTool.MEMORY_STORE,
    LocalTool.MEMORY_RECALL,
    LocalTool.CODE_EXECUTE,
)
_HIDDEN: Final = "people approve its calls"


def translate(document: Mapping[str, Any]) -> tuple[Translation, str, dict[str, Any]]:
    """Returns the settings, the system prompt (empty without one) and the MCP servers as a ``servers_config.json``.

    Raises ConfigurationError, which names the key.
    """
    done = Translation()
    given = {key: value for key, value in _flat(document) if value is not None or key not in _SECTIONS}
    if wrong := next((key for key in given if key in _SECTIONS), None):
        raise ConfigurationError(f"{wrong}: a mapping is expected")
    for key, path in _TARGETS.items():
        done.put(path, given.get(key, _DEFAULTS[key]), key if key in given else f"{key}, by default")
    done.put(("model", "provider"), Provider.BEDROCK.value, "model.provider")
    if given.get("model.provider", "bedrock") != "bedrock":
        raise ConfigurationError(f"model.provider is {given['model.provider']}: Yui knows only bedrock")
    _shell(done, given)
    _session(done, given)
    _slack(done, given)
    agent: dict[str, Any] = {"kind": "assistant", "tools": [tool.value for tool in _TOOLS]}
    prompt = _prompt(done, Path(str(given.get("tools.file.workspace_root", _DEFAULTS["tools.file.workspace_root"]))))
    if prompt:
        agent["prompt"] = PROMPT
    for key, value in agent.items():
        source = "AGENTS.md, SOUL.md" if key == "prompt" else "tools"
        done.put(("agents", "builtin", AGENT, key), value, source)
    servers = _servers(done, document)
    if servers:
        done.put(("tools", "servers_config"), SERVERS, "mcp.servers")
    _leave(done, given)
    return done, prompt, servers


def _flat(values: Mapping[str, Any], at: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        path = f"{at}{key}"
        found += _flat(value, f"{path}.") if isinstance(value, dict) else [(path, value)]
    return found


def _shell(done: Translation, given: Mapping[str, Any]) -> None:
    key = "tools.shell.allowlist"
    allowed = given.get(key, _DEFAULTS[key])
    if not isinstance(allowed, list):
        raise ConfigurationError(f"{key}: a list of programs is expected")
    commands = [command for command in allowed if command != "kiro-cli"]
    done.put(("tools", "shell", "commands"), commands, key, _HIDDEN)
    if "kiro-cli" in allowed:
        done.note(f"{key}.kiro-cli", f"agents.builtin.{AGENT}.tools", "the tool kiro-delegate runs it")


def _session(done: Translation, given: Mapping[str, Any]) -> None:
    key = "runtime.session.compaction_threshold"
    threshold = given.get(key, _DEFAULTS[key])
    if isinstance(threshold, int) and threshold > 1:
        done.put(("runtime", "session", "compaction_threshold"), threshold, key)
    else:
        done.leave(key, f"{threshold} is a share of the context; here it is a number of messages, {_DEFAULTS[key]}")
    done.put(("runtime", "session", "scope"), SessionScope.THREAD.value, "slack", "Yui remembers a thread, too")
    done.put(
        ("channel_defaults", "dm_replies"), DirectReplies.FLAT.value, "slack", "Yui answers beside the message, too"
    )


def _slack(done: Translation, given: Mapping[str, Any]) -> None:
    for key, variable in (("slack.bot_token", "SLACK_BOT_TOKEN"), ("slack.app_token", "SLACK_APP_TOKEN")):
        if given.get(key):
            remark = f"it is a secret, so set the variable {variable} to it"
            done.put(tuple(key.split(".")), Reference(variable), key, remark)


def _prompt(done: Translation, workspace: Path) -> str:
    """Returns the system prompt from the workspace, as a template that shows it unchanged."""
    texts = []
    for name in ("AGENTS.md", "SOUL.md"):
        path = workspace.expanduser() / name
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            done.leave(name, f"{path} cannot be read ({getattr(error, 'strerror', None) or 'no UTF-8'})")
    text = "\n\n".join(texts)
    if any(mark in text for mark in ("{{", "{%", "{#")):
        return f"{{% raw %}}{text.replace('{% endraw %}', '')}{{% endraw %}}"
    return text


def _servers(done: Translation, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the MCP servers. No tool is allowed yet, since Yui's list does not name any."""
    mcp = document.get("mcp")
    servers = mcp.get("servers") if isinstance(mcp, dict) else None
    if not isinstance(servers, list) or not servers:
        return {}
    found: dict[str, Any] = {}
    for index, entry in enumerate(servers):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigurationError(f"mcp.servers.{index}: a mapping with a name is expected")
        name, at = entry["name"], f"mcp.servers.{index}"
        if "sse" in (entry.get("transport"), entry.get("type")):
            done.leave(at, f"{name} speaks SSE; only stdio and streamable HTTP are supported")
            continue
        found[name] = _server(done, entry, at)
    return {"mcpServers": found} if found else {}


def _server(done: Translation, entry: Mapping[str, Any], at: str) -> dict[str, Any]:
    server: dict[str, Any] = {}
    if command := entry.get("command"):
        server["command"], *server["args"] = map(str, command if isinstance(command, list) else [command])
    if url := entry.get("url"):
        server["url"] = str(url)
    for section in ("env", "headers"):
        for key, value in (entry.get(section) or {}).items():
            text = str(value)
            if is_secret(text) or is_secret(f"{key}: {text}"):
                variable = variable_name((key,))
                text = f"${{{variable}}}"
                done.note(f"{at}.{section}.{key}", SERVERS, f"it is a secret, so set the variable {variable} to it")
            server.setdefault(section, {})[key] = text
    server["allowedTools"] = []
    done.note(at, SERVERS, "no tool may be used until allowedTools lists it; `swarm up` logs the names of the tools")
    return server


def _leave(done: Translation, given: Mapping[str, Any]) -> None:
    named: set[str] = set()
    known = {*_TARGETS, "model.provider", "tools.shell.allowlist", "runtime.session.compaction_threshold"}
    for key in given:
        if key in known or key.startswith(("slack.", "mcp.")):
            continue
        part = next((part for part in _LEFT if key == part or key.startswith(f"{part}.")), key)
        if part not in named:
            done.leave(part, _LEFT.get(part, "Yui knows no such key"))
        named.add(part)
