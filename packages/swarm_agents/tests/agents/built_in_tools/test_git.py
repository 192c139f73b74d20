"""What the git tool does for an agent: its work in a repository, with a remote that is real."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from jsonschema import Draft202012Validator

from packages.swarm_agents.tests.agents.built_in_tools.git_places import Place, template_in
from swarm_agents.built_in_tools.git.repository import GitOptions
from swarm_agents.built_in_tools.git.tool import git_tool
from swarm_agents.toolbox.approval_rules import ApprovalRules
from swarm_agents.toolbox.tool import ToolAnswer
from swarm_base.processes.captured import clean_environment
from tests.support.git_server import git_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("TOOL-01")

_HTTP = GitOptions(protocols=["http"])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository to be copied."""
    return template_in(tmp_path_factory.mktemp("template"))


@pytest.fixture
def place(tmp_path: Path, template: Path) -> Place:
    """A copy of it, with its surroundings."""
    return Place(tmp_path, template=template)


@pytest.fixture
def served(place: Place) -> Iterator[Place]:
    """A copy whose remote "origin" is served over HTTP: the bare repository ``up.git`` outside of it."""
    place.git("clone", "-q", "--bare", ".", str(place.outside / "up.git"))
    with git_server(place.outside) as address:
        place.git("remote", "add", "origin", f"{address}/up.git")
        yield place


def _upstream_moves(place: Place, name: str, content: str) -> None:
    """Somebody else pushes a commit."""
    clone = place.outside / "clone"
    place.git("clone", "-q", str(place.outside / "up.git"), str(clone))
    (clone / name).write_text(content)
    place.git("add", ".", at=clone)
    place.git("commit", "-q", "-m", "theirs", at=clone)
    place.git("push", "-q", "origin", "main", at=clone)


def _upstream(place: Place, revision: str = "main") -> str:
    return place.git("log", "-1", "--format=%s", revision, at=place.outside / "up.git").strip()


def test_the_tool_is_described(place: Place) -> None:
    tool = git_tool(place.root, env={})
    assert tool.name == "git"
    Draft202012Validator.check_schema(tool.parameters)
    for name in ["status", "add", "commit", "push", "log", "diff", "branch", "checkout", "pull", "fetch", "stash"]:
        assert name in tool.parameters["properties"]["subcommand"]["enum"]


async def test_an_agent_looks_changes_and_commits(place: Place) -> None:
    assert (await place.say("status", "-s")).text == " M a.txt"
    assert "-one\n+changed" in (await place.say("diff")).text
    assert (await place.say("add", "a.txt")) == ToolAnswer(text="git add succeeded and printed nothing.")
    assert "+changed" in (await place.say("diff", "--staged", "--", "a.txt")).text
    assert "1 file changed" in (await place.say("commit", "-m", "my change")).text
    assert (await place.say("log", "-1", "--format=%an <%ae> %s")).text == "swarm <swarm@localhost> my change"


async def test_an_agent_works_with_branches_and_stashes(place: Place) -> None:
    assert not (await place.say("stash", "push", "-m", "later")).failed
    assert "later" in (await place.say("stash", "list")).text
    assert "a.txt" in (await place.say("stash", "show")).text
    assert not (await place.say("checkout", "-b", "new", "other")).failed
    assert (await place.say("branch", "--show-current")).text == "new"
    assert not (await place.say("checkout", "-")).failed
    assert not (await place.say("branch", "made")).failed
    assert not (await place.say("branch", "-m", "made", "moved")).failed
    assert "moved" in (await place.say("branch", "-vv")).text
    assert not (await place.say("branch", "-d", "moved")).failed
    assert not (await place.say("stash", "pop")).failed
    assert (place.root / "a.txt").read_text() == "changed\n"
    assert not (await place.say("checkout", "HEAD", "--", "a.txt")).failed
    assert (place.root / "a.txt").read_text() == "one\n"


async def test_a_subfolder_is_where_paths_begin(place: Place) -> None:
    (place.root / "src/new.txt").write_text("new")
    assert (await place.say("add", "new.txt", "../a.txt", at="src")).failed is False
    assert (await place.say("status", "-s", "-uno")).text == "M  a.txt\nA  src/new.txt"


async def test_the_operator_names_the_author(place: Place) -> None:
    options = GitOptions(author_name="Ada", author_email="ada@example.org")
    await place.say("commit", "-am", "x", "--author", "Bob <bob@example.org>", options=options)
    assert place.git("log", "-1", "--format=%an %ae %cn %ce") == "Bob bob@example.org Ada ada@example.org\n"


async def test_a_failure_says_what_git_said_and_what_to_do(place: Place) -> None:
    answer = await place.say("checkout", "a.txt")
    assert answer.failed
    assert "invalid reference: a.txt" in answer.text
    assert answer.text.endswith("If you meant a path: paths come after an argument '--'.")


async def test_long_output_is_cut(place: Place) -> None:
    (place.root / "a.txt").write_text("".join(f"{number}\n" for number in range(100_000)))
    answer = await place.say("diff", options=GitOptions(most_bytes=2_000))
    assert "bytes left out" in answer.text
    assert len(answer.text) < 2_200


async def test_names_beyond_ascii_are_readable(place: Place) -> None:
    (place.root / "Grüße.txt").write_text("x")
    assert "Grüße.txt" in (await place.say("status", "-s")).text


async def test_calls_of_one_turn_do_not_get_in_each_others_way(place: Place) -> None:
    """Git refuses a second one while the first holds the index."""
    for number in range(6):
        (place.root / f"new{number}").write_text("x")
    tool = git_tool(place.root, env={"PATH": os.environ["PATH"]})
    calls = [tool.call({"subcommand": "add", "args": [f"new{number}"]}) for number in range(6)]
    assert not [answer for answer in await asyncio.gather(*calls) if answer.failed]
    assert place.git("diff", "--cached", "--name-only").split() == [f"new{number}" for number in range(6)]


async def test_a_linked_work_tree_within_the_tree_is_a_repository(place: Place) -> None:
    place.git("worktree", "add", "-q", "linked", "other")
    assert (await place.say("branch", "--show-current", at="linked")).text == "other"
    (place.root / "linked/a.txt").write_text("linked\n")
    assert not (await place.say("commit", "-am", "in a linked one", at="linked")).failed
    assert place.git("log", "-1", "--format=%s", "other") == "in a linked one\n"


async def test_a_submodule_that_means_no_harm_is_no_harm(place: Place) -> None:
    place.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(place.root), "sub")
    assert "sub" in (await place.say("status", "-s")).text
    assert not (await place.say("commit", "-m", "with a submodule")).failed
    assert (await place.say("branch", "--show-current", at="sub")).text == "main"


async def test_work_is_pushed_fetched_and_pulled(served: Place) -> None:
    await served.say("commit", "-am", "ours")
    pushed = await served.say("push", "-u", "origin", "main", options=_HTTP)
    assert not pushed.failed, pushed.text
    assert _upstream(served) == "ours"
    _upstream_moves(served, "new.txt", "theirs\n")
    assert "origin/main" in (await served.say("fetch", options=_HTTP)).text
    assert "behind 1" in (await served.say("status", "-sb")).text
    pulled = await served.say("pull", "--ff-only", options=_HTTP)
    assert not pulled.failed, pulled.text
    assert (served.root / "new.txt").read_text() == "theirs\n"


async def test_what_others_pushed_is_not_overwritten(served: Place) -> None:
    _upstream_moves(served, "new.txt", "theirs\n")
    await served.say("commit", "-am", "ours")
    answer = await served.say("push", "origin", "main", options=_HTTP)
    assert answer.failed
    assert "rejected" in answer.text
    assert _upstream(served) == "theirs"
    assert not (await served.say("pull", "--no-rebase", "origin", "main", options=_HTTP)).failed
    assert not (await served.say("push", "origin", "main", options=_HTTP)).failed
    assert served.git("log", "-1", "--format=%s", "main^2") == "theirs\n"


async def test_a_rebase_that_meets_conflicts_is_undone(served: Place) -> None:
    """There is no subcommand by which an agent could go on with it, or give it up."""
    _upstream_moves(served, "a.txt", "theirs\n")
    await served.say("commit", "-am", "ours")
    answer = await served.say("pull", "--rebase", "origin", "main", options=_HTTP)
    assert answer.failed
    assert answer.text.endswith("The rebase has conflicts and was undone; pull with --no-rebase to resolve them.")
    assert served.git("status", "-sb").strip() == "## main"
    assert (served.root / "a.txt").read_text() == "changed\n"


async def test_a_server_that_asks_for_a_password_is_told_none_at_once(place: Place) -> None:
    place.git("clone", "-q", "--bare", ".", str(place.outside / "up.git"))
    with git_server(place.outside, credentials="Basic bWU6c2VjcmV0") as address:
        place.git("remote", "add", "origin", f"{address}/up.git")
        place.git("remote", "add", "named", f"{address.replace('://', '://me:secret@')}/up.git")
        place.git("remote", "add", "gone", f"{address.replace('://', '://me:secret@')}/absent.git")
        asked = await place.say("fetch", "origin", options=_HTTP)
        assert asked.failed
        assert "terminal prompts disabled" in asked.text
        helper = "!f() { echo username=me; echo password=secret; }; f"
        helped = GitOptions(protocols=["http"], credential_helper=helper)
        assert not (await place.say("fetch", "origin", options=helped)).failed
        assert not (await place.say("fetch", "named", options=_HTTP)).failed
        assert "secret" not in (await place.say("fetch", "gone", options=_HTTP)).text


async def test_git_that_is_not_installed_is_said(place: Place) -> None:
    answer = await place.say("status", env={"PATH": str(place.outside)})
    assert answer == ToolAnswer(text="git is not installed here.", failed=True)


async def test_a_call_that_is_cancelled_leaves_neither_process_nor_lock(place: Place) -> None:
    os.mkfifo(place.root / ".git/info/attributes")  # git waits for somebody to write into it
    task = asyncio.create_task(place.say("add", "a.txt"))
    while not (place.root / ".git/index.lock").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (place.root / ".git/index.lock").exists()
    assert not [path for path in Path("/proc").iterdir() if _is_there(path, place.root)]


_DIES_WITH_ITS_LOCK = """#!/bin/sh
case "$*" in *add*) ;; *) exec {git} "$@" ;; esac
: > "$GIT_DIR/index.lock"
exec sleep 600
"""
"""As git is for a moment: its lock is there, and nothing prepared for the case that it is ended."""


async def test_a_lock_that_git_left_when_it_was_ended_is_removed(place: Place) -> None:
    await _end_a_call_that_leaves_its_lock(place)
    assert not (place.root / ".git/index.lock").exists()
    assert not (await place.say("add", "a.txt")).failed


async def test_a_lock_that_somebody_has_open_stays(place: Place) -> None:
    lock = place.root / ".git/index.lock"

    def take() -> IO[bytes]:
        return lock.open("rb")

    with await _end_a_call_that_leaves_its_lock(place, take):
        assert lock.exists()
    lock.write_text("an index, almost")
    assert (await place.say("add", "a.txt")).failed
    assert lock.exists()


async def _end_a_call_that_leaves_its_lock(place: Place, meanwhile: Callable[[], Any] = lambda: None) -> Any:
    programs = place.outside / "programs"
    programs.mkdir()
    (programs / "git").write_text(_DIES_WITH_ITS_LOCK.format(git=shutil.which("git")))
    (programs / "git").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    task = asyncio.create_task(place.say("add", "a.txt", env={**clean_environment(os.environ), "PATH": path}))
    await wait_until(lambda: asyncio.to_thread((place.root / ".git/index.lock").exists))
    found = meanwhile()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return found


def _is_there(process: Path, folder: Path) -> bool:
    """Whether a process works in a folder."""
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False


async def test_arguments_may_be_one_string_quoted_as_in_a_shell(place: Place) -> None:
    tool = git_tool(place.root, env=clean_environment(os.environ))
    Draft202012Validator(tool.parameters).validate({"subcommand": "log", "args": "-1"})
    for subcommand, args in (("status", ""), ("add", "a.txt"), ("commit", "-m 'my \"own\" change'")):
        assert not (await tool.call({"subcommand": subcommand, "args": args})).failed
    assert (await tool.call({"subcommand": "log", "args": "-1 --format=%s"})).text == 'my "own" change'
    for args, says in (
        ("-m 'open", "without its counterpart"),
        ("--force", "not allowed"),
        ("-m a --exec=x", "not allowed"),
    ):
        refusal = await tool.refuse({"subcommand": "push" if "force" in args else "commit", "args": args})
        assert refusal is not None
        assert says in refusal.text


@pytest.mark.parametrize(
    ("subcommand", "args", "is_asked"),
    [
        ("checkout", ["--", "a.txt"], True),
        ("checkout", "-- a.txt", True),
        ("checkout", ["HEAD", "--", "a.txt"], True),
        ("checkout", "--theirs -- a.txt", True),
        ("checkout", ["main"], False),
        ("checkout", "-b new", False),
        ("checkout", ["--"], False),
        ("stash", ["drop"], True),
        ("stash", "drop -q stash@{1}", True),
        ("stash", ["pop"], False),
        ("stash", [], False),
        ("stash", ["clear"], False),
        ("push", "origin main", True),
        ("checkout", "'--", False),
        ("checkout", 7, False),
    ],
)
def test_a_person_is_asked_before_changes_are_discarded(
    place: Place, subcommand: str, args: Any, is_asked: bool
) -> None:
    tool = git_tool(place.root, env={})
    assert "asks a person first" in tool.description
    assert ApprovalRules().apply_to(tool, {"subcommand": subcommand, "args": args}) is is_asked
    rules = ApprovalRules(patterns=("git stash drop",))
    assert rules.unused([tool]) == []
    assert rules.apply_to(tool, {"subcommand": "stash", "args": "drop"})
