"""The prompts of the built-in agents before rendering, read from the built-in files and the operator's files.

An operator's prompts take precedence, key by key. ``prompts_config.yaml`` has the keys of `Prompts`. A text is given
directly, or in another file in the same folder, named by ``{file: name}``. Files are read unchanged, including the
final newline.

An operator's edit takes effect at the next run. While a file cannot be used, the last valid prompts are used.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import yaml

from swarm.domain.errors import ConfigurationError, SwarmError
from swarm.domain.text.unique_keys import UniqueKeys

_MARKERS: Final = ("{{", "{%", "{#")
NAME: Final = "prompts_config.yaml"
BUILT_IN: Final = Path(__file__).parent / "builtin" / NAME
_ROLES: Final = ("lead", "worker")
_KEYS: Final = ("assistant", "router", "server_prompts", "summary", *_ROLES)
_ROUTER_KEYS: Final = ("decide", "result", "refuse", "ask", "stopped")
_REFUSE_KEYS: Final = ("intro", "outro", "no_tools", "none_allowed")
_FILE_KEYS: Final = ("file",)
_SERVERS: Final = "server_prompts"

_Stamp = tuple[int, int, int] | None
"""A file's modification time, size and inode. None if the file does not exist."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A system prompt as written by its author."""

    name: str  # for error messages: the file and its key
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether the text contains no markup and is used unchanged, including the final newline."""
        return not any(marker in self.text for marker in _MARKERS)


class PromptError(SwarmError):
    """An error in a prompt that cannot be rendered.

    ``name`` is the template's name. ``line`` counts from 1; None if no particular line is known. ``problem`` is a
    clause.
    """

    def __init__(self, name: str, problem: str, *, line: int | None = None) -> None:
        place = f"{name}, line {line}" if line else name
        super().__init__(f"The prompt {place} cannot be rendered: {problem}.")
        self.name = name
        self.line = line
        self.problem = problem


@dataclass(frozen=True, kw_only=True, slots=True)
class _RefusalWords:
    """The fixed parts of a refusal, before and after the tools' descriptions."""

    intro: str  # before the list of tools
    outro: str  # after the list of tools
    no_tools: str  # used instead of both if no tool is available
    none_allowed: str  # used instead of all of them if the operator allows no tool


@dataclass(frozen=True, kw_only=True, slots=True)
class _RouterPrompts:
    decide: Template  # the system prompt of the call that makes the decision
    result: str  # for summarising a tool's result if its server has no prompt of its own
    refuse: _RefusalWords
    ask: str  # the question, if the model asks without a question
    stopped: str  # the answer to a user who cancels the request


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """All prompts. Templates are rendered for each run; other texts are used unchanged."""

    assistant: Template  # the assistant's system prompt
    router: _RouterPrompts
    server_prompts: Mapping[str, str]  # for summarising results, by the name of the MCP server
    summary: str  # for summarising the older part of a conversation
    team: Mapping[str, str]  # by role: added to the prompts of assistants with the swarm's own tools

    def result_of(self, server: str) -> str:
        """Returns the prompt for results of an MCP server's tools. The empty name is used for tools without a
        server.
        """
        return self.server_prompts.get(server, self.router.result)


class PromptFiles:
    """The current prompts."""

    def __init__(self, path: Path | None = None) -> None:
        """Reads the operator's file ``path``, which need not exist yet. Raises ConfigurationError if the file cannot be
        used.
        """
        self._path = path
        self._stamps: dict[Path, _Stamp] = {}
        self._prompts = self._read()

    def current(self) -> Prompts:
        """Returns the prompts, and reads them again if a file has changed. Errors are logged once per change."""
        if all(_stamp(path) == stamp for path, stamp in self._stamps.items()):
            return self._prompts
        try:
            self._prompts = self._read()
        except ConfigurationError as error:
            _log.warning("The previous prompts are kept.", action="prompts", error=error.message)
        else:
            _log.info("The prompts were read again.", action="prompts")
        return self._prompts

    def _read(self) -> Prompts:
        stamps: dict[Path, _Stamp] = {}  # replaced as one object, because runs may call this from their own threads
        try:
            return _load(self._path, stamps)
        finally:
            self._stamps = stamps


def load(path: Path | None = None) -> Prompts:
    """Returns the operator's prompts, completed with the built-in ones. A missing file counts as empty.

    Raises ConfigurationError with the file, the key, and the expected value.
    """
    return _load(path, {})


def _load(path: Path | None, stamps: dict[Path, _Stamp]) -> Prompts:
    built_in = _ConfigFile(BUILT_IN, {})
    own = _ConfigFile(path, stamps) if path else None
    return _prompts([file for file in (own, built_in) if file])


class _ConfigFile:
    """One file with prompts, with validated keys, and the files named in it."""

    def __init__(self, path: Path, stamps: dict[Path, _Stamp]) -> None:
        self._path = path
        self._stamps = stamps
        top = self._mapping("", self._document(), _KEYS)
        router = self._mapping("router", top.pop("router", {}), _ROUTER_KEYS)
        refuse = self._mapping("router.refuse", router.pop("refuse", {}), _REFUSE_KEYS)
        servers = self._mapping(_SERVERS, top.pop(_SERVERS, {}), None)
        self.texts: dict[str, Template] = {}  # by key, with its parts joined by dots
        for within, values in (("", top), ("router.", router), ("router.refuse.", refuse)):
            self.texts |= {within + name: self._text(within + name, value) for name, value in values.items()}
        self.servers = {name: self._text(f"{_SERVERS}.{name}", value).text for name, value in servers.items()}

    def _document(self) -> object:
        if (text := self._content(self._path)) is None:
            return {}
        try:
            return yaml.load(text, UniqueKeys)  # noqa: S506 - a SafeLoader
        except yaml.YAMLError as error:
            raise ConfigurationError(f"{self._path} cannot be read: {_reason(error)}") from error

    def _mapping(self, key: str, value: object, known: Iterable[str] | None) -> dict[str, object]:
        if not isinstance(value, dict | None):  # None if the section is empty: all its keys may be commented out
            raise self._wrong(key, f"a mapping is expected, not {_kind(value)}")
        found = {str(name): part for name, part in (value or {}).items()}
        for name in found:
            if known is not None and name not in known:
                raise self._wrong(f"{key}.{name}".removeprefix("."), _no_such_key(name, known))
        return found

    def _text(self, key: str, value: object) -> Template:
        match value:
            case str():
                template = Template(name=f"{self._path} ({key})", text=value)
            case dict():
                template = self._from_file(key, value)
            case _:
                raise self._wrong(key, f"a text or {{file: name}} is expected, not {_kind(value)}")
        if not template.text.strip():
            raise self._wrong(key, "a non-empty text is expected")
        return template

    def _from_file(self, key: str, value: object) -> Template:
        name = self._mapping(key, value, _FILE_KEYS).get("file")
        if not isinstance(name, str) or not name:
            raise self._wrong(f"{key}.file", f"the name of a file is expected, not {_kind(name)}")
        path = self._path.parent / name
        if (text := self._content(path)) is None:
            raise self._wrong(key, f"there is no file {path}")
        return Template(name=str(path), text=text)

    def _content(self, path: Path) -> str | None:
        """Returns the content of a file; None if the file is missing."""
        self._stamps[path] = _stamp(path)  # before the file is read, so that a concurrent write counts as a change
        try:
            return path.read_bytes().decode()  # text mode would change the line endings
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {_reason(error)}") from error

    def _wrong(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self._path}{f', {key}' if key else ''}: {problem}")


def _prompts(files: list[_ConfigFile]) -> Prompts:
    """Merges the prompts of several files; earlier files take precedence."""

    def template(key: str) -> Template:
        return next(file.texts[key] for file in files if key in file.texts)

    def text(key: str) -> str:
        return template(key).text

    servers: Mapping[str, str] = {}
    for file in reversed(files):
        servers = {**servers, **file.servers}
    refuse = _RefusalWords(**{key: text(f"router.refuse.{key}") for key in _REFUSE_KEYS})
    return Prompts(
        assistant=template("assistant"),
        router=_RouterPrompts(
            decide=template("router.decide"),
            result=text("router.result"),
            refuse=refuse,
            ask=text("router.ask"),
            stopped=text("router.stopped"),
        ),
        server_prompts=servers,
        summary=text("summary"),
        team={role: text(role) for role in _ROLES},
    )


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _no_such_key(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"there is no such key; did you mean '{near[0]}'?" if near else f"there is no such key, only {_list(known)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
