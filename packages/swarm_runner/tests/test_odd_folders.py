"""Folders, repositories and disks in odd states: a true reason, the work kept, and a next try that works."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from packages.swarm_runner.tests.test_guest import _has_sandbox
from packages.swarm_runner.tests.test_worktrees import git
from swarm_runner.sandbox import Sandbox
from swarm_runner.settings import RunnerSettings
from swarm_runner.workdirs import GitFailed, Workdir, Workdirs

pytestmark = pytest.mark.req("RUN-09")

BOTH = pytest.mark.parametrize("sandbox", [False, True], ids=["plain", "sandbox"])
SANDBOX_IN_GATE = pytest.mark.parametrize(
    "sandbox", [pytest.param(False, marks=pytest.mark.long), True], ids=["plain", "sandbox"]
)
_FULL_BYTES = 2 << 20


def workdirs(folder: Path, repo: object, *, sandbox: bool, path: str = os.environ["PATH"]) -> Workdirs:
    """Those of a runner whose folder is in ``folder``."""
    if sandbox and not _has_sandbox():
        pytest.skip("NOT TESTED HERE: bubblewrap is missing, or cannot run")
    home, environment = folder / "user" / "runner", {"PATH": os.environ["PATH"], "HOME": str(folder / "user")}
    home.mkdir(parents=True, exist_ok=True)
    settings = RunnerSettings(
        name="wim", provider="command:true", home=home, url="http://127.0.0.1:1", environment=environment
    )
    return Workdirs(
        home,
        "wim",
        repo=str(repo),
        shared=None,
        environment=environment | {"PATH": path},
        sandbox=Sandbox(settings) if sandbox else None,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with two files."""
    folder = tmp_path / "shop"
    folder.mkdir()
    _begin(folder)
    return folder


def _begin(folder: Path) -> None:
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for name in ("README", "prices"):
        (folder / name).write_text("A shop.\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "The shop opens")


async def worked(folder: Path, repo: Path, *, sandbox: bool) -> Workdir:
    """A thread's folder with a commit, and work after it."""
    own = workdirs(folder, repo, sandbox=sandbox)
    workdir = await own.of("one", "one")
    (workdir.path / "new").write_text("new\n")
    await own.changes(workdir, "The work")
    (workdir.path / "half").write_text("half\n")
    (workdir.path / "README").write_text("Changed.\n")
    return workdir


CRASHES = {
    "locked without index": (False, True),
    "broken .git": (False, True),
    "nothing left": (False, True),
    "unfinished": (False,),
    "missing and locked": (False,),
    "a locked branch": (False, True),
    "no index": (False, True),
    "a locked index": (False, True),
    "no .git": (False,),
    "no entry": (False,),
    "empty folder": (False,),
}
"""What a crash leaves behind, and whether the work is in a sandbox. The gate plays the first ones of both kinds."""
IN_GATE = {(crash, False) for crash in [*CRASHES][:5]} | {("locked without index", True), ("broken .git", True)}


@pytest.mark.parametrize(
    ("crash", "sandbox"),
    [
        pytest.param(crash, sandbox, marks=[] if (crash, sandbox) in IN_GATE else pytest.mark.long)
        for crash, kinds in CRASHES.items()
        for sandbox in kinds
    ],
)
async def test_after_a_crash_the_folder_is_used_again_with_its_files(
    tmp_path: Path, shop: Path, crash: str, *, sandbox: bool
) -> None:
    workdir = await worked(tmp_path, shop, sandbox=sandbox)
    entry = Path(git(workdir.path, "rev-parse", "--absolute-git-dir"))
    if crash in ("no index", "locked without index"):
        (entry / "index").unlink()
    if "locked" in crash and "index" in crash:
        (entry / "index.lock").touch()
    match crash:
        case "a locked branch":
            ((entry if sandbox else shop / ".git") / "refs" / "heads" / f"{workdir.branch}.lock").touch()
        case "broken .git" if sandbox:
            shutil.rmtree(entry)
            (entry / "objects").mkdir(parents=True)
        case "broken .git":
            (workdir.path / ".git").write_text("")
        case "no .git":
            (workdir.path / ".git").unlink()
        case "no entry":
            shutil.rmtree(entry)
        case "nothing left" | "empty folder":
            shutil.rmtree(workdir.path)
            workdir.path.mkdir()
            if crash == "empty folder":
                shutil.rmtree(entry)
        case "missing and locked":
            git(shop, "worktree", "lock", str(workdir.path))
            shutil.rmtree(workdir.path)
        case "unfinished":
            (entry / "locked").write_text("initializing")
            (entry / "index").unlink()
            (workdir.path / "README").unlink()
    next_one = workdirs(tmp_path, shop, sandbox=sandbox)
    again = await next_one.of("one", "one")
    changes = await next_one.changes(again, "More")
    assert changes
    has_lost = crash in ("nothing left", "missing and locked", "unfinished", "empty folder")
    assert changes.summary.startswith("1 file changed, 1 insertion(+)" if has_lost else "3 files changed, 3 insertions")
    assert (again.path / "README").read_text() == ("A shop.\n" if has_lost else "Changed.\n")
    assert (again.path / "half").exists() != has_lost
    assert git(shop, "show", f"{changes.branch}:new") == "new"
    if not sandbox:
        assert again == workdir
        assert [path.name for path in workdir.path.parent.iterdir()] == [workdir.path.name]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_url", "sandbox", "seen"),
    [
        (False, True, "rooms/*.new/.git"),
        (False, True, "rooms/*/file-1"),
        (False, False, "work/*/file-1"),
        (True, False, "repos/*.new-*/.git/objects"),
    ],
)
async def test_a_runner_that_is_killed_while_git_clones_or_checks_out_begins_again(
    tmp_path: Path, shop: Path, seen: str, *, is_url: bool, sandbox: bool
) -> None:
    for number in range(1000):
        (shop / f"file-{number}").write_text(f"{number}\n" * 20)
    git(shop, "add", "--all")
    git(shop, "commit", "--quiet", "--message", "Many")
    git(shop, "worktree", "add", "--quiet", "-b", "swarm/one-7692c3ad", str(tmp_path / "other"))  # in use: another name
    repo = Path(shop.as_uri()) if is_url else shop
    if sandbox:
        workdirs(tmp_path, shop, sandbox=True)
    script = (
        "import asyncio, sys; from pathlib import Path; "
        "from packages.swarm_runner.tests.test_odd_folders import workdirs; "
        "asyncio.run(workdirs(Path(sys.argv[1]), sys.argv[2], sandbox=sys.argv[3] == 'True').of('one', 'one'))"
    )
    name = shop.as_uri() if is_url else str(repo)
    runner = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name, str(sandbox)])
    while not any((tmp_path / "user" / "runner").glob(seen)) and runner.poll() is None:
        time.sleep(0.001)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    home = tmp_path / "user" / "runner"
    _until_nobody_works_in(home)
    own = workdirs(tmp_path, name, sandbox=sandbox)
    workdir = await own.of("one", "one")
    (workdir.path / "new").write_text("new\n")
    changes = await own.changes(workdir, "The work")
    assert changes
    assert changes.summary == "1 file changed, 1 insertion(+)"
    assert list(home.glob("*/*.new*")) == []


def _until_nobody_works_in(home: Path) -> None:
    def works(process: Path) -> bool:
        with contextlib.suppress(OSError):
            return str(home).encode() in (process / "cmdline").read_bytes()
        return False

    while any(works(one) for one in Path("/proc").iterdir() if one.name.isdecimal() and int(one.name) != os.getpid()):
        time.sleep(0.01)


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[None]:
    """A small disk."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={_FULL_BYTES}", "none", str(folder)]
    if subprocess.run(mounted, check=False, capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED HERE: this user may not mount a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fills a disk; the file that does."""
    file = folder / "filled"
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as writing:
        while True:
            writing.write(b"x" * 512)
    return file


@pytest.mark.long
@BOTH
@pytest.mark.parametrize(("place", "is_first"), [("user", True), ("shop", True), ("shop", False)])
async def test_a_full_disk_is_the_reason_and_nothing_is_lost(
    tmp_path: Path, place: str, *, is_first: bool, sandbox: bool
) -> None:
    shop = tmp_path / "shop"
    with disk(tmp_path / place):
        shop.mkdir(exist_ok=True)
        _begin(shop)
        own = workdirs(tmp_path, shop, sandbox=sandbox)
        reasons = r"No space left on device|Out of diskspace|couldn't write|write error"

        async def work() -> None:
            workdir = await own.of("one", "one")
            (workdir.path / "new").write_bytes(os.urandom(300_000))
            _ = is_first or fill(tmp_path / place)
            await own.changes(workdir, "The work")

        _ = is_first and fill(tmp_path / place)
        with pytest.raises((GitFailed, OSError), match=reasons):
            await work()
        (tmp_path / place / "filled").unlink()
        workdir = await own.of("one", "one")
        assert is_first or (workdir.path / "new").exists()
        (workdir.path / "more").write_text("more\n")
        changes = await own.changes(workdir, "The work")
        assert changes
        assert "more" in git(shop, "show", "--stat", changes.branch)


@SANDBOX_IN_GATE
async def test_a_folder_and_a_repository_that_cannot_be_written_are_named(tmp_path: Path, *, sandbox: bool) -> None:
    with disk(tmp_path / "shop"):
        _begin(tmp_path / "shop")
        own = workdirs(tmp_path, tmp_path / "shop", sandbox=sandbox)
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "shop")], check=True)

        async def work() -> None:
            workdir = await own.of("one", "one")
            (workdir.path / "new").write_text("new\n")
            await own.changes(workdir, "The work")

        with pytest.raises(GitFailed, match=r"Read-only file system|unable to create directory"):
            await work()
        subprocess.run(["mount", "-o", "remount,rw", str(tmp_path / "shop")], check=True)
        assert await own.of("one", "one")


@BOTH
async def test_without_git_that_is_the_reason(tmp_path: Path, shop: Path, *, sandbox: bool) -> None:
    own = workdirs(tmp_path, shop, sandbox=sandbox, path=str(tmp_path))
    with pytest.raises(GitFailed, match="git cannot be started: it is not installed on the runner's machine"):
        await own.of("one", "one")


@SANDBOX_IN_GATE
async def test_a_repository_that_is_gone_is_named_and_the_work_stays(
    tmp_path: Path, shop: Path, *, sandbox: bool
) -> None:
    workdir = await worked(tmp_path, shop, sandbox=sandbox)
    shutil.rmtree(shop)
    own = workdirs(tmp_path, shop, sandbox=sandbox)
    with pytest.raises(GitFailed, match=str(shop)):
        await own.changes(workdir, "More")
    with pytest.raises(GitFailed, match=f"repository '{shop}' does not exist"):
        await own.of("one", "one")
    assert (workdir.path / "half").read_text() == "half\n"


@BOTH
async def test_hooks_that_refuse_a_commit_do_not_refuse_ours(tmp_path: Path, shop: Path, *, sandbox: bool) -> None:
    own = workdirs(tmp_path, shop, sandbox=sandbox)
    workdir = await own.of("one", "one")
    for folder in (workdir.path / ".husky", shop / ".git" / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("pre-commit", "commit-msg", "prepare-commit-msg", "reference-transaction", "post-commit"):
            (folder / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/hooked\nexit 1\n")
            (folder / name).chmod(0o755)
    git(workdir.path, "config", "core.hooksPath", ".husky")
    changes = await own.changes(workdir, "The work")
    assert changes
    assert changes.summary.startswith("5 files changed")
    assert "pre-commit" in git(shop, "show", "--stat", changes.branch)
    assert not (tmp_path / "hooked").exists()
