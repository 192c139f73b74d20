"""What a model may say to git: every argument that is not known is refused, with a reason, before git runs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_agents.built_in_tools.git.subcommands import RULES, SUBCOMMANDS, understood
from swarm_agents.built_in_tools.work_tree import ToolRefused
from tests.support.every import every

pytestmark = pytest.mark.req("TOOL-01")

_REFUSED = [
    # what takes away from others, or throws work away
    "push -f",
    "push --force",
    "push --force origin main",
    "push -uf origin main",
    "push -fu origin main",
    "push --force-with-lease",
    "push --force-with-lease=main:abc",
    "push --force-if-includes",
    "push --mirror",
    "push --delete origin main",
    "push -d origin main",
    "push --prune origin",
    "push --forc",
    "push --force=yes",
    "push --no-force-with-lease",
    "reset --hard",
    "clean -fdx",
    "checkout -f",
    "checkout --force main",
    "checkout -qf main",
    "checkout -B main",
    "branch -D other",
    "branch -M main",
    "branch -C a b",
    "branch -f main HEAD~1",
    "branch -d --force other",
    "branch -df other",
    "fetch -f origin",
    "fetch --update-head-ok origin",
    "pull --force",
    "stash clear",
    "stash -a",
    "stash push --all",
    "stash create",
    "stash store x",
    # what runs a program
    "-c core.pager=sh status",
    "status -c core.pager=sh",
    "push --receive-pack=sh",
    "push --receive-pack sh origin",
    "push --exec=sh",
    "push --exec sh origin",
    "fetch --upload-pack=sh",
    "fetch --upload-pack sh origin",
    "fetch --upload-pac=sh",
    "pull --upload-pack=sh",
    "pull -s sh",
    "pull --strategy=sh",
    "pull --rebase=interactive",
    "pull --rebase=i",
    "pull -S",
    "diff --ext-diff",
    "diff --textconv",
    "log --ext-diff -p",
    "log --textconv -p",
    "log --show-signature",
    "log --format=%G?",
    "log --pretty=format:%h%GS",
    "log --remerge-diff",
    "stash show --ext-diff",
    "stash show --textconv",
    "commit -S -m x",
    "commit --gpg-sign -m x",
    "commit -mx -S",
    "commit -e -m x",
    "commit --trailer=a:b -m x",
    "commit",
    "commit -a",
    "commit -m",
    "commit -c HEAD",
    "commit --fixup=amend:HEAD",
    "commit --fixup=reword:HEAD",
    "push --signed",
    "push --recurse-submodules=on-demand",
    "push -o ci.skip origin",
    "push --push-option=x",
    "fetch --recurse-submodules",
    "pull --recurse-submodules",
    "checkout --recurse-submodules main",
    "branch --edit-description",
    "add -p",
    "add -e",
    "add -i",
    "checkout -p",
    "commit -p",
    "stash -p",
    "branch --sort=signature",
    "branch --format=%(signature)",
    # what reads or writes elsewhere
    "diff --output=/tmp/x",
    "diff --output /tmp/x",
    "log --output=/tmp/x",
    "stash list --output=x",
    "stash show --output=x",
    "diff --no-index a b",
    "diff -O/etc/passwd",
    "diff -Oorder",
    "log -O order",
    "commit -F /etc/passwd",
    "commit --file=/etc/passwd",
    "commit -t /etc/passwd",
    "commit -aF/etc/passwd",
    "add --pathspec-from-file=/etc/passwd",
    "add --force secret",
    "commit --pathspec-from-file=x -m x",
    "checkout --pathspec-from-file=x",
    "stash push --pathspec-from-file=x",
    "log -L1,2:/etc/passwd",
    "log --mailmap",
    "log --stdin",
    "fetch --stdin",
    "--exec-path=/tmp status",
    "--git-dir=/tmp status",
    "-C /tmp status",
    "push --repo=https://x",
    "log --git-dir=x",
    "status --work-tree=/",
    # what is not offered
    "config --list",
    "remote add x y",
    "clone x",
    "submodule update",
    "help",
    "",
    "st",
    "Status",
    "rebase",
    "stash@{0}",
    "stash show a b",
    "stash drop main",
    "stash pop refs/stash",
    "checkout a b",
    "push origin -- main",
    "branch -- x",
    "log -n",
    "log -nx",
    "log --max-count=x",
    "log --max-count=-1",
    "status --short=1",
    "status --untracked-files=/",
    "status -ux",
    "commit --mess=x",
    "commit --author=x -m x",
    "commit --author=<> -m x",
]


@every("line", _REFUSED)
def test_what_is_not_allowed_is_refused_with_a_reason(line: str) -> None:
    subcommand, *arguments = line.split(" ")
    with pytest.raises(ToolRefused) as refusal:
        understood(subcommand, arguments)
    assert str(refusal.value).endswith((".", "two arguments."))


_ALLOWED = [
    ("status -sb", "status --ignore-submodules=dirty -s -b --"),
    ("status -uno src", "status --ignore-submodules=dirty --untracked-files=no -- src"),
    ("status -suall", "status --ignore-submodules=dirty -s --untracked-files=all --"),
    ("add -A", "add -A --"),
    ("add a -- -b", "add -- a -b"),
    ("commit -am x", "commit --no-gpg-sign -a --message=x --"),
    ("commit -mx a", "commit --no-gpg-sign --message=x -- a"),
    ("commit --message=x --amend", "commit --no-gpg-sign --message=x --amend --"),
    ("commit -m -f", "commit --no-gpg-sign --message=-f --"),
    ("commit -m --force", "commit --no-gpg-sign --message=--force --"),
    ("push -u origin main", "push --no-signed --no-recurse-submodules -u origin main"),
    ("log -5 --oneline", None),
    ("log -n5 main..other -- a", None),
    ("log --since=yesterday --author x", None),
    ("diff -U3 HEAD~1 HEAD -- src", None),
    ("diff --staged --stat", None),
    ("diff -S-x", None),
    ("branch -vv", "branch --no-color --no-column -v -v"),
    ("branch -d other", "branch --no-color --no-column -d other"),
    ("checkout -", "checkout --no-recurse-submodules --no-progress -q @{-1} --"),
    ("checkout -b new origin/main", "checkout --no-recurse-submodules --no-progress -q -bnew origin/main --"),
    ("checkout HEAD -- a b", "checkout --no-recurse-submodules --no-progress -q HEAD -- a b"),
    ("pull --ff-only origin main", "pull --no-recurse-submodules --ff-only origin main"),
    ("pull --rebase=true", "pull --no-recurse-submodules --rebase=true"),
    ("fetch --all -p", "fetch --no-recurse-submodules --all -p"),
    ("stash", "stash push --"),
    ("stash -u", "stash push -u --"),
    ("stash push -m x -- a", "stash push --message=x -- a"),
    ("stash pop stash@{1}", "stash pop -q stash@{1}"),
    ("stash drop 0", "stash drop 0"),
]


@every(("line", "argv"), _ALLOWED)
def test_what_is_allowed_is_written_anew_without_doubt(line: str, argv: str | None) -> None:
    subcommand, *arguments = line.split(" ")
    said = understood(subcommand, arguments).argv()
    assert argv is None or " ".join(said) == argv


def test_a_refusal_says_what_is_allowed_instead() -> None:
    with pytest.raises(
        ToolRefused, match=r"git add --fast is not allowed\. Allowed options, which must be written in full: --all"
    ):
        understood("add", ["--fast"])
    with pytest.raises(ToolRefused, match="git push --force is not allowed: it removes what others have pushed"):
        understood("push", ["--force"])
    with pytest.raises(ToolRefused, match="Allowed are: status, add, commit, push, log, diff, branch, checkout, pull"):
        understood("reset", ["--hard"])


_LETTERS = "acdefhklmnopqrstuvxzABCDFGMNOPRSTUWX0123456789=-/ "


@given(
    subcommand=st.sampled_from(SUBCOMMANDS),
    arguments=st.lists(st.text(_LETTERS, max_size=6) | st.sampled_from(["--force", "-f", "--", "--output=x", "-m"])),
)
def test_git_is_given_no_option_that_is_not_listed(subcommand: str, arguments: list[str]) -> None:
    """Whatever is said, an argument before "--" that begins with "-" is one of ours or written by a listed option."""
    try:
        parsed = understood(subcommand, arguments)
    except ToolRefused:
        return
    argv = parsed.argv()
    before = argv[: argv.index("--")] if parsed.rule.takes_paths else argv
    known = {option.written for option in parsed.rule.options.values()}
    for word in before[len(parsed.command) :]:
        if word.startswith("-") and word not in parsed.rule.ours:
            assert any(
                word == name or (word.startswith(f"{name}=") if name.startswith("--") else word.startswith(name))
                for name in known
            )


def test_no_rule_lists_what_is_dangerous() -> None:
    dangerous = re.compile(
        r"--(force.*|mirror|delete-.*|hard|output.*|ext-diff|textconv|exec.*|upload-pack|receive-pack|no-index|gpg-sign"
        r"|signed|show-signature|patch-file|pathspec-from-file|file|template|interactive|edit|config.*|git-dir|work-tree"
        r"|exec-path|strategy.*|stdin|recurse-submodules|push-option|server-option|trailer)"
    )
    for rule in RULES.values():
        assert not [name for name in rule.options if dangerous.fullmatch(name)]


def test_no_rule_refuses_an_option_that_it_allows() -> None:
    for name, rule in RULES.items():
        assert not set(rule.options) & set(" ".join(rule.refused.values()).split()), name
