"""The subcommands of git that a model may use, and the options of each. See `git_rules` for how they are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from swarm.agents.tools.answers import ToolRefused
from swarm.agents.tools.git.git_rules import ArgumentKind, Parsed, Rule, flags, optional, parse, valued

_NUMBER: Final = r"\d{1,9}"
_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9_.:,-]*"
_REVISION: Final = r"[^-].*"
_DIFF_MODES: Final = r"myers|minimal|patience|histogram"
_NO_SIGNATURES: Final = r"(?!.*%G).*"  # %G and what begins with it would run gpg

_NO_PROGRAMS: Final = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty")

_NO_LOOK_AFTERWARDS: Final = "-q"
"""Git would report what has changed, for which it looks into submodules that only came with the change."""

_LOST_PUSHES: Final = "it takes away what others have pushed; pull, and push what results"
_LOST_WORK: Final = "it throws away changes or commits that nobody has elsewhere"
_PERSON: Final = "nobody is there to answer"
_READS_FILE: Final = "it reads a file; give its content as an argument"

_DIFF: Final = {
    **flags(
        "-p -u --patch -s --no-patch --raw --shortstat --numstat --summary --name-only --name-status --compact-summary"
        " --minimal --patience --histogram --full-index --binary -a --text -w --ignore-all-space -b"
        " --ignore-space-change --ignore-space-at-eol --ignore-blank-lines -W --function-context -R --check"
        " --pickaxe-all --pickaxe-regex --no-renames --no-prefix --no-color --no-ext-diff --no-textconv"
        " --patch-with-stat -m --cc"
    ),
    **valued("-U --unified", _NUMBER),
    **valued("--inter-hunk-context", _NUMBER),
    **valued("--diff-algorithm", _DIFF_MODES),
    **valued("--diff-filter", "[A-Za-z*]+"),
    **valued("-S", ".+"),
    **valued("-G", ".+"),
    **optional("--stat", r"\d+(,\d+){0,2}"),
    **optional("--dirstat", r"[a-z0-9,.]+"),
    **optional("--word-diff", "plain|porcelain|none"),
    **optional("--color", "never"),
    **optional("--abbrev", _NUMBER),
    **optional("-M", r"\d+%?"),
    **optional("-C", r"\d+%?"),
    **optional("--find-renames", r"\d+%?"),
    **optional("--find-copies", r"\d+%?"),
}

_DIFF_REASONS: Final = {
    "--no-index": "it reads files that are not in the repository; use file-read",
    "--ext-diff": "it runs a program that the repository names",
    "--textconv": "it runs a program that the repository names",
    "--output": "it writes a file; use file-write",
    "-O": _READS_FILE,
}

_LOG: Final = {
    **_DIFF,
    **flags(
        "--oneline --graph --no-graph --all --merges --no-merges --first-parent --reverse --abbrev-commit"
        " --no-abbrev-commit --follow --full-history --simplify-by-decoration --topo-order --date-order"
        " --author-date-order --no-decorate --parents --children --left-right --cherry-pick --cherry-mark --cherry"
        " --boundary --no-notes"
        " -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp --all-match --invert-grep"
        " -g --walk-reflogs --root --relative-date --no-patch -c"
    ),
    **valued("-n --max-count", _NUMBER),
    **valued("--skip", _NUMBER),
    **valued("--since --after"),
    **valued("--until --before"),
    **valued("--author", ".+"),
    **valued("--committer", ".+"),
    **valued("--grep", ".+"),
    **valued("--date", r"[A-Za-z0-9:%/ .,+-]+"),
    **valued("--format", _NO_SIGNATURES),
    **optional("--pretty", _NO_SIGNATURES),
    **optional("--decorate", "short|full|auto|no"),
    **optional("--branches", _REVISION),
    **optional("--tags", _REVISION),
    **optional("--remotes", _REVISION),
}

_STASH_NAME: Final = r"(stash@\{[^{}]+\}|\d+)"

_PULL_AND_FETCH: Final = {
    **flags("-q --quiet -v --verbose -p --prune -t --tags --no-tags --dry-run --unshallow --progress --no-progress"),
    **valued("--depth", _NUMBER),
    **valued("--deepen", _NUMBER),
}

_NETWORK_REASONS: Final = {
    "--upload-pack": "it names a program to run",
    "--receive-pack": "it names a program to run",
    "--exec": "it names a program to run",
    "-o": "options of the server are not passed on",
}

RULES: Final = {
    "status": Rule(
        options={
            **flags(
                "-s --short -b --branch --long --show-stash --ahead-behind --no-ahead-behind --renames --no-renames"
            ),
            **optional("--porcelain", "v?[12]"),
            **optional("-u --untracked-files", "no|normal|all"),
            **optional("--ignored", "traditional|no|matching"),
        },
        words=ArgumentKind.PATHS,
        ours=("--ignore-submodules=dirty",),
    ),
    "add": Rule(
        options={
            **flags("-A --all --no-all -u --update -n --dry-run -v --verbose -N --intent-to-add --refresh"),
            **valued("--chmod", r"[+-]x"),
        },
        words=ArgumentKind.PATHS,
        looks_within=True,
        reasons={
            "-f": "the repository says that such files are not to be committed",
            "--force": "the repository says that such files are not to be committed",
            **dict.fromkeys(("-i", "--interactive", "-p", "--patch", "-e", "--edit"), _PERSON),
            "--pathspec-from-file": _READS_FILE,
        },
    ),
    "commit": Rule(
        options={
            **flags(
                "-a --all -q --quiet -s --signoff --amend --no-edit --allow-empty --dry-run -n --no-verify"
                " --reset-author -o --only -i --include"
            ),
            **valued("-m --message", r".*\S.*"),
            **valued("--author", r"[^<>\n]+ <[^<>\n]*>"),
            **valued("--date", r"[A-Za-z0-9:@/ .,+-]+"),
            **valued("-C --reuse-message", _REVISION),
            **valued("--fixup", r"[^-:][^:]*"),
        },
        words=ArgumentKind.PATHS,
        looks_within=True,
        ours=("--no-gpg-sign",),
        reasons={
            **dict.fromkeys(("-F", "--file", "-t", "--template", "--pathspec-from-file"), _READS_FILE),
            **dict.fromkeys(("-S", "--gpg-sign"), "commits are not signed here"),
            **dict.fromkeys(("-e", "--edit", "-c", "--reedit-message", "-p", "--patch", "--interactive"), _PERSON),
        },
    ),
    "push": Rule(
        options=flags(
            "-u --set-upstream -q --quiet -v --verbose -n --dry-run --tags --follow-tags --atomic --all --porcelain"
            " --no-verify --progress --no-progress"
        ),
        words=ArgumentKind.REMOTE,
        ours=("--no-signed", "--no-recurse-submodules"),
        takes_paths=False,
        reasons={
            **dict.fromkeys(
                ("-f", "--force", "--force-with-lease", "--force-if-includes", "--mirror", "-d", "--delete", "--prune"),
                _LOST_PUSHES,
            ),
            "--repo": "name a remote instead",
            "--push-option": "options of the server are not passed on",
            **_NETWORK_REASONS,
        },
    ),
    "log": Rule(options=_LOG, words=ArgumentKind.REVISIONS, ours=_NO_PROGRAMS, reasons=_DIFF_REASONS),
    "diff": Rule(
        options={**_DIFF, **flags("--cached --staged --merge-base")},
        words=ArgumentKind.REVISIONS,
        ours=_NO_PROGRAMS,
        reasons=_DIFF_REASONS,
    ),
    "branch": Rule(
        options={
            **flags(
                "-a --all -r --remotes -v --verbose -l --list --show-current -d --delete -m --move -c --copy -q --quiet"
                " -t --track --no-track --unset-upstream -i --ignore-case --no-color --no-column"
            ),
            **valued("-u --set-upstream-to", _REVISION),
            **valued("--sort", r"-?(committerdate|authordate|creatordate|refname|objectname|version:refname|upstream)"),
            **optional("--contains", _REVISION),
            **optional("--no-contains", _REVISION),
            **optional("--merged", _REVISION),
            **optional("--no-merged", _REVISION),
            **valued("--points-at", _REVISION),
            **optional("--abbrev", _NUMBER),
        },
        words=ArgumentKind.NAMES,
        ours=("--no-color", "--no-column"),
        takes_paths=False,
        reasons={
            **dict.fromkeys(("-D", "-M", "-C", "-f", "--force"), _LOST_WORK),
            "--edit-description": _PERSON,
        },
    ),
    "checkout": Rule(
        options={
            **flags("-q --quiet -d --detach -t --track --no-track --guess --no-guess --ours --theirs"),
            **valued("-b", _REVISION),
            **valued("--orphan", _REVISION),
        },
        words=ArgumentKind.REVISIONS,
        looks_within=True,
        ours=("--no-recurse-submodules", "--no-progress", _NO_LOOK_AFTERWARDS),
        most_words=1,
        reasons={
            **dict.fromkeys(("-f", "--force", "-B"), _LOST_WORK),
            **dict.fromkeys(("-p", "--patch"), _PERSON),
            "--pathspec-from-file": _READS_FILE,
        },
    ),
    "pull": Rule(
        options={
            **_PULL_AND_FETCH,
            **flags("--ff --ff-only --no-ff -r --no-rebase --commit --no-commit --no-edit --autostash --no-autostash"),
            **flags("--stat -n --no-stat --squash --no-squash --allow-unrelated-histories"),
            **optional("--rebase", "true|false|merges"),
        },
        words=ArgumentKind.REMOTE,
        looks_within=True,
        ours=("--no-recurse-submodules",),
        takes_paths=False,
        reasons={
            **dict.fromkeys(("-f", "--force"), _LOST_WORK),
            **dict.fromkeys(("-s", "--strategy", "-X", "--strategy-option"), "a strategy may be a program"),
            **dict.fromkeys(("-S", "--gpg-sign"), "commits are not signed here"),
            **_NETWORK_REASONS,
        },
    ),
    "fetch": Rule(
        options={**_PULL_AND_FETCH, **flags("--all -n --atomic")},
        words=ArgumentKind.REMOTE,
        ours=("--no-recurse-submodules",),
        takes_paths=False,
        reasons={**dict.fromkeys(("-f", "--force", "-u", "--update-head-ok"), _LOST_WORK), **_NETWORK_REASONS},
    ),
}
"""All but stash, whose first word says what is done."""

_STASH_RULES: Final = {
    "push": Rule(
        options={
            **flags("-k --keep-index --no-keep-index -S --staged -u --include-untracked -q --quiet"),
            **valued("-m --message", ".+"),
        },
        words=ArgumentKind.PATHS,
        looks_within=True,
        reasons={
            **dict.fromkeys(("-a", "--all"), "it takes files away that the repository does not keep"),
            **dict.fromkeys(("-p", "--patch"), _PERSON),
            "--pathspec-from-file": _READS_FILE,
        },
    ),
    "list": Rule(
        options={**flags("--oneline"), **valued("-n --max-count", _NUMBER)},
        words=ArgumentKind.NAMES,
        ours=_NO_PROGRAMS,
        takes_paths=False,
        most_words=0,
    ),
    "show": Rule(
        options={**_DIFF, **flags("--include-untracked --only-untracked")},
        words=ArgumentKind.NAMES,
        ours=_NO_PROGRAMS,
        takes_paths=False,
        most_words=1,
        reasons=_DIFF_REASONS,
    ),
    **dict.fromkeys(
        ("pop", "apply"),
        Rule(
            options=flags("--index -q --quiet"),
            words=ArgumentKind.NAMES,
            ours=(_NO_LOOK_AFTERWARDS,),
            takes_paths=False,
            looks_within=True,
            most_words=1,
        ),
    ),
    "drop": Rule(options=flags("-q --quiet"), words=ArgumentKind.NAMES, takes_paths=False, most_words=1),
}

SUBCOMMANDS: Final = (*RULES, "stash")


def understood(subcommand: str, arguments: Sequence[str]) -> Parsed:
    """What a model said to git.

    Raises:
        Refused: It is not allowed, or makes no sense; the message says what and why.
    """
    if subcommand == "stash":
        return _stash(arguments)
    if subcommand not in RULES:
        raise ToolRefused(f"git {subcommand} is not allowed. Allowed are: {', '.join(SUBCOMMANDS)}.")
    parsed = parse([subcommand], RULES[subcommand], arguments)
    if subcommand == "commit" and not parsed.has("--message", "--amend", "--reuse-message", "--fixup"):
        raise ToolRefused("git commit needs a message: -m and the text, as two arguments.")
    return parsed


def _stash(arguments: Sequence[str]) -> Parsed:
    does, left = (
        (arguments[0], arguments[1:]) if arguments and not arguments[0].startswith("-") else ("push", arguments)
    )
    if does not in _STASH_RULES:
        raise ToolRefused(f"git stash {does} is not allowed. Allowed are: {', '.join(_STASH_RULES)}.")
    parsed = parse(["stash", does], _STASH_RULES[does], left)
    if parsed.rule.words is ArgumentKind.NAMES and not all(re.fullmatch(_STASH_NAME, word) for word in parsed.words):
        raise ToolRefused("A stash is named like stash@{0}.")
    return parsed
