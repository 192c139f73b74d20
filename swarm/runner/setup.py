"""What a worktree gets before its CLI: files of the checkout that git ignores, and what the operator's command makes.

Both are done once for a worktree, and again after they failed, were interrupted, or the options changed. Files are
copied with their modes, through no link on either side; one that is there already stays, unless it is the copy of a
set-up that failed. A file that git does not ignore in the worktree is refused, since it would be committed.

The command is the operator's. It runs in the worktree, in the sandbox if there is one, with the environment of the CLI
and a cache folder of the runner. None of its processes outlives it.
"""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Final

from swarm.domain.errors import SwarmError
from swarm.processes.child import Child, to_the_end
from swarm.runner.conversation import RunContext
from swarm.runner.doors.command import Screen
from swarm.runner.output import RunOutput
from swarm.runner.port import StepShown, ToolState
from swarm.runner.settings import INCLUDE_FILE, RunnerSettings, kind_of
from swarm.runner.workdirs import Prepared, Workdir

_SHOWN_AFTER_SECONDS: Final = 3.0
_READ_BYTES: Final = 1 << 16
_GRACE_SECONDS: Final = 2.0
_LAST_LINES: Final = 5
_LAST_CHARACTERS: Final = 600
_NAMED: Final = 3  # files, in a sentence
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHANGED: Final = "changed"  # in place of a digest: another set-up has begun in a worktree that was ready


class SetupFailed(SwarmError):
    """A worktree could not be set up."""

    code = "setup_failed"


async def set_up(context: RunContext, workdir: Workdir, output: RunOutput) -> None:
    """Sets a worktree up, unless that has been done. Raises SetupFailed and GitFailed."""
    settings, workdirs = context.settings, context.workdirs
    checkout = await workdirs.checkout() if settings.include or settings.trust_repository else None
    file = checkout / INCLUDE_FILE if checkout and settings.trust_repository else None
    own = await asyncio.to_thread(_read, file) if file else ""
    if workdir.branch is None or not (settings.include or own or settings.setup):
        return
    digest = hashlib.sha256(json.dumps([settings.include, own, settings.setup]).encode()).hexdigest()
    before = workdirs.prepared(workdir)
    if before.done == digest:
        return
    output.status("setting up the worktree")
    prepared = replace(before, done=_CHANGED if before.done else "")
    if settings.include or own:
        patterns = [f"--exclude-from={file}"] if own else []
        patterns += [f"--exclude={pattern}" for pattern in settings.include]
        prepared = await _include(context, workdir, output, checkout, patterns, prepared)
    if settings.setup:
        await _run(context, workdir, output)
    workdirs.note(workdir, replace(prepared, done=digest))
    output.status(f"starting {kind_of(settings.provider)}")


async def _include(
    context: RunContext,
    workdir: Workdir,
    output: RunOutput,
    checkout: Path | None,
    patterns: Sequence[str],
    before: Prepared,
) -> Prepared:
    """Copies what the patterns name. What has been copied is noted first, so that no later commit contains it."""
    settings, workdirs = context.settings, context.workdirs
    if checkout is None:
        raise SetupFailed("--include has nothing to copy from, because the repository has no checkout.")
    listed = await workdirs.untracked(checkout, patterns)
    apart = [one for one in (settings.home, *settings.private) if one != checkout and one.is_relative_to(checkout)]
    found = [name for name in listed if not any((checkout / name).is_relative_to(one) for one in apart)]
    if settings.include and not found:
        raise SetupFailed(f"No untracked file of the repository matches --include {' '.join(settings.include)}.")
    again = set() if before.done else set(before.files)
    names = [name for name in found if name in again or not os.path.lexists(workdir.path / name)]  # noqa: ASYNC240 -- a moment
    prepared = replace(before, files=tuple(sorted({*before.files, *names})))
    workdirs.note(workdir, prepared)
    sizes = [await _copied(checkout, workdir.path, name) for name in names]
    if wrong := await workdirs.unignored(workdir, names):
        for name in wrong:
            (workdir.path / name).unlink()
        raise SetupFailed(
            f"--include names what git does not ignore in the worktree, and what would be committed: {_some(wrong)}. "
            "Add it to .gitignore, or leave it out with a pattern that begins with '!'."
        )
    files = [size for size in sizes if size is not None]
    title = f"copied {len(files)} file{'s' * (len(files) != 1)} ({_size(sum(files))}) from the checkout"
    if left := len(sizes) - len(files):
        title += f"; left out {left} that {'are' if left > 1 else 'is'} no regular file{'s' * (left > 1)}"
    output.step(StepShown(id="swarm-include", title=title, state=ToolState.COMPLETE))
    output.log(f"[{title}]")
    return prepared


async def _copied(checkout: Path, worktree: Path, name: str) -> int | None:
    try:
        return await to_the_end(asyncio.to_thread(_copy, checkout, worktree, name))
    except OSError as error:
        reason = "a link or a file is in place of a folder" if isinstance(error, NotADirectoryError) else error.strerror
        raise SetupFailed(f"`{name}` cannot be copied into the worktree: {reason}.") from error


def _copy(checkout: Path, worktree: Path, name: str) -> int | None:
    """Copies a file. Returns its size; None if it is a link, or a folder with a repository of its own."""
    *folders, last = Path(name).parts
    with ExitStack() as opened:
        here = _folder(opened, checkout, folders)
        if not stat.S_ISREG(os.stat(last, dir_fd=here, follow_symlinks=False).st_mode):
            return None
        source = os.fdopen(os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here), "rb")
        opened.enter_context(source)
        there = _folder(opened, worktree, folders, make=True)
        with suppress(FileNotFoundError):
            os.unlink(last, dir_fd=there)
        made = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=there)
        target = opened.enter_context(os.fdopen(made, "wb"))
        shutil.copyfileobj(source, target)
        os.fchmod(made, os.fstat(source.fileno()).st_mode & 0o777)
        return target.tell()


def _folder(opened: ExitStack, root: Path, names: Iterable[str], *, make: bool = False) -> int:
    """Opens a folder below ``root``. Raises NotADirectoryError for a link on the way."""
    at = os.open(root, _FOLDER)
    opened.callback(os.close, at)
    for name in names:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=at)
        at = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
        opened.callback(os.close, at)
    return at


async def _run(context: RunContext, workdir: Workdir, output: RunOutput) -> None:
    """Runs the command. People see that it runs if it takes more than a moment. Raises SetupFailed."""
    settings = context.settings
    step = StepShown(id="swarm-setup", title=f"set-up: {settings.setup}", state=ToolState.IN_PROGRESS)
    showing = asyncio.get_running_loop().call_later(_SHOWN_AFTER_SECONDS, output.step, step)
    output.log(f"[set-up] {settings.setup}")
    tail, state = _Tail(output), ToolState.ERROR
    try:
        child = await Child.start(
            [*context.workdirs.wrap(workdir), "sh", "-c", settings.setup],
            env=_environment(settings, (context.sandbox or settings).environment, is_apart=context.sandbox is not None),
            cwd=workdir.path,
            stdout=PIPE,
            stderr=STDOUT,
            line_bytes=_READ_BYTES,
            grace_seconds=_GRACE_SECONDS,
        )
        reading = asyncio.create_task(tail.read(child.stdout), name="set-up output")
        try:
            async with asyncio.timeout(settings.setup_seconds):
                await child.ended.wait()
            reason = _reason(child.code)
        except TimeoutError:
            reason = f"did not end within {settings.setup_seconds / 60:g} minutes"
        finally:
            await to_the_end(child.end())
            await asyncio.wait({reading})
            child.close()
        if reason:
            output.log(f"[set-up] {reason}")
            raise SetupFailed(
                f"the set-up command {reason}{tail.last}. The agent was not started; its worktree, with the branch "
                f"{workdir.branch}, is kept. Mend what is missing, then press Retry: the set-up runs again"
            )
        state = ToolState.COMPLETE
    finally:
        showing.cancel()
        if showing.when() <= asyncio.get_running_loop().time():
            output.step(replace(step, state=state))


class _Tail:
    """The output of a command on its way to the log, and its end."""

    def __init__(self, output: RunOutput) -> None:
        self._output = output
        self._text = ""

    async def read(self, stream: asyncio.StreamReader) -> None:
        decoder, screen = codecs.getincrementaldecoder("utf-8")(errors="replace"), Screen()
        while data := await stream.read(_READ_BYTES):
            self._add(screen.feed(decoder.decode(data)))
        self._add(screen.feed(decoder.decode(b"", final=True), is_last=True))

    def _add(self, text: str) -> None:
        self._output.log_text(text)
        self._text = (self._text + text)[-4 * _LAST_CHARACTERS :]

    @property
    def last(self) -> str:
        """The last lines, to be appended to a clause."""
        lines = [line.strip() for line in self._text.splitlines() if line.strip()][-_LAST_LINES:]
        return f": {' / '.join(lines)[-_LAST_CHARACTERS:]}" if lines else ""


def _environment(settings: RunnerSettings, own: Mapping[str, str], *, is_apart: bool) -> dict[str, str]:
    """Returns the environment of the command. In the sandbox the caches of the CLI are the runner's already."""
    cache = settings.home / "cache"
    return dict(own) if is_apart else {"XDG_CACHE_HOME": str(cache), "npm_config_cache": str(cache / "npm"), **own}


def _reason(code: int | None) -> str:
    if code is None or code < 0:
        return "was killed"
    return f"ended with exit code {code}" if code else ""


def _read(file: Path) -> str:
    """Returns the patterns of a repository; empty without a regular file."""
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() and not file.is_symlink() else ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:_NAMED]) + more


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count = round(count / 1000)
    return f"{count} GB"
