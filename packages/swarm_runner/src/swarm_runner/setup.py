"""What a worktree gets before its CLI: files of the checkout that git ignores, and what the operator's command makes.

Both are done once for a worktree, and again after they failed, were interrupted, or the options changed. Files are
copied with their modes, through no link on either side; one that is there already stays, unless it is the copy of a
set-up that failed. A file that git does not ignore in the worktree is refused, since it would be committed.

The command runs in the worktree, in the sandbox if there is one, with the environment of the CLI and a cache folder of
the runner. None of its processes outlives it.
"""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Final

from swarm_base.errors import SwarmError
from swarm_base.processes.child import Child, to_the_end
from swarm_runner.conversation import RunContext
from swarm_runner.doors.command import Screen
from swarm_runner.files import opened_file, opened_folder
from swarm_runner.output import RunOutput
from swarm_runner.port import StepShown, ToolState
from swarm_runner.settings import INCLUDE_FILE, kind_of
from swarm_runner.workdirs import Prepared, Workdir

_SHOWN_AFTER_SECONDS: Final = 3.0
_READ_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 4 << 20  # of the output, for the log
_GRACE_SECONDS: Final = 2.0
_NAMED: Final = 20  # files, in the log
_LAST_LINES: Final = 5
_LAST_CHARACTERS: Final = 600
_CHANGED: Final = "changed"  # in place of a digest: another set-up has begun in a worktree that was ready


class SetupFailed(SwarmError):
    """A worktree could not be set up. The message is a clause for people."""

    code = "setup_failed"


async def set_up(context: RunContext, workdir: Workdir, output: RunOutput) -> None:
    """Sets a worktree up, unless that has been done. Raises SetupFailed and GitFailed."""
    settings, workdirs = context.settings, context.workdirs
    checkout = await workdirs.checkout() if settings.include or settings.trust_repository else None
    own = checkout / INCLUDE_FILE if checkout and settings.trust_repository else None
    listed = own.read_text(errors="replace") if own and own.is_file() and not own.is_symlink() else ""
    before = workdirs.prepared(workdir)
    digest = hashlib.sha256(json.dumps([settings.include, listed, settings.setup]).encode()).hexdigest()
    if workdir.branch is None or not (settings.include or listed or settings.setup) or before.done == digest:
        return
    output.status("setting up the worktree")
    prepared = replace(before, done=_CHANGED if before.done else "")
    if settings.include or listed:
        if checkout is None:
            raise SetupFailed("the repository has no checkout from which --include could copy")
        patterns = [f"--exclude-from={own}"] if listed else []
        patterns += [f"--exclude={pattern}" for pattern in settings.include]
        names = await workdirs.names(checkout, "ls-files", "--others", "--ignored", *patterns)
        prepared = await _include(context, workdir, output, checkout, names, prepared)
    if settings.setup:
        await _run(context, workdir, output)
        made = ("ls-files", "--others", "--modified", "--exclude-standard")
        if files := [] if before.done else await workdirs.names(workdir.path, *made, within=workdir):
            more = f" and {len(files) - 1} more" if files[1:] else ""
            title = f"the set-up changed {files[0]}{more}, which git does not ignore: it becomes part of the work"
            output.step(StepShown(id="swarm-made", title=title, state=ToolState.COMPLETE))
    workdirs.note(workdir, replace(prepared, done=digest))
    output.status(f"starting {kind_of(settings.provider)}")


async def _include(
    context: RunContext, workdir: Workdir, output: RunOutput, checkout: Path, names: Sequence[str], before: Prepared
) -> Prepared:
    """Copies files. They are noted first, so that no commit of ours contains one. Returns the note."""
    settings, workdirs = context.settings, context.workdirs
    private = [one for one in (settings.home, *settings.private) if one != checkout and one.is_relative_to(checkout)]
    found = [name for name in names if not any((checkout / name).is_relative_to(one) for one in private)]
    if settings.include and not found:
        raise SetupFailed(f"no untracked file of the repository matches --include {' '.join(settings.include)}")
    again = set() if before.done else set(before.files)
    wanted = {name for name in found if name in again or not os.path.lexists(workdir.path / name)}  # noqa: ASYNC240
    workdirs.note(workdir, replace(before, files=tuple(sorted({*before.files, *wanted}))))
    sizes: dict[str, int | None] = {}
    for name in sorted(wanted):
        try:
            sizes[name] = await to_the_end(asyncio.to_thread(_copy, checkout, workdir.path, name))
        except OSError as error:
            reason = "a link is in place of a folder" if isinstance(error, NotADirectoryError) else error.strerror
            raise SetupFailed(f"`{name}` cannot be copied into the worktree: {reason}") from error
    others = await workdirs.names(workdir.path, "ls-files", "--others", "--exclude-standard", within=workdir)
    if wrong := sorted(wanted.intersection(others)):
        for name in wrong:
            (workdir.path / name).unlink()
        more = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise SetupFailed(
            f"`{wrong[0]}`{more} cannot be copied: git does not ignore it in the worktree, so it would be committed. "
            "Commit a .gitignore that names it, or leave it out with a pattern that begins with '!'"
        )
    files = {name: size for name, size in sizes.items() if size is not None}
    left = f"; left out {len(sizes) - len(files)} links or folders" if len(files) < len(sizes) else ""
    count = f"{len(files)} ignored file{'s' * (len(files) != 1)}"
    title = f"copied {count} ({sum(files.values()):,} bytes) from the checkout{left}"
    if sizes:
        output.step(StepShown(id="swarm-include", title=title, state=ToolState.COMPLETE))
        output.log(f"[{title}] {', '.join([*files][:_NAMED])}")
    return replace(before, files=tuple(sorted({*before.files, *files})))


def _copy(checkout: Path, worktree: Path, name: str) -> int | None:
    """Copies a file. Returns its size; None if it is a link, or a folder with a repository of its own."""
    *folders, last = Path(name).parts
    with ExitStack() as opened:
        if (read := opened_file(opened, opened_folder(opened, checkout, folders), last)) is None:
            return None
        there = opened_folder(opened, worktree, folders, make=True)
        with suppress(FileNotFoundError):
            os.unlink(last, dir_fd=there)
        target = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=there)
        written = opened.enter_context(os.fdopen(target, "wb"))
        shutil.copyfileobj(read, written)
        os.fchmod(target, os.fstat(read.fileno()).st_mode & 0o777)
        return written.tell()


async def _run(context: RunContext, workdir: Workdir, output: RunOutput) -> None:
    """Runs the command. People see that it runs if it takes more than a moment. Raises SetupFailed."""
    step = StepShown(id="swarm-setup", title="running the set-up command", state=ToolState.IN_PROGRESS)
    showing = asyncio.get_running_loop().call_later(_SHOWN_AFTER_SECONDS, output.step, step)
    state = ToolState.ERROR
    output.log(f"[set-up] {context.settings.setup}")
    try:
        if reason := await _reason(context, workdir, output):
            output.log(f"[set-up] {reason}")
            raise SetupFailed(
                f"the set-up command {reason}. The agent was not started; its worktree is kept, with the branch "
                f"{workdir.branch}. Once the cause is fixed, Retry runs the command again"
            )
        state = ToolState.COMPLETE
    finally:
        showing.cancel()
        if showing.when() <= asyncio.get_running_loop().time():
            output.step(replace(step, state=state))


async def _reason(context: RunContext, workdir: Workdir, output: RunOutput) -> str:
    """Runs the command. Returns why it has failed, with its last lines; empty if it has not."""
    settings, cache = context.settings, context.settings.home / "cache"
    caches = {"XDG_CACHE_HOME": str(cache), "npm_config_cache": str(cache / "npm")}
    child = await Child.start(
        [*context.workdirs.wrap(workdir), "sh", "-c", settings.setup],
        env=context.sandbox.environment if context.sandbox else caches | dict(settings.environment),
        cwd=workdir.path,
        stdout=PIPE,
        stderr=STDOUT,
        grace_seconds=_GRACE_SECONDS,
    )
    reading = asyncio.create_task(_logged(child.stdout, output), name="set-up output")
    reason = ""
    try:
        async with asyncio.timeout(settings.setup_seconds):
            await child.ended.wait()
        if child.code != 0:
            is_killed = child.code is None or child.code < 0
            reason = "was killed" if is_killed else f"ended with exit code {child.code}"
    except TimeoutError:
        reason = f"did not end within {settings.setup_seconds / 60:g} minutes"
    finally:
        await to_the_end(child.end())
        await asyncio.wait({reading})
        child.close()
    lines = [line.strip() for line in reading.result().splitlines() if line.strip()]
    last = " / ".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:]
    return f"{reason}: {last}" if reason and last else reason


async def _logged(stream: asyncio.StreamReader, output: RunOutput) -> str:
    """Passes output on to the log until it ends: its beginning, and its last part, which it returns as well."""
    decoder, screen, last, count = codecs.getincrementaldecoder("utf-8")(errors="replace"), Screen(), "", 0
    held = b""  # of an output that is too long
    while data := await stream.read(_READ_BYTES):
        count += len(data)
        held = (held + data)[-_READ_BYTES:] if count > _MOST_BYTES else b""
        text = "" if held else screen.feed(decoder.decode(data))
        output.log_text(text)
        last = (last + text)[-_READ_BYTES:]
    if held:
        output.log("(Output is left out here.)")
    rest = screen.feed(decoder.decode(held, final=True), is_last=True)
    output.log_text(rest)
    return last + rest
