"""Finds a folder's repository, refuses it unless all of it is in the work tree, and runs git in it.

A repository's own configuration could make git run programs. There are two independent protections. `_OVERRIDES`, part
of an environment that no file can override, disables settings with a fixed name. Any setting that is not known to be
harmless (`_HARMLESS`) stops the tool, because many settings that run programs have names chosen by the repository
(``remote.*.vcs``, ``filter.*.clean``, ``diff.*.textconv``) or are introduced by a later git.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from swarm_agents.built_in_tools.work_tree import ResolvedPath, ToolRefused, WorkTree, program_answer
from swarm_base.processes.captured import Ran, run_program
from swarm_base.processes.child import to_the_end

_MOST_LINK_BYTES: Final = 4096
_TIMEOUT_SECONDS: Final = 30.0
_MOST_BYTES: Final = 64 * 1024

_OPERATORS: Final = frozenset({"GIT_ASKPASS", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"})
"""Git variables that the operator may set. Swarm sets all others."""

_VARIABLES: Final = (
    "LC_ALL=C.UTF-8 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1"
    " GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_MERGE_AUTOEDIT=no GIT_EDITOR=: GIT_SEQUENCE_EDITOR=: GIT_PAGER=cat"
    " PAGER=cat SSH_ASKPASS_REQUIRE=never"
)

_OVERRIDES: Final = (
    "core.hooksPath=/dev/null core.fsmonitor=false core.attributesFile=/dev/null core.excludesFile=/dev/null"
    " core.askPass= core.editor=: core.pager=cat core.quotePath=false color.ui=false column.ui=never"
    " commit.gpgSign=false tag.gpgSign=false push.gpgSign=false log.showSignature=false merge.verifySignatures=false"
    " gpg.program=false gpg.openpgp.program=false gpg.x509.program=false gpg.ssh.program=false"
    " gpg.ssh.defaultKeyCommand=false submodule.recurse=false fetch.recurseSubmodules=false push.recurseSubmodules=no"
    " status.submoduleSummary=false diff.submodule=short"
    " diff.ignoreSubmodules=dirty"  # in a submodule, git would use the submodule's configuration
    " gc.auto=0 maintenance.auto=false safe.bareRepository=explicit"
    " credential.helper="  # removes previously configured helpers
)
"""Configuration of every run; overrides all files."""

_HARMLESS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"core\.(abbrev|autocrlf|bare|bigfilethreshold|checkstat|commentchar|commitgraph|compression|eol|excludesfile"
        r"|filemode|hookspath|ignorecase|logallrefupdates|longpaths|loosecompression|multipackindex|precomposeunicode"
        r"|preloadindex|protecthfs|protectntfs|quotepath|repositoryformatversion|safecrlf|sharedrepository|sparsecheckout"
        r"|sparsecheckoutcone|splitindex|symlinks|trustctime|untrackedcache|warnambiguousrefs|whitespace)",
        r"remote\..*\.(url|pushurl|fetch|tagopt|prune|prunetags|skipdefaultupdate|skipfetchall|promisor"
        r"|partialclonefilter|gh-resolved)",
        r"remote\.pushdefault",
        r"branch\..*\.(?!mergeoptions$)[a-z0-9-]+",
        r"branch\.(autosetupmerge|autosetuprebase|sort)",
        r"(user|author|committer)\.(name|email|useconfigonly)",
        r"user\.signingkey",
        r"push\.(default|autosetupremote|followtags|gpgsign|useforceifincludes)",
        r"pull\.(rebase|ff)",
        r"fetch\.(prune|prunetags|parallel|writecommitgraph|fsckobjects|showforcedupdates|unpacklimit|output)",
        r"merge\.(conflictstyle|ff|renames|renamelimit|directoryrenames|log|stat|autostash|branchdesc|tool|guitool)",
        r"diff\.(algorithm|colormoved|colormovedws|context|guitool|indentheuristic|interhunkcontext|mnemonicprefix"
        r"|noprefix|relative|renamelimit|renames|statgraphwidth|suppressblankempty|tool|wserrorhighlight)",
        r"rebase\.(autosquash|autostash|backend|forkpoint|stat|updaterefs)",
        r"status\.(aheadbehind|branch|relativepaths|renamelimit|renames|short|showstash|showuntrackedfiles)",
        r"log\.(abbrevcommit|date|decorate|follow|showroot)",
        r"(commit|tag)\.gpgsign",
        r"commit\.(cleanup|status|verbose)",
        r"stash\.(showincludeuntracked|showpatch|showstat)",
        r"submodule\..*\.(url|active|branch)",
        r"submodule\.active",
        r"extensions\.(compatobjectformat|objectformat|partialclone|preciousobjects|refstorage|relativeworktrees"
        r"|worktreeconfig)",
        r"http\.(.*\.)?(extraheader|postbuffer|version|lowspeedlimit|lowspeedtime)",
        r"credential\.(.*\.)?(username|usehttppath)",
        r"receive\.(deny[a-z]+|autogc|fsckobjects|shallowupdate|unpacklimit)",
        r"transfer\.(fsckobjects|hiderefs|unpacklimit)",
        r"rerere\.(enabled|autoupdate)",
        r"tag\.sort|init\.defaultbranch|protocol\.version|versionsort\.[a-z]+|i18n\.[a-z]+|feature\.[a-z]+",
        r"(advice|column|gc|index|maintenance|pack)\.[a-z]+",
        r"(alias|color|gui|lfs)\..*",  # not used by the subcommands here or by git itself
    )
)
"""Keys that do not make git run programs or access files elsewhere, or that `_OVERRIDES` disables."""

_FALSE_OR_TRUE: Final = re.compile("true|false|yes|no|on|off|1|0|", re.IGNORECASE)
_LOCAL: Final = ("local", "worktree")
_SCOPES: Final = frozenset({*_LOCAL, "command", "global", "system"})
_MOST_SETTINGS_BYTES: Final = 1 << 20
_MOST_FILES_BYTES: Final = 1 << 26  # for more than half a million files


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """One repository, with its real paths below the root."""

    work_tree: Path
    git_dir: Path
    common_dir: Path  # differs from git_dir in a linked work tree (git worktree add)

    @property
    def own_work_trees(self) -> tuple[str, ...]:
        """The values of core.worktree that have no effect: a submodule always sets one."""
        return str(self.work_tree), os.path.relpath(self.work_tree, self.git_dir)


def repository_of(tree: WorkTree, folder: ResolvedPath) -> Repository:
    """Returns the repository to which a folder of the tree belongs. Blocks on the file system.

    Only a ``.git`` in the folder, or above it up to the root of the tree, counts. Git itself also accepts a folder that
    merely looks like a repository.

    Raises:
        ToolRefused: No repository was found, or parts of it are outside the tree.
    """
    root = _real(tree.root)
    for relative in (Path(folder.path), *Path(folder.path).parents):
        if (repository := _repository_at(tree, root / relative)) is not None:
            return repository
    raise ToolRefused(f"{folder.path} belongs to no git repository of the work tree.")


def _repository_at(tree: WorkTree, folder: Path) -> Repository | None:
    """Returns the repository whose top is a folder below the root; None without a folder or repository. Blocks.

    Raises:
        ToolRefused: Parts of the repository are outside the tree.
    """
    root = _real(tree.root)
    relative = folder.relative_to(root)
    with tree.place(str(relative)) as place:
        if not place.is_folder:
            return None
    with tree.place(str(relative / ".git")) as place:
        if place.found is None:
            return None
        if place.path != str(relative / ".git"):
            raise ToolRefused(f"{relative / '.git'} is a symbolic link; git is not run there.")
        git_dir = folder / ".git" if place.is_folder else _linked(root, folder, place)
    common = git_dir / "commondir"
    common_dir = _inside(root, git_dir, _line(common)) if common.is_file() else git_dir
    for data in {git_dir, common_dir}:
        _check_links(root, data)
    _check_alternates(root, common_dir)
    return Repository(work_tree=folder, git_dir=git_dir, common_dir=common_dir)


def _linked(root: Path, here: Path, place: ResolvedPath) -> Path:
    """Returns the repository named in a ``.git`` file."""
    if not stat.S_ISREG(place.mode):
        raise ToolRefused(f"{place.path} is neither a folder nor a file.")
    kind, _, target = _line(here / ".git").partition("gitdir:")
    if kind or not target:
        raise ToolRefused(f"{place.path} does not name a repository.")
    return _inside(root, here, target.strip())


def _inside(root: Path, base: Path, target: str) -> Path:
    real = _real(base / target)
    if not real.is_relative_to(root):
        raise ToolRefused(f"The repository's data is at {target}, outside the work tree; git is not run there.")
    return real


def _line(path: Path) -> str:
    if not path.is_file():  # opening a pipe would block
        raise ToolRefused(f"{path.name} of the repository is not a plain file.")
    with path.open("rb") as file:
        return os.fsdecode(file.read(_MOST_LINK_BYTES)).strip()


def _check_links(root: Path, git_dir: Path) -> None:
    """Refuses symbolic links in git's own data, because git writes to their targets, for example of COMMIT_EDITMSG or
    logs.
    """
    for name, folders, files in os.walk(git_dir):
        for path in (Path(name, entry) for entry in (*folders, *files)):
            if path.is_symlink() and not _real(path).is_relative_to(root):
                where = path.relative_to(root)
                raise ToolRefused(f"{where} is a symbolic link that leads outside the work tree; remove it.")
        if Path(name) == git_dir and "hooks" in folders:
            folders.remove("hooks")  # never run
        if Path(name).name == "objects":  # never written in place
            folders[:] = [entry for entry in folders if entry in ("info", "pack")]


def _check_alternates(root: Path, common_dir: Path) -> None:
    """Refuses alternates outside the tree: other repositories whose objects this repository may read."""
    alternates = common_dir / "objects" / "info" / "alternates"
    if not os.path.lexists(alternates):
        return
    for line in _line(alternates).splitlines():
        if not line.startswith("#") and not _real(common_dir / "objects" / line.strip('"')).is_relative_to(root):
            raise ToolRefused("The repository borrows objects from one outside the work tree; git is not run there.")


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _remove_abandoned(lock: Path) -> None:
    """Removes an index lock that no process holds.

    Git removes its locks when it is terminated. If it is terminated between creating its first lock and installing its
    signal handler, it leaves the lock behind, and every later call fails. Such a lock is empty, and no process has it
    open; a running git keeps its lock open until the index is written.
    """
    try:
        found = lock.lstat()
        if found.st_size == 0 and stat.S_ISREG(found.st_mode) and not _is_open(found):
            lock.unlink()
    except OSError:
        pass  # usually there is none; a lock whose holder cannot be determined is kept


def _is_open(file: os.stat_result) -> bool:
    """Returns whether a process may have the file open. Assumes so if a git process's files cannot be listed."""
    return any(_may_have(Path("/proc", pid), file) for pid in filter(str.isdecimal, os.listdir("/proc")))


def _may_have(process: Path, file: os.stat_result) -> bool:
    try:
        return any(_is_same(opened, file) for opened in (process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # the process has exited
        return False
    except PermissionError:
        return (process / "comm").read_text().startswith("git")


def _is_same(opened: Path, file: os.stat_result) -> bool:
    with suppress(FileNotFoundError):  # closed in the meantime
        return os.path.samestat(opened.stat(), file)
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class GitOptions:
    """The operator's settings for git."""

    author_name: str = "swarm"
    author_email: str = "swarm@localhost"
    protocols: Sequence[str] = ("https", "ssh")  # for remotes; "file" runs the hooks of the other repository
    credential_helper: str = ""  # as in git's credential.helper; if empty, only ~/.netrc and ssh keys are used
    trusted_keys: Sequence[str] = ()  # patterns of additional configuration keys that a repository may set
    timeout_seconds: float = _TIMEOUT_SECONDS
    most_bytes: int = _MOST_BYTES  # of the output


class Setting(NamedTuple):
    """One line of a repository's configuration."""

    key: str  # section and name in lower case
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Git:
    """The git program, configured for one operator."""

    env: Mapping[str, str]
    options: GitOptions

    async def run(
        self,
        repository: Repository,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        most_bytes: int | None = None,
        errors_apart: bool = False,
    ) -> Ran:
        """Runs a subcommand, by default at the top of the work tree. Raises ToolRefused if git is not installed."""
        lock = repository.git_dir / "index.lock"
        was_locked = lock.exists()
        try:
            return await run_program(
                ["git", *argv],
                cwd=cwd or repository.work_tree,
                env=self._environment(repository),
                timeout_seconds=self.options.timeout_seconds,
                most_bytes=most_bytes or self.options.most_bytes,
                errors_apart=errors_apart,
            )
        except FileNotFoundError as error:
            raise ToolRefused("git is not installed here.") from error
        finally:
            if not was_locked:
                await to_the_end(asyncio.to_thread(_remove_abandoned, lock))

    async def inspected(self, repository: Repository, where: str = "the repository") -> list[Setting]:
        """Returns the repository's own configuration. Raises ToolRefused if it could run a program or access files
        outside.
        """
        listing = ("config", "--list", "--show-scope", "--null", "--no-includes")
        settings = list(settings_in(await self._listed(repository, listing, _MOST_SETTINGS_BYTES)))
        check(settings, where, trusted=self.options.trusted_keys, work_trees=repository.own_work_trees)
        return settings

    async def inspect_submodules(self, repository: Repository, tree: WorkTree) -> None:
        """Inspects all existing submodules recursively, because git uses their configuration when it reads them."""
        files = await self._listed(repository, ("ls-files", "--stage", "-z"), _MOST_FILES_BYTES)
        for path in (entry.partition("\t")[2] for entry in files.split("\0") if entry.startswith("160000 ")):
            within = await to_the_end(asyncio.to_thread(_repository_at, tree, repository.work_tree / path))
            if within is not None:
                await self.inspected(within, f"the submodule {path}")
                await self.inspect_submodules(within, tree)

    async def _listed(self, repository: Repository, argv: Sequence[str], most_bytes: int) -> str:
        """Returns the complete output of a subcommand. Raises ToolRefused if it fails or exceeds ``most_bytes``."""
        ran = await self.run(repository, argv, most_bytes=most_bytes, errors_apart=True)
        if ran.cut:
            raise ToolRefused("The repository is too large for this tool.")
        if ran.code != 0:
            errors = Ran(code=ran.code, output=ran.errors, timed_out=ran.timed_out)
            ending = program_answer(errors, "git", self.options.timeout_seconds)
            raise ToolRefused(f"The repository cannot be read. {ending.text}")
        return ran.output

    def _environment(self, repository: Repository) -> dict[str, str]:
        """Returns the complete environment, which no file can override."""
        kept = {name: value for name, value in self.env.items() if not name.startswith("GIT_") or name in _OPERATORS}
        who = {"NAME": self.options.author_name, "EMAIL": self.options.author_email}
        settings = [*_pairs(_OVERRIDES), ("credential.helper", self.options.credential_helper)]
        return {
            "GIT_ASKPASS": "",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=15",
            "GIT_SSH_VARIANT": "ssh",
            **kept,
            **dict(_pairs(_VARIABLES)),
            "GIT_DIR": str(repository.git_dir),
            "GIT_WORK_TREE": str(repository.work_tree),
            "GIT_ALLOW_PROTOCOL": ":".join(self.options.protocols),
            **{f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in who.items()},
            "GIT_CONFIG_COUNT": str(len(settings)),
            **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(settings)},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(settings)},
        }


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (pair.partition("=") for pair in text.split())]


def settings_in(listing: str) -> Iterator[Setting]:
    """Yields the repository's own settings from ``git config --list --show-scope --null``.

    Raises ToolRefused for other text.
    """
    *fields, rest = listing.split("\0")
    if rest or len(fields) % 2 or not _SCOPES.issuperset(fields[::2]):
        raise ToolRefused("The repository's configuration cannot be read.")
    for scope, entry in zip(fields[::2], fields[1::2], strict=True):
        if scope in _LOCAL:
            key, _, value = entry.partition("\n")
            yield Setting(key, value)


def check(
    settings: Iterable[Setting], where: str, *, trusted: Sequence[str] = (), work_trees: Iterable[str] = ()
) -> None:
    """Refuses a repository whose configuration does more than store files.

    Args:
        where: A readable description of the repository.
        trusted: Patterns (fnmatch) of keys that the operator allows.
        work_trees: Values allowed for ``core.worktree``.

    Raises:
        ToolRefused: A key is not known to be harmless; the message names the first one.
    """
    for setting in settings:
        trusts = any(fnmatch.fnmatchcase(setting.key, pattern.lower()) for pattern in trusted)
        if not trusts and not _is_harmless(setting, work_trees):
            raise ToolRefused(
                f"git is not run here: the configuration of {where} sets {setting.key}, which could run a program or "
                "reach outside. Someone has to remove it, or the operator has to allow it."
            )


def _is_harmless(setting: Setting, work_trees: Iterable[str]) -> bool:
    if setting.key == "core.fsmonitor":
        return _FALSE_OR_TRUE.fullmatch(setting.value) is not None  # any other value would be a program
    if setting.key == "core.worktree":
        return setting.value in work_trees
    if re.fullmatch(r"remote\..*\.push", setting.key, re.DOTALL):
        return not setting.value.startswith(("+", ":", "-"))
    return any(pattern.fullmatch(setting.key) for pattern in _HARMLESS)
