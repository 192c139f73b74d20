"""Work in git worktrees: a branch per thread, its changes in the answer, and nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from packages.swarm_runner.tests.conftest import Office, fake
from swarm_runner.workdirs import GitFailed, Workdirs

AUTHOR = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


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


def workdirs(tmp_path: Path, repo: str | None, base: str | None = None) -> Workdirs:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return Workdirs(tmp_path / "runner", "wim", repo=repo, shared=None, environment=environment, base=base)


@pytest.mark.long
@pytest.mark.req("RUN-02", "SEC-08")
@pytest.mark.parametrize("sandbox", [False, True])
async def test_the_answer_names_the_branch_and_its_changes_and_shows_the_diff(
    office: Office, repository: Path, *, sandbox: bool
) -> None:
    if sandbox and not shutil.which("bwrap"):
        pytest.skip("NOT TESTED HERE: bubblewrap is not installed")
    await office.start(fake("works"), repo=str(repository), show_diff=True, sandbox=sandbox)
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
    await office.start(fake("breaks"), repo=str(repository))
    ts, task_id = await office.delegate(task="Write done.txt")
    await office.ended(task_id, "dead")
    await office.says(ts, "exit code 3", "kept in branch swarm/write-done-txt-")
    (worktree,) = (office.folder / "runner" / "work").iterdir()
    assert git(worktree, "status", "--porcelain") == "?? done.txt"


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
    changes = await own.changes(other, "nothing")
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
    git(repository, *NO_HOOKS, "commit", "--quiet", "--message", "More")
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
        await own.changes(workdir, "The work")
    git(repository, "merge", "--quiet", str(merged.branch))
    for workdir in (unchanged, changed, committed, merged):
        os.utime(workdir.path, (time.time() - 100, time.time() - 100))
    assert set(await own.tidy(50)) == {unchanged.path, merged.path}
    assert changed.path.exists()
    assert committed.path.exists()
    assert young.path.exists()
    assert str(unchanged.branch) not in git(repository, "branch")


@pytest.mark.req("RUN-02")
async def test_a_worktree_in_use_is_not_removed_as_an_old_one(tmp_path: Path, repository: Path) -> None:
    own = workdirs(tmp_path, str(repository))
    old = await own.of("one", "one")
    os.utime(old.path, (1, 1))
    (old.path.parent / "gone").symlink_to("nowhere")
    assert await own.of("one", "two") == old
    assert await own.tidy(50) == []
    os.utime(old.path, (1, 1))
    assert await own.tidy(50) == [old.path]


@pytest.mark.req("RUN-02")
async def test_commits_outside_of_a_branch_get_one(tmp_path: Path, repository: Path) -> None:
    own = workdirs(tmp_path, str(repository))
    workdir = await own.of("one", "one")
    git(workdir.path, *NO_HOOKS, "checkout", "--quiet", "--detach")
    (workdir.path / "new").write_text("new\n")
    changes = await own.changes(workdir, "The work")
    assert changes
    assert changes.branch.startswith(f"{workdir.branch}-")
    assert git(repository, "show", f"{changes.branch}:new") == "new"
    again = await own.of("one", "one")
    assert (again.path, again.branch) == (workdir.path, changes.branch)


@pytest.mark.req("RUN-02")
async def test_a_history_of_its_own_is_compared_with_the_commit_at_the_start(tmp_path: Path, repository: Path) -> None:
    own = workdirs(tmp_path, str(repository))
    workdir = await own.of("one", "one")
    git(workdir.path, *NO_HOOKS, "checkout", "--quiet", "--orphan", "anew")
    (workdir.path / "new").write_text("new\n")
    changes = await own.changes(workdir, "The work")
    assert changes
    assert (changes.branch, changes.summary) == ("anew", "1 file changed, 1 insertion(+)")
    assert (await own.of("one", "one")).base == workdir.base


@pytest.mark.req("RUN-02")
async def test_what_is_changed_within_a_submodule_hides_no_other_work(tmp_path: Path, repository: Path) -> None:
    local = ("-c", "protocol.file.allow=always", *NO_HOOKS)
    git(repository, *local, "submodule", "--quiet", "add", repository.as_uri(), "part")
    git(repository, *local, "commit", "--quiet", "--message", "A part")
    own = workdirs(tmp_path, str(repository))
    workdir = await own.of("one", "one")
    git(workdir.path, *local, "submodule", "--quiet", "update", "--init")
    (workdir.path / "part" / "README").write_text("Changed.\n")
    changes = await own.changes(workdir, "The work")
    assert changes
    assert changes.summary == ""
    (workdir.path / "new").write_text("new\n")
    changes = await own.changes(workdir, "The work")
    assert changes
    assert changes.summary == "1 file changed, 1 insertion(+)"
    os.utime(workdir.path, (1, 1))
    assert await own.tidy(50) == []


@pytest.mark.req("RUN-02")
async def test_a_lock_that_another_git_has_left_is_the_reason(tmp_path: Path, repository: Path) -> None:
    own = workdirs(tmp_path, str(repository))
    workdir = await own.of("one", "one")
    (workdir.path / "new").write_text("new\n")
    lock = Path(git(workdir.path, "rev-parse", "--absolute-git-dir")) / "HEAD.lock"
    lock.touch()
    with pytest.raises(GitFailed, match=r"^git commit failed: fatal: .*HEAD.lock': File exists"):
        await own.changes(workdir, "The work")
    lock.unlink()
    assert await own.changes(workdir, "The work")


@pytest.mark.req("RUN-02")
async def test_a_deleted_work_directory_comes_back_with_its_branch(tmp_path: Path, repository: Path) -> None:
    own = workdirs(tmp_path, str(repository))
    workdir = await own.of("one", "one")
    (workdir.path / "new").write_text("new\n")
    await own.changes(workdir, "The work")
    shutil.rmtree(workdir.path)
    with pytest.raises(GitFailed, match="git cannot be started: its folder is gone"):
        await own.changes(workdir, "More")
    assert await own.of("one", "one") == workdir
    assert (workdir.path / "new").read_text() == "new\n"


@pytest.mark.req("RUN-02")
async def test_a_thread_text_is_neither_an_option_nor_a_path(tmp_path: Path, repository: Path) -> None:
    shop = repository.rename(tmp_path / "mein Laden 🛒")
    own = workdirs(tmp_path, str(shop))
    workdir = await own.of("../../T:C", "--upload-pack=touch x; ../../`a` 🛒")
    assert workdir.path.parent == tmp_path / "runner" / "work"
    assert str(workdir.branch).startswith("swarm/upload-pack-touch-x-a-")
    (workdir.path / "--help").write_text("help\n")
    (workdir.path / "🛒\n.txt").write_text("basket\n")
    changes = await own.changes(workdir, "--amend --author=nobody")
    assert changes
    assert changes.summary == "2 files changed, 2 insertions(+)"
    assert git(shop, "log", "--format=%an: %s", "-1", str(workdir.branch)) == "wim: --amend --author=nobody"


@pytest.mark.req("RUN-02")
async def test_a_repository_without_a_commit_is_named_and_used_as_soon_as_it_has_one(
    tmp_path: Path, repository: Path
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "--quiet", "--bare", "--initial-branch", "main")
    for own in (workdirs(tmp_path, str(new)), url := workdirs(tmp_path, new.as_uri())):
        with pytest.raises(GitFailed, match="no commit to begin at"):
            await own.of("one", "one")
    git(repository, "push", "--quiet", str(new), "main")
    assert ((await url.of("one", "one")).path / "README").exists()
    git(new, "branch", "--move", "main", "trunk")
    assert ((await url.of("two", "two")).path / "README").exists()


@pytest.mark.req("RUN-02")
async def test_a_folder_that_is_no_repository_is_named(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="git rev-parse failed"):
        await workdirs(tmp_path, str(tmp_path)).of("one", "one")


@pytest.mark.req("RUN-09")
async def test_a_branch_that_somebody_has_checked_out_is_left_alone(tmp_path: Path, repository: Path) -> None:
    own = workdirs(tmp_path, str(repository))
    workdir = await own.of("one", "one")
    (workdir.path / "new").write_text("new\n")
    await own.changes(workdir, "The work")
    git(repository, "worktree", "remove", str(workdir.path))
    git(repository, *NO_HOOKS, "checkout", "--quiet", str(workdir.branch))
    again = await own.of("one", "one")
    assert again.branch != workdir.branch
    assert str(again.branch).startswith(f"{workdir.branch}-")
    assert (again.path / "new").exists()


@pytest.mark.req("RUN-09")
async def test_a_branch_in_the_way_is_named(tmp_path: Path, repository: Path) -> None:
    git(repository, "branch", "swarm")
    with pytest.raises(GitFailed, match="has a branch `swarm`"):
        await workdirs(tmp_path, str(repository)).of("one", "one")


@pytest.mark.req("RUN-07")
@pytest.mark.parametrize("is_url", [False, True])
async def test_branches_begin_at_the_base(tmp_path: Path, repository: Path, *, is_url: bool) -> None:
    git(repository, *NO_HOOKS, "checkout", "--quiet", "-b", "release")
    (repository / "new").write_text("new\n")
    git(repository, "add", "--all")
    git(repository, *NO_HOOKS, "commit", "--quiet", "--message", "Released")
    git(repository, *NO_HOOKS, "checkout", "--quiet", "main")
    repo = repository.as_uri() if is_url else str(repository)
    workdir = await workdirs(tmp_path, repo, "release").of("one", "one")
    assert (workdir.path / "new").exists()
    assert workdir.base == git(repository, "rev-parse", "release")
    for wrong in ("nowhere", "release:new"):
        with pytest.raises(GitFailed, match=f"no commit '{wrong}'"):
            await workdirs(tmp_path, repo, wrong).of("two", "two")


@pytest.mark.long
@pytest.mark.req("RUN-07", "RUN-09")
async def test_the_diff_and_the_branch_are_shown_once_unless_they_change_and_the_first_card_names_the_base(
    office: Office, repository: Path
) -> None:
    await office.start(fake("works"), repo=str(repository), show_diff=True)
    ts, first = await office.delegate(task="Write done.txt")
    await office.ended(first, "completed")
    begins = git(repository, "rev-parse", "--short=7", "HEAD")
    await office.says(ts, "Branch `swarm/write-done-txt", ".diff", f", which begins at {begins}")
    _, second = await office.delegate(task="Write it again", thread=ts)
    again = await office.ended(second, "completed")
    seen = await office.says(ts)
    assert sum("Branch `swarm/" in one for one in seen) == 1
    assert "Branch `" not in again["result"]
    messages = await office.twin.messages(thread_ts=ts)
    assert sum(".diff" in json.dumps(message) for message in messages) == 1
