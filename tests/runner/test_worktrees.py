"""Work in git worktrees: a branch per thread, its changes in the answer, and nothing lost."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from swarm.runner.workdirs import GitFailed, Workdirs
from tests.runner.conftest import Office, fake

AUTHOR = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(("git", *AUTHOR, *arguments), cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, whose hooks would fail."""
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "README").write_text("A shop.\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "The shop opens")
    for hook in ("pre-commit", "post-checkout"):
        path = folder / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\nexit 1\n")
        path.chmod(0o700)
    return folder


def workdirs(tmp_path: Path, repo: str | None) -> Workdirs:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return Workdirs(tmp_path / "runner", "wim", repo=repo, shared=None, environment=environment)


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_the_answer_names_the_branch_and_its_changes_and_shows_the_diff(office: Office, repository: Path) -> None:
    await office.start(fake("works"), repo=str(repository), show_diff=True)
    ts, task_id = await office.delegate(task="Write done.txt")
    task = await office.ended(task_id, "completed")
    await office.says(ts, "Wrote done.txt.", "1 file changed, 1 insertion(+)", ".diff")
    (branch,) = [name for name in git(repository, "branch", "--format=%(refname:short)").split() if name != "main"]
    assert branch.startswith("swarm/write-done-txt-")
    assert f"Branch `{branch}`" in task["result"]
    assert git(repository, "show", f"{branch}:done.txt") == "done"
    assert git(repository, "status", "--porcelain") == ""
    assert not (repository.parent / "hooked").exists()


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_after_a_failure_the_worktree_is_kept_and_the_thread_knows_where(
    office: Office, repository: Path
) -> None:
    await office.start(fake("fails"), repo=str(repository))
    ts, task_id = await office.delegate(task="Write done.txt")
    await office.ended(task_id, "dead")
    await office.says(ts, "exit code 3", "kept in branch swarm/write-done-txt-")


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_a_repository_that_cannot_be_used_is_said_in_the_thread(office: Office) -> None:
    await office.start(fake("works"), repo=str(office.folder / "nowhere"))
    ts, task_id = await office.delegate()
    await office.ended(task_id, "dead")
    await office.says(ts, "git clone failed")


@pytest.mark.req("RUN-02")
async def test_a_thread_keeps_its_worktree_and_another_has_its_own(tmp_path: Path, repository: Path) -> None:
    own = workdirs(tmp_path, str(repository))
    first = await own.of("T:C:1.0", "Fix it")
    (first.path / "half").write_text("half\n")
    assert await own.of("T:C:1.0", "Then something else") == first
    other = await own.of("T:C:2.0", "Fix it")
    assert other.branch != first.branch
    assert not (other.path / "half").exists()
    changes = await own.changes(other, (), "nothing")
    assert changes
    assert (changes.branch, changes.summary, changes.diff) == (other.branch, "", "")


@pytest.mark.req("RUN-02")
async def test_a_url_is_cloned_once_and_new_worktrees_begin_at_its_newest_commit(
    tmp_path: Path, repository: Path
) -> None:
    own = workdirs(tmp_path, repository.as_uri())
    await own.of("one", "one")
    (repository / "new").write_text("new\n")
    git(repository, "add", "--all")
    git(repository, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--message", "More")
    second = await own.of("two", "two")
    assert (second.path / "new").read_text() == "new\n"
    assert len(list((tmp_path / "runner" / "repos").iterdir())) == 1


@pytest.mark.req("RUN-02")
async def test_only_old_worktrees_without_anything_of_their_own_are_removed(tmp_path: Path, repository: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n")
    own = workdirs(tmp_path, str(repository))
    unchanged, changed, committed, merged, young = [
        await own.of(name, name) for name in ("unchanged", "changed", "committed", "merged", "young")
    ]
    (changed.path / "half").write_text("half\n")
    for workdir in (committed, merged):
        (workdir.path / "whole").write_text(str(workdir.branch))
        await own.changes(workdir, (), "The work")
    git(repository, "merge", "--quiet", str(merged.branch))
    for workdir in (unchanged, changed, committed, merged):
        os.utime(workdir.path, (time.time() - 100, time.time() - 100))
    assert set(await own.tidy(50)) == {unchanged.path, merged.path}
    assert changed.path.exists()
    assert committed.path.exists()
    assert young.path.exists()
    assert str(unchanged.branch) not in git(repository, "branch")


@pytest.mark.req("RUN-02")
async def test_a_folder_that_is_no_repository_is_named(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="git rev-parse failed"):
        await workdirs(tmp_path, str(tmp_path)).of("one", "one")
