"""An MCP server as configured by the operator, and ``servers_config.json``, a format shared with other programs.

What other programs understand in such a file is understood as they mean it, or refused by the key's name: a key or a
placeholder that is passed over would make a different server of it, or send the placeholder itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from swarm.domain.errors import ConfigurationError
from swarm.domain.text.unique_keys import read_json
from swarm_base.redaction import Redactor
from swarm_base.secrets import MIN_SECRET_CHARACTERS

_CALL_SECONDS: Final = 60.0
_LONGEST_CALL_SECONDS: Final = 3600.0
_ADDRESS: Final = r"^(https?://[^/]|[$])"  # or a variable, with which it is looked at again
PLACEHOLDER: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_BRACES: Final = r"\$\{[^}]*\}?"
_LEFT: Final = {
    "args": re.compile(_BRACES),
    "env": re.compile(_BRACES + r"|^(?:\$\w+|\$env:\w+|\$\(.*\)|\{\{.*\}\}|\{(?:env|file|input):.*\}|%\w+%)$"),
    "": re.compile(_BRACES + r"|\$\(|\$[A-Za-z_]|\{\{|\{(?:env|file|input):|%[A-Za-z_]{3,}%"),
}
"""Placeholders that nobody fills in, by the key: programs may mean a ``$`` in their arguments."""

_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')
_SECTIONS: Final = ("mcpServers", "servers", "context_servers", "mcp.servers")
_TYPES: Final = {
    **dict.fromkeys(("stdio", "local"), "command"),
    **dict.fromkeys(("http", "streamable-http", "streamable_http", "streamablehttp", "remote"), "url"),
}
_REFUSED: Final = {
    "envFile": "is not read; list the variables in env, as ${NAME}",
    **dict.fromkeys(("oauth", "auth", "authProviderType"), "is not supported; set a token in headers"),
    **dict.fromkeys(("headersHelper", "requestInit", "http_headers"), "is not read; set headers"),
    **dict.fromkeys(("environment", "envs", "env_vars"), "is not read; list the variables in env"),
    **dict.fromkeys(("workingDirectory", "workdir"), "is not read; set cwd"),
    **dict.fromkeys(("sandbox", "sandboxEnabled"), "is not supported; the program would run outside"),
    **dict.fromkeys(
        ("excludeTools", "disabledTools", "includeTools", "tools"), "is not read; list the tools in allowedTools"
    ),
}
"""Keys of other programs without which a server would be another one."""

_CHOICES: Final = re.compile(r"(?i)^(?:allow|allowed|exclude|excluded|enabled?|disabled?)(?:mcp(?:json)?servers)?$")
"""Keys of whole files by which other programs choose among the servers."""

_SSE: Final = "SSE is not supported, only stdio and streamable HTTP; give its other address, or set disabled"
_REDACTOR: Final = Redactor()

_log = structlog.get_logger(__name__)

_Names = list[Annotated[str, Field(min_length=1)]]

_EXPECTED: Final = {
    "url": "an address that begins with http:// or https:// is expected",
    "timeout": f"seconds are expected, more than 0 and at most {_LONGEST_CALL_SECONDS:g}",
    "allowedTools": "a list of tool names is expected; at the top level, also one for each server",
    "mcpServers": "a mapping from the name of each server to its settings is expected",
    "args": "a list of texts is expected",
    "env": "a mapping of texts is expected",
    "headers": "a mapping of texts is expected",
    "disabled": "true or false is expected",
    "enabled": "true or false is expected",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A server that runs as a program and exchanges messages over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)  # arguments may also contain secrets
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # in addition to `transports.INHERITED`
    cwd: Path | None = None  # None: the coordinator's working directory


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A server reached over streamable HTTP."""

    url: str = field(repr=False)  # may contain a password, or a key in the query
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class McpServer:
    """A server and how agents may use it."""

    name: str
    reached: Program | Address
    allowed: tuple[str, ...] = ()  # exact names of the tools that may be used; empty for none
    shares_list: bool = False  # all servers share the list, so this server need not have all of its tools
    timeout_seconds: float = _CALL_SECONDS  # for one call
    secrets: tuple[str, ...] = field(default=(), repr=False)  # secrets in the program or address


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, hide_input_in_errors=True)


class _Server(_Part):
    command: str | None = Field(None, min_length=1)
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = Field(None, min_length=1)
    url: str | None = Field(None, pattern=_ADDRESS)
    server_url: str | None = Field(None, pattern=_ADDRESS, alias="serverUrl")
    http_url: str | None = Field(None, pattern=_ADDRESS, alias="httpUrl")
    type: str | None = None
    transport: str | None = None
    headers: dict[str, str] = {}
    allowed: _Names | None = Field(None, alias="allowedTools")
    timeout: float = Field(_CALL_SECONDS, gt=0, le=_LONGEST_CALL_SECONDS)
    disabled: bool | None = None
    enabled: bool | None = None


class _Document(_Part):
    allowed: _Names | dict[str, _Names] = Field(default_factory=list, alias="allowedTools")


_DOCUMENT: Final = TypeAdapter(_Document)
_ENTRY: Final = TypeAdapter(_Server)


def read(path: Path, environment: Mapping[str, str], *, warns: bool = True) -> tuple[McpServer, ...]:
    """Reads the enabled servers in a file, in order.

    ``${NAME}`` in a server's program or address is replaced from ``environment``. Unknown keys are only logged, if
    ``warns`` is set. Raises ConfigurationError with the file, the key and the expected value, but never with the actual
    value, which may be a secret.
    """
    content = document(path)
    entries = entries_in(content, path)
    whole = _validated(_DOCUMENT, content, path, ())
    if warns:
        _name_unknown(path, content)
        _name_unused(path, whole, [name for _, name, _ in entries])
    return tuple(_servers(path, whole, entries, environment, warns=warns))


def document(path: Path) -> dict[str, Any]:
    """Reads a file of servers as JSON, in which comments, commas before an end and a byte-order mark may be. Raises
    ConfigurationError, also for a key that stands twice.
    """
    try:
        content = path.read_bytes()
        text = content.decode(json.detect_encoding(content)).lstrip("\ufeff")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} cannot be read: it is not UTF-8") from None
    plain = _LAST_COMMA.sub(lambda found: found[1] or " ", _COMMENT.sub(_without_comment, text))

    try:
        read = read_json(plain)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    if not isinstance(read, dict):
        raise ConfigurationError(f"{path}: a mapping with mcpServers is expected")
    return read


def _without_comment(found: re.Match[str]) -> str:
    """Returns a text unchanged, and blanks for a comment, so that errors name the right place."""
    return found[1] or re.sub(r"[^\n]", " ", found[0])


def entries_in(content: Mapping[str, Any], path: Path) -> list[tuple[str, str, dict[str, Any]]]:
    """Returns the servers of a document: the section of each, its name and its settings. Raises ConfigurationError."""
    inner = content.get("mcp")
    chosen = [*content, *(f"mcp.{key}" for key in inner or ())] if isinstance(inner, dict | None) else [*content]
    if other := next((key for key in chosen if _CHOICES.match(key.removeprefix("mcp."))), None):
        raise ConfigurationError(f"{path}: {other}: this is not read; set disabled in the servers themselves")
    sections = {key: content[key] for key in _SECTIONS if key in content}
    if isinstance(inner, dict) and "servers" in inner:
        sections["mcp.servers"] = inner["servers"]
    if not sections:
        raise ConfigurationError(f"{path}: mcpServers: this is missing; {_EXPECTED['mcpServers']}")
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for section, servers in sections.items():
        if not isinstance(servers, dict) or not all(isinstance(entry, dict) for entry in servers.values()):
            raise ConfigurationError(f"{path}: {section}: {_EXPECTED['mcpServers']}")
        for name, entry in servers.items():
            if not name.strip():
                raise ConfigurationError(f"{path}: {section}: every server needs a name")
            if name in found:
                raise ConfigurationError(f"{path}: {section}.{name} stands in {found[name][0]}, too")
            found[name] = (section, name, entry)
    return list(found.values())


def _validated(adapter: TypeAdapter[Any], value: dict[str, Any], path: Path, where: tuple[str, ...]) -> Any:
    try:
        return adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = ".".join([*where, *_steps(first["loc"])])
        expected = _EXPECTED.get(_steps(first["loc"])[0] if first["loc"] else "", first["msg"])
        raise ConfigurationError(f"{path}: {f'{key}: ' if key else ''}{expected}") from None  # its cause shows values


def _steps(loc: tuple[int | str, ...]) -> list[str]:
    """Returns the path of an error in the file, without pydantic's names for union members."""
    return [str(step) for step in loc if not (isinstance(step, str) and "[" in step)]


def _servers(
    path: Path,
    whole: _Document,
    entries: list[tuple[str, str, dict[str, Any]]],
    environment: Mapping[str, str],
    *,
    warns: bool,
) -> Iterator[McpServer]:
    for section, name, settings in entries:
        where = (section, name)
        entry: _Server = _validated(_ENTRY, settings, path, where)
        if warns:
            _name_unknown(path, settings, where)
        if _is_disabled(entry, f"{path}: {'.'.join(where)}"):
            continue
        filled = _Filled(path, ".".join(where), environment)
        yield McpServer(
            name=name,
            reached=filled.reached(entry),
            allowed=_allowed(name, entry, whole),
            shares_list=entry.allowed is None and _is_shared(whole, len(entries)),
            timeout_seconds=entry.timeout,
            secrets=tuple(filled.secrets),
        )


def _is_disabled(entry: _Server, key: str) -> bool:
    if entry.disabled is not None and entry.disabled is entry.enabled:
        raise ConfigurationError(f"{key}: disabled and enabled contradict each other")
    return bool(entry.disabled) or entry.enabled is False


def _allowed(name: str, entry: _Server, document: _Document) -> tuple[str, ...]:
    """Returns the tools allowed for a server. The server's own list takes precedence, even if it is empty."""
    if entry.allowed is not None:
        names = entry.allowed
    else:
        names = document.allowed if isinstance(document.allowed, list) else document.allowed.get(name, [])
    return tuple(dict.fromkeys(names))


def _is_shared(document: _Document, count: int) -> bool:
    return bool(document.allowed) and isinstance(document.allowed, list) and count > 1


class _Filled:
    """The replacement of variables with their values from the environment."""

    def __init__(self, path: Path, key: str, environment: Mapping[str, str]) -> None:
        self._path = path
        self._key = key
        self._environment = environment
        self.secrets: set[str] = set()  # from the values replaced so far

    def reached(self, entry: _Server) -> Program | Address:
        """Returns the server's program or address. Raises ConfigurationError."""
        addresses = {"url": entry.url, "serverUrl": entry.server_url, "httpUrl": entry.http_url}
        given = [key for key in addresses if addresses[key] is not None]
        if other := next((key for key in entry.model_extra or () if key in _REFUSED), None):
            raise self._error(other, f"this {_REFUSED[other]}")
        if len(given) + (entry.command is not None) != 1:
            raise self._error("", "either command or url is expected")
        for key, kind in (("type", entry.type), ("transport", entry.transport)):
            if kind is not None and _TYPES.get(kind.lower()) != ("url" if given else "command"):
                expected = f"{'http or streamable-http' if given else 'stdio'} is expected for this server"
                raise self._error(key, _SSE if kind.lower() == "sse" else expected)
        if given:
            address = self._text(given[0], addresses[given[0]] or "")
            if not re.match(_ADDRESS, address):
                raise self._error(given[0], _EXPECTED["url"])
            return Address(url=address, headers=self._mapping("headers", entry.headers))
        return Program(
            command=self._text("command", entry.command or ""),
            args=tuple(self._text(f"args.{at}", arg) for at, arg in enumerate(entry.args)),
            env=self._mapping("env", entry.env),
            cwd=self._folder(entry.cwd) if entry.cwd else None,
        )

    def _error(self, key: str, expected: str) -> ConfigurationError:
        return ConfigurationError(f"{self._path}: {self._key}{key and '.'}{key}: {expected}")

    def _folder(self, cwd: str) -> Path:
        """Returns a server's working directory. A relative path is relative to the file's folder."""
        return self._path.parent.resolve() / Path(self._text("cwd", cwd)).expanduser()

    def _mapping(self, key: str, values: Mapping[str, str]) -> dict[str, str]:
        if odd := next((name for name in values if "$" in name or "{" in name), None):
            raise self._error(f"{key}.{odd}", "a name without a placeholder is expected")
        filled = {name: self._text(f"{key}.{name}", value) for name, value in values.items()}
        self.secrets |= {value for name, value in filled.items() if _is_secret(name, value)}
        return filled

    def _text(self, key: str, text: str) -> str:
        left = _LEFT.get(key.partition(".")[0], _LEFT[""])
        if found := left.search(PLACEHOLDER.sub(lambda part: part[2] or "", text)):
            what = found[0] if found[0].startswith("${") else "its placeholder"  # which may be a part of a password
            raise self._error(key, f"{what} is not replaced here; write ${{NAME}}, and set the variable NAME")
        filled = PLACEHOLDER.sub(lambda part: self._value(key, part[1], part[2]), text)
        if "\0" in filled or (key.startswith("headers.") and not filled.isprintable()):
            raise self._error(key, "a single line of text is expected")
        return filled

    def _value(self, key: str, name: str, default: str | None) -> str:
        if name not in self._environment and default is None:
            raise ConfigurationError(f"{self._path}: {self._key}.{key} refers to ${{{name}}}, which is not set")
        value = self._environment.get(name, default or "")
        self.secrets |= {value} if _is_secret(name, value) else set()
        return value


def _is_secret(name: str, value: str) -> bool:
    """Returns whether a log would hide the value or part of it."""
    return len(value) >= MIN_SECRET_CHARACTERS and _REDACTOR.value(value, name) != value


def unread(part: Mapping[str, Any], *, is_server: bool = False) -> list[str]:
    """Returns the keys of a document, or of a server in it, that are not read."""
    model = _Server if is_server else _Document
    known = {info.alias or name for name, info in model.model_fields.items()}
    return [key for key in part if key not in known and (is_server or key not in (*_SECTIONS, "mcp"))]


def _name_unknown(path: Path, part: Mapping[str, Any], where: tuple[str, ...] = ()) -> None:
    keys = [".".join([*where, key]) for key in unread(part, is_server=bool(where))]
    if keys:
        _log.warning("Unknown keys are ignored.", action="mcp_unknown_keys", file=str(path), keys=keys)


def _name_unused(path: Path, document: _Document, servers: list[str]) -> None:
    """Warns about tools allowed for unknown servers, which are probably misspelt."""
    named = document.allowed if isinstance(document.allowed, dict) else {}
    keys = [f"allowedTools.{name}" for name in named if name not in servers]
    if keys:
        _log.warning(
            "Tools are allowed for servers that are not configured.",
            action="mcp_unknown_keys",
            file=str(path),
            keys=keys,
        )
