"""An MCP server as configured by the operator, and ``servers_config.json``, a format shared with other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from swarm.domain.errors import ConfigurationError
from swarm.domain.text.secrets import MIN_SECRET_CHARACTERS
from swarm.telemetry.redaction import Redactor

_CALL_SECONDS: Final = 60.0
_LONGEST_CALL_SECONDS: Final = 3600.0
_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
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
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A server that runs as a program and exchanges messages over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)  # arguments may also contain secrets
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # the only variables in addition to PATH and HOME
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """The current status of a server."""

    name: str
    is_up: bool
    detail: str  # why the server is not up; empty if it is up
    allowed: tuple[str, ...]  # the server's tools that may be used; empty while it is not up
    others: tuple[str, ...]  # the server's other tools
    refused: Mapping[str, str] = field(default_factory=dict)  # why tools are not offered, by name


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Time limits for servers."""

    start_seconds: float = 5.0  # how long the start of the coordinator waits for all servers
    connect_seconds: float = 30.0  # the time until a server must have listed its tools
    first_pause_seconds: float = 1.0  # before the first new attempt to reach a server; doubled after each attempt
    longest_pause_seconds: float = 60.0
    refresh_seconds: float = 60.0  # between two reads of the list if there are no notifications
    close_seconds: float = 5.0  # for closing the connection to an HTTP server
    end_seconds: float = 1.0  # how long a program may take to exit after its stdin is closed
    term_seconds: float = 2.0  # the time between SIGTERM and SIGKILL


USUAL_TIMEOUTS: Final = Timeouts()


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, hide_input_in_errors=True)


class _Server(_Part):
    command: str | None = Field(None, min_length=1)
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = Field(None, min_length=1)
    url: str | None = Field(None, pattern=r"^https?://[^/]")
    headers: dict[str, str] = {}
    allowed: _Names | None = Field(None, alias="allowedTools")
    timeout: float = Field(_CALL_SECONDS, gt=0, le=_LONGEST_CALL_SECONDS)
    disabled: bool = False


class _Document(_Part):
    servers: dict[str, dict[str, Any]] = Field(alias="mcpServers")
    allowed: _Names | dict[str, _Names] = Field(default_factory=list, alias="allowedTools")


_DOCUMENT: Final = TypeAdapter(_Document)
_ENTRY: Final = TypeAdapter(_Server)


def read(path: Path, environment: Mapping[str, str], *, warns: bool = True) -> tuple[McpServer, ...]:
    """Reads the enabled servers in a file, in order.

    ``${NAME}`` in a server's program or address is replaced from ``environment``. Unknown keys are only logged, if
    ``warns`` is set. Raises ConfigurationError with the file, the key and the expected value, but never with the actual
    value, which may be a secret.
    """
    document = _validated(_DOCUMENT, _text(path), path, ())
    if warns:
        _name_unknown(path, document, ())
        _name_unused(path, document)
    return tuple(_servers(path, document, environment, warns=warns))


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error


def _validated(adapter: TypeAdapter[Any], value: bytes | dict[str, Any], path: Path, where: tuple[str, ...]) -> Any:
    try:
        # Follows JSON's rules: in strict mode, a mapping does not accept a list, and a number does not accept text.
        return adapter.validate_json(value) if isinstance(value, bytes) else adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = ".".join([*where, *_steps(first["loc"])])
        expected = _EXPECTED.get(_steps(first["loc"])[0] if first["loc"] else "", first["msg"])
        if first["type"] == "missing":
            expected = f"this is missing; {expected}"
        raise ConfigurationError(f"{path}: {f'{key}: ' if key else ''}{expected}") from None  # its cause shows values


def _steps(loc: tuple[int | str, ...]) -> list[str]:
    """Returns the path of an error in the file, without pydantic's names for union members."""
    return [str(step) for step in loc if not (isinstance(step, str) and "[" in step)]


def _servers(path: Path, document: _Document, environment: Mapping[str, str], *, warns: bool) -> Iterator[McpServer]:
    for name, settings in document.servers.items():
        where = ("mcpServers", name)
        if not name.strip():
            raise ConfigurationError(f"{path}: mcpServers: every server needs a name")
        entry: _Server = _validated(_ENTRY, settings, path, where)
        if warns:
            _name_unknown(path, entry, where)
        if not entry.disabled:
            filled = _Filled(path, ".".join(where), environment)
            yield McpServer(
                name=name,
                reached=filled.reached(entry),
                allowed=_allowed(name, entry, document),
                shares_list=entry.allowed is None and _is_shared(document),
                timeout_seconds=entry.timeout,
                secrets=tuple(filled.secrets),
            )


def _allowed(name: str, entry: _Server, document: _Document) -> tuple[str, ...]:
    """Returns the tools allowed for a server. The server's own list takes precedence, even if it is empty."""
    if entry.allowed is not None:
        names = entry.allowed
    else:
        names = document.allowed if isinstance(document.allowed, list) else document.allowed.get(name, [])
    return tuple(dict.fromkeys(names))


def _is_shared(document: _Document) -> bool:
    return bool(document.allowed) and isinstance(document.allowed, list) and len(document.servers) > 1


class _Filled:
    """The replacement of variables with their values from the environment."""

    def __init__(self, path: Path, key: str, environment: Mapping[str, str]) -> None:
        self._path = path
        self._key = key
        self._environment = environment
        self.secrets: set[str] = set()  # from the values replaced so far

    def reached(self, entry: _Server) -> Program | Address:
        """Returns the server's program or address. Raises ConfigurationError."""
        if (entry.command is None) == (entry.url is None):
            raise ConfigurationError(f"{self._path}: {self._key}: either command or url is expected")
        if entry.url is not None:
            return Address(url=self._text("url", entry.url), headers=self._mapping("headers", entry.headers))
        return Program(
            command=self._text("command", entry.command or ""),
            args=tuple(self._text(f"args.{at}", arg) for at, arg in enumerate(entry.args)),
            env=self._mapping("env", entry.env),
            cwd=self._folder(entry.cwd) if entry.cwd else None,
        )

    def _folder(self, cwd: str) -> Path:
        """Returns a server's working directory. A relative path is relative to the file's folder."""
        return self._path.parent.resolve() / Path(self._text("cwd", cwd)).expanduser()

    def _mapping(self, key: str, values: Mapping[str, str]) -> dict[str, str]:
        filled = {name: self._text(f"{key}.{name}", value) for name, value in values.items()}
        self.secrets |= {value for name, value in filled.items() if _is_secret(name, value)}
        return filled

    def _text(self, key: str, text: str) -> str:
        missing = [name for name in _PLACEHOLDER.findall(text) if name not in self._environment]
        if missing:
            raise ConfigurationError(f"{self._path}: {self._key}.{key} refers to ${{{missing[0]}}}, which is not set")
        self.secrets |= {
            self._environment[name] for name in _PLACEHOLDER.findall(text) if _is_secret(name, self._environment[name])
        }
        filled = _PLACEHOLDER.sub(lambda found: self._environment[found.group(1)], text)
        if "\0" in filled or (key.startswith("headers.") and not filled.isprintable()):
            raise ConfigurationError(f"{self._path}: {self._key}.{key}: a single line of text is expected")
        return filled


def _is_secret(name: str, value: str) -> bool:
    """Returns whether a log would hide the value or part of it."""
    return len(value) >= MIN_SECRET_CHARACTERS and _REDACTOR.value(value, name) != value


def _name_unknown(path: Path, part: _Part, where: tuple[str, ...]) -> None:
    keys = [".".join([*where, key]) for key in part.model_extra or ()]
    if keys:
        _log.warning("Unknown keys are ignored.", action="mcp_unknown_keys", file=str(path), keys=keys)


def _name_unused(path: Path, document: _Document) -> None:
    """Warns about tools allowed for unknown servers, which are probably misspelt."""
    named = document.allowed if isinstance(document.allowed, dict) else {}
    keys = [f"allowedTools.{name}" for name in named if name not in document.servers]
    if keys:
        _log.warning(
            "Tools are allowed for servers that are not configured.",
            action="mcp_unknown_keys",
            file=str(path),
            keys=keys,
        )
