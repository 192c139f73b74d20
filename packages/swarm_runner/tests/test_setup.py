"""A worktree that can build: copies of ignored files, and a set-up command before the CLI."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from packages.swarm_runner.tests.conftest import Office, fake
from packages.swarm_runner.tests.test_command import environment, started
from packages.swarm_runner.tests.test_guest import in_sandbox
from packages.swarm_runner.tests.test_worktrees import NO_HOOKS, git
from swarm_runner.conversation import RunContext
from swarm_runner.environment import not_included
from swarm_runner.port import StepShown
from swarm_runner.sandbox import Sandbox
from swarm_runner.settings import RunnerSettings
from swarm_runner.setup import SetupFailed, set_up
from swarm_runner.workdirs import Changes, Workdir, Workdirs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("RUN-07")

in_gate_sandboxed = pytest.mark.parametrize(
    "sandbox",
    [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=in_sandbox)],
    ids=["plain", "sandboxed"],
)
both = pytest.mark.parametrize("sandbox", [False, pytest.param(True, marks=in_sandbox)], ids=["plain", "sandboxed"])


@dataclass
class Shown:
    """What a run shows and logs."""

    steps: list[StepShown] = field(default_factory=list)
    text: str = ""

    def step(self, step: StepShown) -> None:
        self.steps.append(step)

    def status(self, words: str) -> None:
        pass

    def log(self, line: str) -> None:
        self.log_text(f"{line}\n")

    def log_text(self, text: str) -> None:
        self.text += text


@dataclass
class Shop:
    """A person's checkout, and the runner's folder beside it."""

    folder: Path
    checkout: Path
    shown: Shown = field(default_factory=Shown)
    sandbox: bool = False
    changed: dict[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> RunContext:
        settings = RunnerSettings(
            name="wim",
            provider="command:true",
            home=self.folder / "runner",
            url="http://127.0.0.1:1",
            repo=str(self.checkout),
            environment={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            sandbox=self.sandbox,
        )
        settings = replace(settings, **self.changed)
        box = Sandbox(settings) if self.sandbox else None
        workdirs = Workdirs(
            settings.home,
            "wim",
            repo=settings.repo,
            shared=None,
            environment=settings.environment,
            sandbox=box,
            trusted=settings.trust_repository,
            base=settings.base,
        )
        none = cast("Any", None)
        return RunContext(
            settings=settings,
            coordinator=none,
            door=none,
            sessions=none,
            workdirs=workdirs,
            sandbox=box,
            accounts=none,
            slots=none,
        )

    async def ready(self, key: str = "T:C:1.0", **changed: Any) -> Workdir:
        """The worktree of a thread, set up."""
        self.changed = changed
        context = self.context
        workdir = await context.workdirs.of(key, "Fix it")
        await set_up(context, workdir, cast("Any", self.shown))
        return workdir

    async def changes(self, workdir: Workdir) -> Changes:
        found = await self.context.workdirs.changes(workdir, "The work")
        assert found
        return found

    def write(self, name: str, content: str = "", mode: int = 0o644) -> Path:
        path = self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
        return path

    def commit(self) -> None:
        git(self.checkout, "add", "--all")
        git(self.checkout, *NO_HOOKS, "commit", "--quiet", "--message", "More")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, tmp_path / "shop")
    shop.checkout.mkdir()
    git(shop.checkout, "init", "--quiet", "--initial-branch", "main")
    shop.write(".gitignore", ".env*\n*.local\nconfig/\nlib/\nbuilt\n")
    shop.write("README", "A shop.\n")
    shop.commit()
    return shop


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.name != ".git"}


@in_gate_sandboxed
async def test_files_that_patterns_name_are_copied_with_their_modes_and_nothing_else(
    shop: Shop, *, sandbox: bool
) -> None:
    shop.sandbox = sandbox
    shop.write(".env", "KEY=s3cret\n", 0o600)
    shop.write("a/é b.local", "b\n", 0o755)
    shop.write("a/not.local")
    shop.write("config/deep/one", "1\n")
    shop.write("config/deep/two")
    shop.write(".env.production", "never")
    workdir = await shop.ready(include=(".env", "*.local", "!not.local", "/config/deep/o*", "README"))
    found = {name for name in names(workdir.path) if not name.startswith(".git/")}
    assert found == {".gitignore", "README", ".env", "a/é b.local", "config/deep/one"}
    assert [(workdir.path / name).stat().st_mode & 0o777 for name in (".env", "a/é b.local")] == [0o600, 0o755]
    assert (workdir.path / ".env").read_text() == "KEY=s3cret\n"
    assert "copied 3 ignored files (15 bytes) from the checkout] .env, a/é b.local, config/deep/one" in shop.shown.text


async def test_no_link_is_followed_or_copied_and_a_repository_of_its_own_stays_out(shop: Shop) -> None:
    (shop.folder / "outside").mkdir()
    (shop.folder / "outside" / "x.local").write_text("secret of the machine")
    (shop.checkout / "link.local").symlink_to(shop.folder / "outside" / "x.local")
    (shop.checkout / "lib").symlink_to(shop.folder / "outside")
    os.mkfifo(shop.checkout / "pipe.local")
    shop.write("other/x.local", "mine")
    git(shop.checkout, "init", "--quiet", "other.local")
    shop.write("other.local/x.local")
    workdir = await shop.ready(include=("*.local", "lib", "lib/*"))
    assert {name for name in names(workdir.path) if "local" in name} == {"other/x.local"}
    assert not (workdir.path / "lib").exists()
    assert "copied 1 ignored file (4 bytes) from the checkout; left out 3 links or folders" in shop.shown.text


@in_gate_sandboxed
async def test_a_link_of_the_branch_leads_no_copy_out_of_the_worktree(shop: Shop, *, sandbox: bool) -> None:
    shop.sandbox = sandbox
    outside = shop.folder / "outside"
    outside.mkdir()
    git(shop.checkout, "checkout", "--quiet", "-b", "evil")
    (shop.checkout / "config").symlink_to(outside)
    git(shop.checkout, "add", "--force", "config")
    git(shop.checkout, *NO_HOOKS, "commit", "--quiet", "--message", "A trap")
    git(shop.checkout, "checkout", "--quiet", "main")
    shop.write("config/key", "s3cret")
    with pytest.raises(SetupFailed, match=r"`config/key` cannot be copied .* in place of a folder"):
        await shop.ready(include=("config/",), base="evil")
    assert list(outside.iterdir()) == []


async def test_what_the_branch_has_itself_stays(shop: Shop) -> None:
    git(shop.checkout, "checkout", "--quiet", "-b", "own")
    shop.write(".env", "of the branch")
    git(shop.checkout, "add", "--force", ".env")
    git(shop.checkout, *NO_HOOKS, "commit", "--quiet", "--message", "Its own")
    git(shop.checkout, "checkout", "--quiet", "main")
    shop.write(".env", "of the person")
    shop.write("x.local")
    workdir = await shop.ready(include=(".env", "*.local"), base="own")
    assert (workdir.path / ".env").read_text() == "of the branch"
    assert (workdir.path / "x.local").exists()


@both
@pytest.mark.parametrize("ignored_by", ["nothing", ".git/info/exclude", "a .gitignore that is not committed"])
async def test_what_a_commit_would_contain_is_refused_and_not_left_there(
    shop: Shop, ignored_by: str, *, sandbox: bool
) -> None:
    shop.sandbox = sandbox
    shop.write("plain", "s3cret")
    if ignored_by.startswith("."):
        shop.write(ignored_by, "plain\n")
    elif ignored_by.startswith("a"):
        shop.write(".gitignore", "plain\n")
    if ignored_by.startswith(".") and not sandbox:  # which counts for worktrees
        assert ((await shop.ready(include=("plain",))).path / "plain").exists()
        return
    with pytest.raises(SetupFailed, match="`plain` cannot be copied: git does not ignore it"):
        await shop.ready(include=("plain",))
    assert not list((shop.folder / "runner").rglob("plain"))


async def test_a_pattern_that_names_nothing_is_refused(shop: Shop) -> None:
    with pytest.raises(SetupFailed, match=r"no untracked file of the repository matches --include \.evn README"):
        await shop.ready(include=(".evn", "README"))


async def test_a_folder_of_the_swarm_in_the_checkout_is_never_copied(shop: Shop) -> None:
    shop.write(".env.swarm/.env", "SLACK_BOT_TOKEN=s3cret")
    shop.write(".env.swarm/runners/wim/token", "s3cret")
    shop.write(".env", "mine")
    shop.write(".gitignore", ".env*\n")
    shop.commit()
    home = shop.checkout / ".env.swarm"
    workdir = await shop.ready(include=(".env", ".env.swarm/"), private=(home,), home=home / "runners" / "wim")
    assert names(workdir.path) == {".gitignore", "README", ".env"}


@in_gate_sandboxed
async def test_a_diff_never_contains_a_copy_whatever_the_cli_does(shop: Shop, *, sandbox: bool) -> None:
    shop.sandbox = sandbox
    shop.write(".env", "s3cret")
    shop.write("x.local", "s3cret")
    options: dict[str, Any] = {"include": (".env", "*.local")}
    workdir = await shop.ready(**options)
    (workdir.path / "done").write_text("done\n")
    changes = await shop.changes(workdir)
    assert changes.summary == "1 file changed, 1 insertion(+)"
    (workdir.path / ".gitignore").write_text("")  # no longer ignored
    changes = await shop.changes(workdir)
    assert changes.summary.startswith("2 files changed")
    assert "s3cret" not in changes.diff
    assert "s3cret" not in git(shop.checkout, "log", "-p", str(changes.branch))
    again = await shop.changes(workdir)
    assert again == changes
    git(workdir.path, "add", ".env")
    git(workdir.path, *NO_HOOKS, "commit", "--quiet", "--message", "All of it")
    changes = await shop.changes(workdir)
    assert "Do not push it: it contains `.env`, which git should ignore" in changes.summary
    assert changes.diff == ""


async def test_a_checkout_is_copied_from_its_top_whatever_folder_of_it_is_named(shop: Shop) -> None:
    shop.write(".env")
    shop.write("part/x")
    shop.commit()
    workdir = await shop.ready(include=("/.env",), repo=str(shop.checkout / "part"))
    assert (workdir.path / ".env").exists()


async def test_a_repository_without_a_checkout_has_nothing_to_copy(shop: Shop) -> None:
    git(shop.folder, "clone", "--quiet", "--bare", str(shop.checkout), "bare.git")
    with pytest.raises(SetupFailed, match="no checkout"):
        await shop.ready(include=(".env",), repo=str(shop.folder / "bare.git"))
    await shop.ready(setup="touch built", repo=str(shop.folder / "bare.git"), trust_repository=True)


async def test_the_list_of_a_repository_counts_only_if_it_is_trusted(shop: Shop) -> None:
    shop.write(".env")
    shop.write(".env.local")
    shop.write(".worktreeinclude", "# what a build needs\n\n.env\n")
    assert "--include" in not_included(str(shop.checkout), trusted=False)
    assert not_included(str(shop.checkout), trusted=True) == not_included(str(shop.folder), trusted=False) == ""
    assert not ((await shop.ready()).path / ".env").exists()
    assert ((await shop.ready("T:C:2.0", trust_repository=True)).path / ".env").exists()
    both = await shop.ready("T:C:3.0", trust_repository=True, include=("*.local", "!/.env"))
    assert {".env.local"} == {name for name in names(both.path) if ".env" in name}
    (shop.checkout / ".worktreeinclude").rename(shop.folder / "list")
    (shop.checkout / ".worktreeinclude").symlink_to(shop.folder / "list")
    assert not ((await shop.ready("T:C:4.0", trust_repository=True)).path / ".env").exists()


@in_gate_sandboxed
async def test_a_worktree_is_set_up_once_and_again_after_a_failure_a_change_or_its_loss(
    shop: Shop, *, sandbox: bool
) -> None:
    shop.sandbox = sandbox
    shop.write(".env", "exit 3")
    options: dict[str, Any] = {"include": (".env",), "setup": "echo run >> built; . ./.env"}
    for _ in range(2):
        with pytest.raises(SetupFailed, match="ended with exit code 3"):
            await shop.ready(**options)
    shop.write(".env", "exit 0")  # copied again, since nobody has worked there
    for _ in range(2):
        workdir = await shop.ready(**options)
    assert (workdir.path / "built").read_text() == "run\n" * 3
    shop.write(".env", "exit 4")  # later changes do not count
    (workdir.path / ".env").write_text("true # changed by the agent")
    await shop.ready(**options | {"setup": ". ./.env; echo changed >> built"})
    assert (workdir.path / "built").read_text() == "run\n" * 3 + "changed\n"
    shutil.rmtree(workdir.path)
    shop.write(".env", "true")
    await shop.ready(**options)
    assert (workdir.path / "built").read_text() == "run\n"
    assert (await shop.changes(workdir)).summary == ""
    os.utime(workdir.path, (1, 1))
    assert await shop.context.workdirs.tidy(50) == [workdir.path]
    workdir = await shop.ready(**options)
    assert (workdir.path / "built").read_text() == "run\n"


@both
async def test_a_set_up_that_hangs_is_ended_by_its_limit_or_a_stop_with_all_its_processes(
    shop: Shop, *, sandbox: bool
) -> None:
    shop.sandbox = sandbox
    hangs = "echo Begun; sleep 1000 & (setsid sleep 1000 &) ; wait"
    with pytest.raises(SetupFailed, match=r"did not end within 0\.01 minutes: Begun"):
        await shop.ready(setup=hangs, setup_seconds=0.6)
    run = asyncio.create_task(shop.ready(setup=f"{hangs} # {shop.folder.name}"))

    async def has_begun() -> bool:
        return shop.shown.text.count("Begun\n") == 2

    await wait_until(has_begun, what="the set-up runs")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert _running(str(shop.folder)) == []


def _running(folder: str) -> list[str]:
    """The processes that work in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            cwd = str((entry / "cwd").readlink())
        except OSError:
            continue
        if cwd.startswith(folder):
            found.append(cwd)
    return found


@both
async def test_a_set_up_has_the_caches_of_the_runner_and_a_log_that_people_can_read(
    shop: Shop, *, sandbox: bool
) -> None:
    shop.sandbox = sandbox
    command = r'echo "in $XDG_CACHE_HOME"; mkdir -p "$XDG_CACHE_HOME"; echo x > "$XDG_CACHE_HOME/x"; pwd; (sleep 99 &)'
    workdir = await shop.ready(setup=rf"printf 'a 10%%\ra \033[31m100%%\033[m\n' >&2; {command}")
    (made,) = (shop.folder / "runner").rglob("x")
    assert shop.shown.text.splitlines()[1:] == ["a 100%", f"in {made.parent}", str(workdir.path)]
    assert [step.title for step in shop.shown.steps] == []


async def test_of_a_flood_the_log_has_the_beginning_and_the_end(shop: Shop) -> None:
    with pytest.raises(SetupFailed, match="the last line"):
        await shop.ready(setup="echo the first line; yes | head -c 20000000; echo the last line; exit 1")
    assert len(shop.shown.text) < 5_000_000  # of 20 million
    assert "the first line\n" in shop.shown.text
    assert "(Output is left out here.)\n" in shop.shown.text
    assert shop.shown.text.endswith("the last line\n[set-up] " + shop.shown.text.rpartition("[set-up] ")[2])


async def test_what_a_set_up_makes_and_git_does_not_ignore_is_named(shop: Shop) -> None:
    await shop.ready(setup="mkdir modules; touch modules/a modules/b; echo changed >> README; touch built")
    (step,) = shop.shown.steps
    assert step.title.startswith("the set-up changed modules/a and 2 more, which git does not ignore")


@pytest.mark.long
async def test_a_set_up_that_fails_is_said_before_the_cli_starts_and_runs_again(office: Office, shop: Shop) -> None:
    command = "echo 'fetching'; echo 'no such package: tea' >&2; test -e $HOME/fixed || exit 7"
    await office.start(fake("works"), repo=str(shop.checkout), setup=command)
    ts, task_id = await office.delegate(task="Write done.txt")
    await office.ended(task_id, "dead")
    await office.says(ts, "the set-up command ended with exit code 7: fetching / no such package: tea", "Retry")
    (worktree,) = (office.folder / "runner" / "work").iterdir()
    assert not (worktree / "done.txt").exists()
    log = await office.stage.processes.command("logs", task_id, env=office.stage.environment)
    assert "fetching\nno such package: tea\n[set-up] ended with exit code 7" in log.out
    (office.folder / "fixed").touch()
    ts, task_id = await office.delegate(thread=ts)
    await office.ended(task_id, "completed")
    assert (worktree / "done.txt").exists()


@pytest.mark.long
async def test_people_see_a_long_set_up_and_can_stop_it(office: Office, shop: Shop) -> None:
    await office.start(fake("works"), repo=str(shop.checkout), setup="sleep 1000")
    ts, task_id = await office.delegate(task="Write done.txt")

    async def is_seen() -> bool:
        return "running the set-up command" in json.dumps(await office.twin.messages(thread_ts=ts))

    await wait_until(is_seen, what="people see the set-up")
    await office.twin.say("!stop", thread=ts)
    await office.ended(task_id, "cancelled")
    await office.gone()


@pytest.mark.long
async def test_a_runner_that_is_killed_in_a_set_up_runs_it_again(office: Office, shop: Shop) -> None:
    command = 'echo run >> built; echo $$ > $HOME/begun; while [ ! -e "$GO" ]; do sleep 0.05; done'
    options = ("--repo", str(shop.checkout), "--setup", command, "--trust-repository")
    runner = started(office, "works", *options)
    await office.online()
    _, task_id = await office.delegate(task="Write done.txt")

    async def has_begun() -> bool:
        return (office.folder / "begun").exists()

    await wait_until(has_begun, what="the set-up runs", within_seconds=30)
    runner.kill()
    await office.gone()
    (office.folder / "go").touch()
    started(office, "works", *options)
    await office.ended(task_id, "completed", within_seconds=120)
    (built,) = (office.folder / "swarm").rglob("built")
    assert built.read_text() == "run\n" * 2


@pytest.mark.long
@both
async def test_a_test_that_needs_an_ignored_file_and_a_package_succeeds_with_one_command_line(
    office: Office, shop: Shop, *, sandbox: bool
) -> None:
    packages = office.folder / "packages"
    packages.mkdir()
    _wheel(packages, "price")
    shop.write("test.py", "import price, pathlib\nprint('Sum', price.of(pathlib.Path('.env').read_text()))\n")
    shop.write(".worktreeinclude", "*.nothing\n")
    shop.commit()
    shop.write(".env", "20")
    python = shlex.quote(sys.executable)
    install = f"{python} -m pip install --no-index --find-links {packages} --target lib price"
    office.environment |= {"PYTHONPATH": "lib", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    seen = [str(packages), sys.base_prefix, sys.prefix]
    options = ["--sandbox", *(word for one in seen for word in ("--readable", one))]
    runner = office.stage.processes.fork(
        "run", "swarm.cli.main", "run", office.name, "--provider", f"command:{python} test.py",
        "--env", "RUNNER_MARK", "--env", "PYTHONPATH", "--env", "PIP_DISABLE_PIP_VERSION_CHECK",
        "--repo", str(shop.checkout), "--include", ".env", "--setup", install,
        *(options if sandbox else ["--trust-repository"]), env=environment(office),
    )  # fmt: skip
    await runner.says("is connected to")
    await office.online()
    assert ("The repository's .worktreeinclude does not count" in runner.output) == sandbox
    ts, task_id = await office.delegate(task="Run the test")
    await office.ended(task_id, "completed", within_seconds=90)
    await office.says(ts, "Sum 42", "copied 1 ignored file (2 bytes)")
    log = await office.stage.processes.command("logs", task_id, env=office.stage.environment)
    assert "Successfully installed price-1.0" in log.out
    runner.send(signal.SIGTERM)
    assert await runner.exit_code(15) == 0


def _wheel(folder: Path, name: str) -> None:
    """Makes a package."""
    about = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "def of(text):\n    return int(text) + 22\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
        wheel.writestr(f"{about}/RECORD", "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD")))


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--include", ".env"], "--include needs --repo with a folder"),
        (["--include", ".env", "--repo", "https://example.org/shop.git"], "--include needs --repo with a folder"),
        (["--setup", "true"], "--setup needs --repo"),
    ],
)
async def test_an_option_that_is_not_possible_is_refused(office: Office, arguments: list[str], words: str) -> None:
    ended = await office.stage.processes.command(
        "run", office.name, "--provider", "command:true", *arguments, env=environment(office)
    )
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert words in ended.err
