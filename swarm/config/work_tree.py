"""The work tree: the folder in which the host tools work. The operator must name it; there is no default.

Who may act: anyone who may write to an agent with such tools can have files in the work tree read and written. So the
work tree must not contain, or be contained in, anything that controls a coordinator: settings, ``.env`` files, state,
prompts, the list of MCP servers (which are commands), the folder with all these, and code that Python imports. Missing
files are checked as well, since a tool could create them.

What is guaranteed: a coordinator with a conflicting work tree does not start, and neither does ``swarm chat`` without a
coordinator. The error names all conflicts. Paths are compared as the system resolves them: symbolic links and ``..``
are resolved on both sides, each link on the path to a file is treated like the file, and folders are compared by device
and inode, so different spellings and bind mounts of the same folder are detected.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swarm.config.builtin import LocalTool
from swarm.config.importing.caipe_variables import BOT_CONFIG, config_file
from swarm.config.reading import dotenv_files, home_folder, read_variables, settings_file
from swarm.config.settings import Settings
from swarm.domain.errors import ConfigurationError

HOST_TOOLS: Final = frozenset(
    {
        LocalTool.GIT,
        LocalTool.SHELL,
        LocalTool.FILE_READ,
        LocalTool.FILE_WRITE,
        LocalTool.KIRO_DELEGATE,
        LocalTool.CLAUDE_DELEGATE,
        LocalTool.CODEX_DELEGATE,
    }
)
"""Tools that read, write or run on this machine."""

_KEY: Final = "tools.work_tree (SWARM_WORK_TREE)"
_HOW: Final = (
    "Name a folder that contains none of swarm's own files, for example SWARM_WORK_TREE=/srv/agents/website in .env."
)
_OR: Final = "Or start swarm in a separate folder."
_MOST_LINKS: Final = 40  # the same as the system's limit


def checked_work_tree(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    *,
    folder: Path | None = None,
    user_home: Path | None = None,
) -> Path | None:
    """Returns the real path of the work tree, or None if no agent has a host tool.

    The arguments are those of `swarm.config.load`. Raises ConfigurationError if the work tree is not set, is not a
    folder, or conflicts with the coordinator's own files.
    """
    if not (tools := _host_tools(settings)):
        return None
    if settings.tools.work_tree is None:
        raise ConfigurationError(
            f"{_KEY} is not set, but {tools}: tools that act on this machine work in a folder that you name.",
            hint=_HOW,
        )
    folder, user_home = folder or Path.cwd(), user_home or home_folder()
    tree = _existing(settings.tools.work_tree, folder)
    if tree == Path("/"):
        raise ConfigurationError(f"{_KEY} is /, which is the complete machine, including swarm itself.", hint=_HOW)
    own = _own(settings, read_variables(environment, folder=folder, user_home=user_home), folder, user_home)
    in_the_way = list(dict.fromkeys(said for place in own if (said := place.conflict(tree))))
    if in_the_way:
        raise ConfigurationError(
            f"{_KEY} is {tree}, where agents could change swarm itself: {'; '.join(in_the_way)}.",
            hint=f"{_HOW} {_OR}" if folder.resolve() in tree.parents else _HOW,
        )
    return tree


def _host_tools(settings: Settings) -> str:
    """Returns a readable list of the agents that have host tools, or an empty string if there are none."""
    found = {
        name: ", ".join(tool for tool in chosen.tools if tool in HOST_TOOLS)
        for name, chosen in settings.agents.builtin.items()
    }
    return "; ".join(f"agents.builtin.{name} has {tools}" for name, tools in found.items() if tools)


def _existing(named: Path, folder: Path) -> Path:
    """Returns the real path of a folder. A missing folder is not created, since after a typo agents would work in an
    empty folder."""
    try:
        path = Path(os.path.realpath(folder / named.expanduser(), strict=True))
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~name with an unknown user
        why = "there is no such folder" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", None)
        raise ConfigurationError(
            f"{_KEY} is {named}: {why or error}", hint="Create the folder, or name another."
        ) from error
    if not path.is_dir():
        raise ConfigurationError(f"{_KEY} is {named}: this is not a folder", hint=_HOW)
    return path


@dataclass(frozen=True, kw_only=True, slots=True)
class _Own:
    """One of the coordinator's own paths. The path may not exist."""

    what: str
    path: Path  # absolute
    is_folder: bool = False

    def conflict(self, tree: Path) -> str | None:
        """Returns a readable description of the conflict with the work tree, or None without a conflict."""
        for step in (steps := list(_way(self.path))):
            if any(_is_same(tree, above) for above in (step, *step.parents)):
                return f"it contains {self.what}, {self.path}"
        if self.is_folder and any(_is_same(steps[-1], above) for above in (tree, *tree.parents)):
            return f"it lies in {self.what}, {self.path}"
        return None


def _own(settings: Settings, variables: Mapping[str, str], folder: Path, user_home: Path) -> Iterator[_Own]:
    """Yields the files and folders that control a coordinator."""

    def at(path: Path) -> Path:
        return folder / path.expanduser()

    yield _Own(what="your home folder with your keys", path=user_home)
    yield _Own(what="the folder where swarm is started", path=folder, is_folder=True)
    yield _Own(what="the settings file", path=settings_file(folder, variables))
    if bot_config := config_file(variables.get(BOT_CONFIG, ""), folder):
        yield _Own(what=f"the channels ({BOT_CONFIG})", path=bot_config)
    for path in dotenv_files(folder, user_home):
        yield _Own(what="a file of variables", path=path)
    yield _Own(what="swarm's home (SWARM_HOME)", path=at(settings.home), is_folder=True)
    prompts, wordings = at(settings.home) / "prompts", at(settings.tools.prompts_config)
    yield _Own(what="the prompts of SWARM_HOME", path=prompts, is_folder=True)
    yield _Own(what="the operator's token", path=at(settings.home) / "operator.token")
    if database := _sqlite_file(settings):
        yield _Own(what="the database", path=folder / database)
    yield _Own(what="the list of MCP servers", path=at(settings.tools.servers_config))
    yield _Own(what="the wordings (prompts_config)", path=wordings)
    for path in (*_linked_files(prompts), *_linked_files(wordings.parent)):
        yield _Own(what="a prompt", path=path)
    for name, chosen in settings.agents.builtin.items():
        if chosen.prompt:
            yield _Own(what=f"the prompt of {name}", path=at(chosen.prompt))
    for name, program in _coding_programs(settings):
        yield _Own(what=f"the program of {name}", path=at(program))
    for path in _code():
        yield _Own(what="the program's code", path=path, is_folder=True)


def _sqlite_file(settings: Settings) -> Path | None:
    if settings.database.url is None:
        return settings.home.expanduser() / "swarm.db"
    from swarm.store.bridge.engine import SqliteUrl, parse_url  # loading takes a while

    url = parse_url(settings.database.url)
    return url.path if isinstance(url, SqliteUrl) else None


def _coding_programs(settings: Settings) -> Iterator[tuple[LocalTool, Path]]:
    """Yields the coding programs that agents may run and that the settings name by path."""
    chosen = settings.tools.delegates
    allowed = {tool for agent in settings.agents.builtin.values() for tool in agent.tools}
    for name, program in (
        (LocalTool.KIRO_DELEGATE, chosen.kiro),
        (LocalTool.CLAUDE_DELEGATE, chosen.claude),
        (LocalTool.CODEX_DELEGATE, chosen.codex),
    ):
        if name in allowed and len(program.parts) > 1:
            yield name, program


def _linked_files(folder: Path) -> list[Path]:
    """Returns a folder's symbolic links to files, which are used, for example, for prompts kept in a repository."""
    try:
        return sorted(path for path in folder.iterdir() if os.path.islink(path) and not os.path.isdir(path))
    except OSError:
        return []


def _code() -> list[Path]:
    """Returns the folders that Python imports from: a checkout or site-packages, Python's own library, and
    PYTHONPATH."""
    imported = [Path(entry) for entry in sys.path if os.path.isabs(entry)]  # an empty entry means the current folder
    found = {Path(__file__).absolute().parents[2], *map(Path, (sys.prefix, sys.base_prefix)), *imported}
    return sorted(path for path in found if path.is_dir() and found.isdisjoint(path.parents))


def _way(path: Path) -> Iterator[Path]:
    """Yields the final target of a path and each symbolic link on the way, since replacing a link changes the
    target."""
    here, todo, links = Path("/"), deque(path.parts[1:]), 0
    while todo:
        part = todo.popleft()
        step = here.parent if part == ".." else here / part
        if os.path.islink(step) and links < _MOST_LINKS:
            links += 1
            yield step
            target = Path(os.readlink(step))
            # An absolute target begins with "/", which replaces everything before it.
            todo.extendleft(reversed(target.parts))
        else:
            here = step
    yield here


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one == other or os.path.samestat(os.stat(one), os.stat(other))
    except (OSError, ValueError):  # a path that does not exist or may not be read
        return False
