"""Repositories that mean harm: nothing of theirs is run, nothing outside is touched, and the answer says why."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from packages.swarm_agents.tests.agents.built_in_tools.git_places import TRUSTING, Place, template_in
from swarm_agents.built_in_tools.git.repository import GitOptions, check, settings_in
from swarm_agents.built_in_tools.work_tree import ToolRefused
from tests.support.quick import quick

pytestmark = pytest.mark.req("TOOL-01")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository to be copied."""
    return template_in(tmp_path_factory.mktemp("template"))


@pytest.fixture
def place(tmp_path: Path, template: Path) -> Place:
    """A copy of it, with its surroundings."""
    return Place(tmp_path, template=template)


# What is configured, "{canary}" being a program and "{outside}" a folder; and what would make git obey it.
_POISON = [
    ("core.sshCommand", "{canary}", "fetch"),
    ("core.fsmonitor", "{canary}", "status"),
    ("core.gitProxy", "{canary}", "fetch"),
    ("core.pager", "{canary}", "log"),
    ("core.editor", "{canary}", "commit --amend"),
    ("core.askPass", "{canary}", "fetch"),
    ("core.alternateRefsCommand", "{canary}", "fetch"),
    ("core.attributesFile", "{outside}/secret", "status"),
    ("core.worktree", "{outside}", "status"),
    ("core.worktree", "../../outside", "add ."),
    ("sequence.editor", "{canary}", "pull"),
    ("diff.external", "{canary}", "diff"),
    ("diff.evil.textconv", "{canary}", "diff"),
    ("diff.evil.command", "{canary}", "diff"),
    ("diff.orderFile", "{outside}/secret", "diff"),
    ("filter.evil.clean", "{canary}", "add ."),
    ("filter.evil.smudge", "{canary}", "checkout -- src/b.txt"),
    ("filter.evil.process", "{canary}", "add ."),
    ("merge.evil.driver", "{canary} %A", "pull"),
    ("branch.main.mergeoptions", "-s evil", "pull"),
    ("pull.twohead", "evil", "pull"),
    ("credential.helper", "!{canary}", "fetch"),
    ("credential.https://host.helper", "!{canary}", "fetch"),
    ("gpg.program", "{canary}", "log -1"),
    ("gpg.ssh.defaultKeyCommand", "{canary}", "commit -am x"),
    ("remote.origin.uploadpack", "{canary}", "fetch"),
    ("remote.origin.receivepack", "{canary}", "push"),
    ("remote.origin.vcs", "ext", "fetch"),
    ("remote.origin.proxy", "http://evil", "fetch"),
    ("remote.origin.push", "+refs/heads/*:refs/heads/*", "push"),
    ("remote.origin.push", ":refs/heads/main", "push"),
    ("remote.origin.mirror", "true", "push"),
    ("url.ext::{canary}.insteadOf", "https://host/", "fetch"),
    ("url.ext::{canary}.pushInsteadOf", "https://host/", "push"),
    ("include.path", "{outside}/secret", "status"),
    ("includeIf.gitdir:/.path", "{outside}/secret", "status"),
    ("protocol.ext.allow", "always", "fetch"),
    ("protocol.allow", "always", "fetch"),
    ("http.proxy", "http://evil", "fetch"),
    ("http.cookieFile", "{outside}/secret", "fetch"),
    ("http.sslVerify", "false", "fetch"),
    ("submodule.x.update", "!{canary}", "checkout other"),
    ("submodule.x.ignore", "none", "status"),
    ("trailer.x.command", "{canary}", "commit -am x"),
    ("hook.x.command", "{canary}", "commit -am x"),
    ("pager.log", "{canary}", "log"),
    ("interactive.diffFilter", "{canary}", "diff"),
    ("uploadpack.packObjectsHook", "{canary}", "fetch"),
    ("commit.template", "{outside}/secret", "commit --amend"),
    ("mailmap.file", "{outside}/secret", "log"),
    ("pretty.x", "format:%G?", "log --pretty=x"),
    ("trace2.eventTarget", "{outside}/trace", "status"),
    ("fetch.bundleURI", "{outside}/secret", "fetch"),
    ("something.new", "{canary}", "status"),
]


def _filled(place: Place, text: str) -> str:
    return text.format(canary=place.canary, outside=place.outside)


@pytest.mark.parametrize(("key", "value", "said"), _POISON, ids=[f"{key} {said}" for key, _, said in _POISON])
def test_a_configuration_that_could_run_something_is_refused(key: str, value: str, said: str) -> None:
    """As git lists it: section and name in lower case."""
    section, _, rest = key.partition(".")
    middle, _, name = rest.rpartition(".")
    spelt = ".".join(filter(None, [section.lower(), middle, name.lower()]))
    (setting,) = settings_in(f"local\0{spelt}\n{value}\0command\0core.pager\ncat\0")
    with pytest.raises(
        ToolRefused, match=f"the configuration of it sets {re.escape(spelt)}, which could run a program"
    ):
        check([setting], "it", work_trees=["/work"])


@pytest.mark.parametrize(
    ("key", "value", "said"), quick(_POISON[::5], 2), ids=[f"{k} {said}" for k, _, said in _POISON[::5]]
)
async def test_a_configuration_that_could_run_something_stops_the_tool(
    place: Place, key: str, value: str, said: str
) -> None:
    (place.root / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    place.git("config", "remote.origin.url", "https://host/x")
    place.git("config", "--local", _filled(place, key), _filled(place, value))
    answer = await place.say(*said.split(" "))
    assert answer.failed
    assert "the configuration of the repository sets " in answer.text
    assert place.unharmed()


@pytest.mark.parametrize("listing", ["local", "local\0", "warning: x\nlocal\0a.b\nc\0", "local\0a.b\nc\0local\0"])
def test_a_listing_that_is_not_understood_is_refused(listing: str) -> None:
    with pytest.raises(ToolRefused, match="cannot be read"):
        list(settings_in(listing))


def test_harmless_settings_are_harmless() -> None:
    lines = [
        "core.bare\nfalse", "core.fsmonitor\ntrue", "core.hookspath\n.husky/_", "core.worktree\n../../../sub",
        "remote.origin.url\nhttps://x", "remote.my.fork.fetch\n+refs/heads/*:refs/remotes/x/*",
        "remote.origin.push\nHEAD", "branch.feature/a.b.remote\norigin", "branch.main.vscode-merge-base\norigin/main",
        "http.https://github.com/.extraheader\nx", "alias.x\n!sh", "submodule.a.b.url\nx", "lfs.x.y\nz", "advice.x",
    ]  # fmt: skip
    check(settings_in("".join(f"local\0{line}\0" for line in lines)), "it", work_trees=["../../../sub"])


async def test_a_canary_sings_if_git_obeys(place: Place) -> None:
    """So that the silence of the others means something."""
    (place.root / ".gitattributes").write_text("* filter=evil\n")
    place.git("config", "filter.evil.clean", str(place.canary))
    answer = await place.say("add", ".", options=GitOptions(trusted_keys=["filter.evil.*"]))
    assert not answer.failed
    assert place.sang()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    quick(
        [
            ("core.hooksPath", "{hooks}", "commit -am x"),
            ("core.fsmonitor", "{canary}", "status"),
            ("core.pager", "{canary}", "log"),
            ("core.editor", "{canary}", "commit --amend --allow-empty"),
            ("commit.gpgSign", "true", "commit -am x"),
            ("log.showSignature", "true", "log -1"),
            ("diff.external", "{canary}", "diff"),
            ("diff.evil.textconv", "{canary}", "diff"),
            ("diff.evil.command", "{canary}", "log -p"),
            ("core.sshCommand", "{canary}", "fetch ssh"),
            ("core.worktree", "{outside}", "add ."),
            ("remote.ssh.vcs", "ext", "fetch ssh"),
        ],
        3,
    ),
)
async def test_what_has_one_name_is_put_out_of_force_even_if_it_is_trusted(
    place: Place, key: str, value: str, said: str
) -> None:
    place.hook("pre-commit")
    names = {"canary": str(place.canary), "outside": str(place.outside), "hooks": str(place.root / ".git/hooks")}
    (place.root / ".gitattributes").write_text("* diff=evil\n")
    place.git("config", "gpg.program", str(place.canary))
    place.git("config", "remote.ssh.url", "ssh://127.0.0.1:1/x")
    place.git("config", key, value.format(**names))
    await place.say(*said.split(" "), options=TRUSTING)
    assert place.unharmed()


_HOOKS = [
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit",
    "pre-merge-commit", "pre-push", "pre-rebase", "prepare-commit-msg", "push-to-checkout", "reference-transaction",
]  # fmt: skip


async def test_no_hook_is_run_by_anything(place: Place) -> None:
    for name in _HOOKS:
        place.hook(name)
    place.git("-c", "core.hooksPath=.git/hooks", "branch", "by-hand")
    assert place.sang()  # a person's git runs them
    upstream = place.folder / "outside/up.git"
    place.git("-c", "core.hooksPath=/dev/null", "clone", "-q", "--bare", ".", str(upstream))
    place.git("config", "remote.origin.url", str(upstream))
    place.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    trusting = GitOptions(protocols=["file"])
    for said in (
        ["status"],
        ["add", "."],
        ["commit", "-m", "x"],
        ["fetch", "origin"],
        ["push", "origin", "main"],
        ["pull", "--no-rebase", "origin", "other"],
        ["pull", "--rebase", "origin", "other"],
        ["checkout", "-b", "new"],
        ["branch", "x"],
        ["stash", "-u"],
    ):
        await place.say(*said, options=trusting)
        assert not place.sang(), said
    assert place.git("log", "-1", "--format=%an <%ae>", "HEAD") == "swarm <swarm@localhost>\n"


_REMOTES = [
    ("ext::{canary}", "ext"),
    ("ext::sh -c {canary}", "ext"),
    ("fd::17", "fd"),
    ("file://{outside}/up.git", "file"),
    ("{outside}/up.git", "file"),
    ("../outside/up.git", "file"),
    ("git://127.0.0.1:1/x", "git"),
    ("http://127.0.0.1:1/x", "http"),
    ("ftp://127.0.0.1:1/x", "ftp"),
    ("foo::bar", "foo"),
    ("--upload-pack={canary}", ""),
    ("ssh://-oProxyCommand={canary}/x", "hostname"),
    ("-oProxyCommand={canary}:x", ""),
]


@pytest.mark.parametrize(("url", "why"), quick(_REMOTES, 5))
async def test_a_remote_is_reached_by_allowed_protocols_alone(place: Place, url: str, why: str) -> None:
    place.git("config", "remote.origin.url", url.format(canary=place.canary, outside=place.outside))
    answer = await place.say("fetch", "origin")
    assert answer.failed
    assert why in answer.text
    assert place.unharmed()


@pytest.mark.parametrize("said", quick(["push origin main", "pull origin main", "push", "pull", "fetch --all"], 2))
async def test_no_subcommand_reaches_a_remote_in_another_way(place: Place, said: str) -> None:
    place.git("config", "remote.origin.url", f"ext::{place.canary}")
    place.git("config", "branch.main.remote", "origin")
    place.git("config", "branch.main.merge", "refs/heads/main")
    answer = await place.say(*said.split(" "))
    assert answer.failed
    assert "transport 'ext' not allowed" in answer.text
    assert place.unharmed()


@pytest.mark.parametrize("name", ["remote", "pushRemote"])
async def test_a_branch_that_names_an_address_instead_of_a_remote_reaches_nothing(place: Place, name: str) -> None:
    place.git("config", f"branch.main.{name}", f"ext::{place.canary}")
    place.git("config", "branch.main.merge", "refs/heads/main")
    for said in ("fetch", "push"):
        await place.say(said)
    assert place.unharmed()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("push origin +main", "+main is forced"),
        ("push origin +main:main", "+main:main is forced"),
        ("push origin :main", ":main deletes a branch"),
        ("push origin main:", "main: is not a branch"),
        ("push origin main:+x", "is not a branch"),
        ("push origin :", ": deletes"),
        ("fetch origin +main:main", "+main:main is forced"),
        ("pull origin +main", "+main is forced"),
        ("push elsewhere main", "elsewhere is not a remote of this repository. Its remotes: origin."),
        ("push https://evil/x main", "https://evil/x is not a remote"),
        ("push ../outside main", "../outside is not a remote"),
        ("fetch ext::sh", "ext::sh is not a remote"),
        ("fetch .", ". is not a remote"),
        ("pull .", ". is not a remote"),
    ],
)
async def test_a_remote_is_one_by_name_and_a_refspec_forces_nothing(place: Place, said: str, why: str) -> None:
    place.git("config", "remote.origin.url", "https://127.0.0.1:1/x")
    answer = await place.say(*said.split(" "))
    assert answer.failed
    assert why in answer.text
    assert place.is_refused
    assert place.unharmed()


@pytest.mark.parametrize(
    "said",
    [
        "diff -- /etc/passwd a.txt",
        "diff -- ../outside/secret a.txt",
        "diff -- src/../../outside/secret /dev/null",
        "diff -- away/secret a.txt",
        "add away/secret",
        "add away",
        "add ../outside/secret",
        "add {outside}/secret",
        "add :/",
        "add :(top)a.txt",
        "commit -m x -- ../outside/secret",
        "checkout -- ../outside/secret",
        "checkout -- away/secret",
        "status ../outside",
        "log -- ../outside",
        "stash push -- ../outside/secret",
    ],
)
async def test_a_path_leads_nowhere_else(place: Place, said: str) -> None:
    (place.root / "away").symlink_to("../outside")
    answer = await place.say(*said.format(outside=place.outside).split(" "))
    assert answer.failed
    assert any(why in answer.text for why in ("outside the work tree", "absolute path", "begin with ':'"))
    assert "secret\n" not in answer.text
    assert place.unharmed()


@pytest.mark.parametrize("at", ["..", "../outside", "/", "away", "src/../..", ".git", ".git/hooks", "absent", "a.txt"])
async def test_git_starts_nowhere_else(place: Place, at: str) -> None:
    (place.root / "away").symlink_to("../outside")
    answer = await place.say("status", at=at)
    assert answer.failed
    assert answer.text.endswith((".", "work tree."))


def _git_dir_is_a_link(place: Place) -> None:
    (place.root / ".git").rename(place.outside / "git")
    (place.root / ".git").symlink_to("../outside/git")


def _git_dir_is_named_outside(place: Place) -> None:
    (place.root / ".git").rename(place.outside / "git")
    (place.root / ".git").write_text("gitdir: ../outside/git\n")


def _common_dir_is_outside(place: Place) -> None:
    shutil.copytree(place.root / ".git", place.outside / "git")
    (place.root / ".git/commondir").write_text("../../outside/git\n")


def _message_is_a_link(place: Place) -> None:
    (place.root / ".git/COMMIT_EDITMSG").unlink(missing_ok=True)
    (place.root / ".git/COMMIT_EDITMSG").symlink_to("../../outside/secret")


def _log_is_a_link(place: Place) -> None:
    (place.root / ".git/logs/HEAD").unlink()
    (place.root / ".git/logs/HEAD").symlink_to("../../../outside/secret")


def _objects_are_a_link(place: Place) -> None:
    (place.root / ".git/objects").rename(place.outside / "objects")
    (place.root / ".git/objects").symlink_to("../../outside/objects")


def _a_folder_of_objects_is_a_link(place: Place) -> None:
    (place.root / ".git/objects/ff").symlink_to("../../../outside")


def _objects_are_borrowed(place: Place) -> None:
    (place.root / ".git/objects/info/alternates").write_text(f"{place.outside}\n")


def _git_dir_is_a_pipe(place: Place) -> None:
    shutil.rmtree(place.root / ".git")
    os.mkfifo(place.root / ".git")


def _git_dir_is_nonsense(place: Place) -> None:
    shutil.rmtree(place.root / ".git")
    (place.root / ".git").write_text("../outside")


def _there_is_none(place: Place) -> None:
    shutil.rmtree(place.root / ".git")
    place.git("init", "-q", at=place.folder)


def _looks_like_one(place: Place) -> None:
    """A bare repository, as any folder of files may be made to look like one."""
    shutil.move(place.root / ".git", place.folder / "x")
    for path in (place.folder / "x").iterdir():
        path.rename(place.root / path.name)
    place.git("config", "-f", "config", "core.fsmonitor", str(place.canary))
    (place.folder / "x").rmdir()


def _configuration_is_broken(place: Place) -> None:
    (place.root / ".git/config").write_text("[core\n")


def _configuration_is_a_link(place: Place) -> None:
    (place.root / ".git/config").unlink()
    (place.root / ".git/config").symlink_to("../../outside/secret")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_git_dir_is_a_link, "leads outside the work tree"),
        (_git_dir_is_named_outside, "outside the work tree"),
        (_common_dir_is_outside, "outside the work tree"),
        (_message_is_a_link, ".git/COMMIT_EDITMSG is a symbolic link"),
        (_log_is_a_link, ".git/logs/HEAD is a symbolic link"),
        (_objects_are_a_link, ".git/objects is a symbolic link"),
        (_a_folder_of_objects_is_a_link, ".git/objects/ff is a symbolic link"),
        (_objects_are_borrowed, "borrows objects"),
        (_git_dir_is_a_pipe, "neither a folder nor a file"),
        (_git_dir_is_nonsense, "does not name a repository"),
        (_there_is_none, "belongs to no git repository"),
        (_looks_like_one, "belongs to no git repository"),
        (_configuration_is_broken, "The repository cannot be read"),
        (_configuration_is_a_link, ".git/config is a symbolic link"),
    ],
)
async def test_a_repository_lies_in_the_work_tree_whole(place: Place, make: object, why: str) -> None:
    assert callable(make)
    make(place)
    before = {path: path.stat().st_mtime_ns for path in place.outside.rglob("*")}
    answer = await place.say("commit", "-am", "x")
    assert answer.failed
    assert why in answer.text
    assert {path: path.stat().st_mtime_ns for path in place.outside.rglob("*")} == before
    assert (place.outside / "secret").read_text() == "secret\n"
    assert not place.sang()


async def test_links_that_nothing_writes_through_are_no_harm(place: Place) -> None:
    hook = place.hook("pre-commit")
    hook.unlink()
    hook.symlink_to(place.canary)
    assert not (await place.say("commit", "-am", "x")).failed
    assert place.unharmed()


async def test_the_environment_that_is_passed_cannot_say_otherwise(place: Place, tmp_path: Path) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "GIT_EXTERNAL_DIFF": str(place.canary),
        "GIT_CONFIG_PARAMETERS": f"'diff.external'='{place.canary}'",
        "GIT_DIR": str(place.outside),
        "GIT_INDEX_FILE": str(place.outside / "index"),
        "GIT_TRACE": str(place.outside / "trace"),
        "GIT_EDITOR": str(place.canary),
        "GIT_PAGER": str(place.canary),
        "PAGER": str(place.canary),
        "GIT_PROXY_COMMAND": str(place.canary),
        "GIT_SSH": str(place.canary),
        "GIT_ALLOW_PROTOCOL": "ext",
        "GIT_AUTHOR_NAME": "somebody else",
    }
    assert "-one\n+changed" in (await place.say("diff", env=env)).text
    assert not (await place.say("commit", "-am", "x", env=env)).failed
    assert place.git("log", "-1", "--format=%an") == "swarm\n"
    assert place.unharmed()


def _submodule(place: Place, *, listed: bool) -> Path:
    """A submodule that is there, as "git clone --recurse-submodules" makes one, or which nobody lists."""
    sub = place.root / "sub"
    shutil.copytree(place.root / ".git", sub / ".git")
    place.git("checkout", "-q", "-f", "main", at=sub)
    if listed:
        (place.root / ".gitmodules").write_text('[submodule "sub"]\npath = sub\nurl = x\nignore = none\n')
    place.git("add", "sub", *([".gitmodules"] if listed else []))
    return sub


def _poison(place: Place, sub: Path) -> None:
    """A filter, and a file that git has to compare."""
    (sub / ".gitattributes").write_text("* filter=evil\n")
    place.git("config", "filter.evil.clean", str(place.canary), at=sub)
    os.utime(sub / "a.txt", (1, 1))


@pytest.mark.parametrize(("said", "listed"), [("add .", False), ("checkout other", True), ("stash", True)])
async def test_what_a_submodule_is_configured_to_run_stops_what_looks_into_it(
    place: Place, said: str, listed: bool
) -> None:
    _poison(place, _submodule(place, listed=listed))
    answer = await place.say(*said.split(" "))
    assert answer.failed
    assert "the configuration of the submodule sub sets filter.evil.clean" in answer.text
    assert place.unharmed()


@pytest.mark.parametrize("said", ["status", "diff HEAD", "log -p", "branch x"])
async def test_what_need_not_look_into_a_submodule_does_not(place: Place, said: str) -> None:
    _poison(place, _submodule(place, listed=True))
    assert not (await place.say(*said.split(" "))).failed
    assert place.unharmed()


@pytest.mark.parametrize("said", ["checkout with-sub", "stash pop"])
async def test_a_submodule_that_comes_with_the_change_is_not_looked_into(place: Place, said: str) -> None:
    place.git("checkout", "-q", "-f", "main")
    place.git("checkout", "-q", "-b", "with-sub")
    sub = _submodule(place, listed=True)
    if said == "stash pop":
        place.git("stash", "-q")
    else:
        place.git("commit", "-q", "-m", "a submodule")
        sub.rename(place.outside / "sub")
        place.git("checkout", "-q", "main")
        shutil.rmtree(sub, ignore_errors=True)
        (place.outside / "sub").rename(sub)
    _poison(place, sub)
    assert not (await place.say(*said.split(" "))).failed
    assert place.unharmed()
    assert "160000" in place.git("ls-files", "--stage", "sub")


async def test_a_person_is_never_waited_for(place: Place) -> None:
    """No editor, no prompt, no pager: with nothing to answer them, they would take all the time there is."""
    answer = await place.say("commit", "--amend", "--allow-empty", options=GitOptions(timeout_seconds=10))
    assert not answer.failed
    assert place.git("log", "-1", "--format=%s") == "first\n"


async def test_a_git_that_hangs_is_ended(place: Place) -> None:
    os.mkfifo(place.root / ".gitattributes")
    (place.root / ".git/info/attributes").unlink(missing_ok=True)
    os.mkfifo(place.root / ".git/info/attributes")
    answer = await place.say("add", "a.txt", options=GitOptions(timeout_seconds=0.3))
    assert answer.failed
    assert "took longer than 0.3 seconds" in answer.text
    assert not (place.root / ".git/index.lock").exists()
