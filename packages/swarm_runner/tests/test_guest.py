"""A hostile CLI and a hostile repository: what they try, and what comes of it in the sandbox and without it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from packages.swarm_runner.tests import guest
from packages.swarm_runner.tests.test_worktrees import git
from swarm.domain.errors import ConfigurationError
from swarm_runner.sandbox import STATE, Sandbox
from swarm_runner.settings import RunnerSettings
from swarm_runner.workdirs import GitFailed, Workdir, Workdirs

pytestmark = pytest.mark.req("SEC-08")


def _has_sandbox() -> bool:
    tried = ("bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--dev", "/dev", "--proc", "/proc", "true")
    return shutil.which("bwrap") is not None and subprocess.run(tried, check=False, capture_output=True).returncode == 0


in_sandbox = pytest.mark.skipif(not _has_sandbox(), reason="NOT TESTED HERE: bubblewrap is missing, or cannot run")


@dataclass
class House:
    """A person's machine with a coordinator, two runners and a repository."""

    folder: Path
    user: Path
    swarm: Path
    home: Path  # of the runner
    shop: Path

    def settings(self, **given: Any) -> RunnerSettings:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.user)}
        named = given.pop("environment", {})
        return RunnerSettings(
            name="wim",
            provider=given.pop("provider", f"command:{sys.executable} -I {guest.__file__}"),
            home=self.home,
            url="http://127.0.0.1:1",
            environment=environment | named,
            sandbox=given.pop("sandbox", True),
            private=(self.swarm,),
            **given,
        )

    def workdirs(self, *, sandbox: bool, **given: Any) -> Workdirs:
        settings = self.settings(sandbox=sandbox)
        return Workdirs(
            self.home,
            "wim",
            repo=str(self.shop),
            shared=None,
            environment=settings.environment,
            sandbox=Sandbox(settings) if sandbox else None,
            **given,
        )

    def plays(self, habit: str, workdirs: Workdirs, workdir: Workdir, *, sandbox: bool) -> dict[str, Any]:
        """What the hostile program reports."""
        settings = self.settings(sandbox=sandbox)
        box = Sandbox(settings) if sandbox else None
        argv = [*workdirs.wrap(workdir), sys.executable, "-I", str(guest.__file__), habit, str(self.folder)]
        ran = subprocess.run(
            argv, cwd=workdir.path, env=dict((box or settings).environment), capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return dict(json.loads(ran.stdout))

    @property
    def planted(self) -> list[str]:
        """What has run outside of the sandbox: programs leave a mark there."""
        return sorted(path.name for path in (self.folder / "marks").iterdir())


@pytest.fixture
def house(tmp_path: Path) -> House:
    swarm = tmp_path / "user" / ".swarm"
    house = House(
        folder=tmp_path, user=tmp_path / "user", swarm=swarm, home=swarm / "runners" / "wim", shop=tmp_path / "shop"
    )
    for path, content in guest.SECRETS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "marks").mkdir()
    (house.user / ".gitconfig").write_text(
        '[user]\n\tname = "Ann \\"A\\" B"\n\temail = ann@example.org\n[credential]\n\thelper = secret-helper\n'
    )
    house.shop.mkdir()
    git(house.shop, "init", "--quiet", "--initial-branch", "main")
    git(house.shop, "config", "http.extraheader", "AUTHORIZATION: secret-of-the-repository")
    (house.shop / "README").write_text("A shop.\n")
    git(house.shop, "add", "--all")
    git(house.shop, "commit", "--quiet", "--message", "The shop opens")
    return house


@in_sandbox
async def test_in_the_sandbox_no_secret_of_anybody_is_read(house: House) -> None:
    workdirs = house.workdirs(sandbox=True)
    workdir = await workdirs.of("T:C:1.0", "Look")
    assert house.plays("reads", workdirs, workdir, sandbox=True)["read"] == []
    without = house.workdirs(sandbox=False)
    plain = await without.of("T:C:1.0", "Look")
    assert len(house.plays("reads", without, plain, sandbox=False)["read"]) >= len(guest.SECRETS)  # the documented rest


@in_sandbox
async def test_in_the_sandbox_the_login_is_shared_and_the_settings_are_not(house: House) -> None:
    settings = house.settings(provider="claude")
    box = Sandbox(settings)
    work = house.home / "work"
    work.mkdir(exist_ok=True)
    login, others = "$CLAUDE_CONFIG_DIR/.credentials.json", "$CLAUDE_CONFIG_DIR/settings.json"
    script = f"cat {login} {others}; echo new > {login}"
    ran = subprocess.run(
        [*box.wrap([work]), "sh", "-c", script], env=box.environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "login-of-ann{}\n"
    assert (house.user / ".claude/.credentials.json").read_text() == "new\n"


@in_sandbox
async def test_what_a_guest_plants_in_the_state_of_its_cli_is_no_setting_of_a_later_run(house: House) -> None:
    workdirs = house.workdirs(sandbox=True)
    workdir = await workdirs.of("T:C:1.0", "Plant")
    assert house.plays("plants_state", workdirs, workdir, sandbox=True)["written"] == ["session"]
    assert house.plays("reads_state", workdirs, workdir, sandbox=True)["read"] == ["session"]


@in_sandbox
@pytest.mark.long
@pytest.mark.parametrize("plant", guest.GIT_PLANTS)
async def test_nothing_that_a_guest_plants_in_git_runs_outside_of_the_sandbox(house: House, plant: str) -> None:
    workdirs = house.workdirs(sandbox=True)
    workdir = await workdirs.of("T:C:1.0", "Plant")
    house.plays(f"plants_{plant}", workdirs, workdir, sandbox=True)
    with contextlib.suppress(GitFailed):  # of a repository that is broken by now
        await workdirs.changes(workdir, "The work")
    await workdirs.of("T:C:2.0", "Next")
    os.utime(workdir.path, (1, 1))
    await workdirs.tidy(50)
    git(house.shop, "status")  # by the person
    git(house.shop, "branch", "--list")
    assert house.planted == []
    assert git(house.shop, "config", "--list", "--local").count("touch") == 0


@in_sandbox
async def test_the_work_of_a_sandbox_is_a_branch_of_the_repository(house: House) -> None:
    workdirs = house.workdirs(sandbox=True)
    workdir = await workdirs.of("T:C:1.0", "Write it")
    house.plays("works", workdirs, workdir, sandbox=True)
    changes = await workdirs.changes(workdir, "The work")
    assert changes
    assert changes.summary == "2 files changed, 2 insertions(+)"
    assert git(house.shop, "show", f"{changes.branch}:done.txt") == "done"
    assert git(house.shop, "log", "--format=%an", f"main..{changes.branch}").split("\n") == ["wim", 'Ann "A" B']
    assert await workdirs.of("T:C:1.0", "Write it") == workdir
    git(house.shop, "branch", "--force", str(changes.branch), "main^{commit}")
    git(house.shop, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--allow-empty", "--message", "Other")
    git(house.shop, "branch", "--force", str(changes.branch), "main")  # somebody else has moved it
    again = await workdirs.changes(workdir, "The work")
    assert again
    assert again.branch.startswith(f"{workdir.branch}-")
    assert git(house.shop, "show", f"{again.branch}:done.txt") == "done"


@in_sandbox
async def test_a_new_clone_goes_on_with_the_branch_of_its_thread(house: House) -> None:
    workdirs = house.workdirs(sandbox=True)
    workdir = await workdirs.of("T:C:1.0", "Write it")
    house.plays("works", workdirs, workdir, sandbox=True)
    await workdirs.changes(workdir, "The work")
    assert await workdirs.of("T:C:1.0", "And test it") == workdir  # a later task of the thread
    shutil.rmtree(workdir.path)
    again = await workdirs.of("T:C:1.0", "And document it")
    assert (again.path / "done.txt").read_text() == "done\n"
    assert again == workdir


@in_sandbox
async def test_what_a_guest_leaves_stops_no_other_thread_and_can_be_removed(house: House) -> None:
    workdirs = house.workdirs(sandbox=True)
    left = []
    for number, habit in enumerate(("leaves_pipes", "leaves_depths")):
        left.append(await workdirs.of(f"T:C:{number}.0", "Leave"))
        house.plays(habit, workdirs, left[-1], sandbox=True)
    os.utime(left[0].path, (1, 1))
    tidying = asyncio.create_task(workdirs.tidy(50))
    assert (await workdirs.of("T:C:2.0", "Next")).path.exists()
    assert not tidying.done()
    tidying.cancel()
    await asyncio.wait({tidying})
    (left[0].path / ".gitignore").unlink()
    again = await workdirs.of("T:C:1.0", "Leave")
    assert again == left[1]
    os.utime(again.path, (1, 1))
    assert await workdirs.tidy(50) == [again.path]


@in_sandbox
async def test_a_repository_that_borrows_its_objects_can_be_used(house: House) -> None:
    git(house.folder, "clone", "--quiet", "--shared", str(house.shop), "borrowed")
    house.shop = house.folder / "borrowed"
    assert ((await house.workdirs(sandbox=True).of("T:C:1.0", "Look")).path / "README").exists()


@pytest.mark.long
@pytest.mark.parametrize("plant", guest.GIT_PLANTS)
async def test_without_a_sandbox_what_is_planted_in_git_is_not_run_by_the_runner(house: House, plant: str) -> None:
    workdirs = house.workdirs(sandbox=False)
    workdir = await workdirs.of("T:C:1.0", "Plant")
    house.plays(f"plants_{plant}", workdirs, workdir, sandbox=False)
    for mark in (house.folder / "marks").iterdir():  # of the guest's own git
        mark.unlink()
    for act in (
        lambda: workdirs.changes(workdir, "The work"),
        lambda: workdirs.of("T:C:2.0", "Next"),
        lambda: workdirs.of("T:C:1.0", "Again"),
    ):
        with contextlib.suppress(GitFailed):
            await act()
    os.utime(workdir.path, (1, 1))
    await workdirs.tidy(50)
    assert house.planted == []


async def test_filters_of_a_trusted_repository_run(house: House) -> None:
    git(house.shop, "config", "hook.mark.command", "touch x")  # of newer versions of git
    with pytest.raises(GitFailed, match=r"hook\.mark\.command"):
        await house.workdirs(sandbox=False).of("T:C:1.0", "Look")
    git(house.shop, "config", "--remove-section", "hook.mark")
    git(house.shop, "config", "filter.mark.clean", f"touch {house.folder}/marks/filter; cat")
    (house.shop / ".git" / "info" / "attributes").write_text("* filter=mark\n")
    with pytest.raises(GitFailed, match=r"filter\.mark\.clean"):
        await house.workdirs(sandbox=False).of("T:C:1.0", "Look")
    workdirs = house.workdirs(sandbox=False, trusted=True)
    workdir = await workdirs.of("T:C:1.0", "Look")
    (workdir.path / "new").write_text("new\n")
    assert await workdirs.changes(workdir, "The work")
    assert house.planted == ["filter"]


@pytest.mark.parametrize("name", [name for name in STATE if name != "HOME"])
def test_the_state_folder_of_a_person_cannot_be_named_for_the_sandbox(house: House, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Sandbox(house.settings(environment={name: str(house.user)}))


@pytest.mark.parametrize("folder", ["", "user", "user/.swarm", "user/.swarm/runners", "user/.swarm/runners/wim"])
def test_a_folder_with_secrets_in_it_cannot_be_shown(house: House, folder: str) -> None:
    for named in ({"workdir": house.folder / folder}, {"readable": (house.folder / folder,)}):
        with pytest.raises(ConfigurationError, match="would show"):
            Sandbox(house.settings(**named))


async def test_git_maintains_no_repository_for_us(house: House) -> None:
    """Its maintenance would run programs that the settings name."""
    git(house.shop, "config", "maintenance.commit-graph.enabled", "true")
    git(house.shop, "config", "maintenance.commit-graph.auto", "-1")
    workdirs = house.workdirs(sandbox=False)
    workdir = await workdirs.of("T:C:1.0", "Write it")
    (workdir.path / "new").write_text("new\n")
    assert await workdirs.changes(workdir, "The work")
    assert not (house.shop / ".git/objects/info/commit-graphs").exists()


@in_sandbox
@pytest.mark.parametrize("mark", ["package.json", "lib"])
def test_a_program_in_a_checkout_is_shown_without_the_checkout(house: House, mark: str) -> None:
    (house.shop / "bin").mkdir()
    (house.shop / mark).mkdir()
    program = house.shop / "bin" / "answer"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    box = Sandbox(house.settings(provider=f"command:{program}"))
    script = f"ls {program} {house.shop}/.git/config"
    ran = subprocess.run([*box.wrap([]), "sh", "-c", script], env=box.environment, capture_output=True, check=False)
    assert ran.stdout.decode().split() == [str(program)]


@in_sandbox
def test_a_folder_with_secrets_is_not_shown_because_a_command_or_a_variable_names_it(house: House) -> None:
    settings = house.settings(provider=f"command:cat {house.user}", environment={"SSL_CERT_DIR": str(house.user)})
    box = Sandbox(settings)
    script = ["cat", str(house.user / ".ssh/id_ed25519")]
    assert subprocess.run([*box.wrap([]), *script], env=box.environment, capture_output=True, check=False).stdout == b""
