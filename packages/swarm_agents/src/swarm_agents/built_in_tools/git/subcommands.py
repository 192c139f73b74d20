"""The allowed arguments of git: a table of subcommands and their options, and the parser that applies it.

Everything outside the table is refused: abbreviated options, which git would complete; options that run programs or
read and write files elsewhere; and options that discard work that may be needed. Allowed arguments are rewritten, one
option per argument with each value joined to its option, so that git cannot read them differently from this parser.

An entry of the table is an option with its spellings, of which git receives the last: ``-q`` takes no value,
``-m,--message=TEXT`` requires one, ``--stat[=SIZES]`` may have one joined to it. A value is of a kind in `_VALUES`, or
one of the listed alternatives. ``!-q`` is passed to git with every call.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from swarm_agents.built_in_tools.work_tree import ToolRefused

_VALUES: Final = {
    "ANYTHING": r".*",
    "COMMIT": r"[^-:][^:]*",
    "DATE": r"[A-Za-z0-9:@/ .,+-]+",
    "DATE_FORMAT": r"[A-Za-z0-9:%/ .,+-]+",
    "FORMAT": r"(?!.*%G).*",  # %G and its variants would run gpg
    "LETTERS": r"[A-Za-z*]+",
    "MESSAGE": r".*\S.*",
    "NUMBER": r"\d{1,9}",
    "PERSON": r"[^<>\n]+ <[^<>\n]*>",
    "REVISION": r"[^-].*",
    "SHARE": r"\d+%?",
    "SHARES": r"[a-z0-9,.]+",
    "SIZES": r"\d+(,\d+){0,2}",
    "SORT_KEY": r"-?(committerdate|authordate|creatordate|refname|objectname|version:refname|upstream)",
    "TEXT": r".+",
}
_STASH: Final = re.compile(r"(stash@\{[^{}]+\}|\d+)")


class ArgumentKind(enum.Enum):
    """The meaning of the arguments that are not options."""

    PATHS = "paths"
    REVISIONS = "revisions"  # commits and branches; paths come after "--"
    BRANCHES = "branches"  # no paths
    STASHES = "stashes"  # no paths
    REMOTE = "remote"  # the name of a remote, then refspecs; no paths


@dataclass(frozen=True, kw_only=True, slots=True)
class _Option:
    """One option with all its spellings."""

    written: str  # as passed to git
    value: re.Pattern[str] | None = None  # matches the complete value; None if the option takes no value
    needs_value: bool = False  # otherwise a value is only read if it is joined to the option: --ignored=matching, -uno

    def given(self, value: str | None) -> str:
        """Returns the argument for git. Raises ToolRefused for a missing, superfluous or disallowed value."""
        if value is None and self.needs_value:
            raise ToolRefused(f"{self.written} needs a value.")
        if value is None:
            return self.written
        if self.value is None:
            raise ToolRefused(f"{self.written} takes no value.")
        if not self.value.fullmatch(value):
            raise ToolRefused(f"{value!r} is not an allowed value of {self.written} here.")
        return f"{self.written}={value}" if self.written.startswith("--") else f"{self.written}{value}"


class _Rule:
    """One subcommand with its arguments and options, in the notation of the table."""

    def __init__(
        self,
        command: str,  # the subcommand; for a stash, also the action
        words: ArgumentKind,
        options: str,
        *,
        looks_within: bool = False,  # git inspects submodules, and has no option to prevent it
        most_words: int | None = None,
        refused: Mapping[str, str] | None = None,  # options that are refused here, with the reason; see also `_NEVER`
    ) -> None:
        self.command = tuple(command.split())
        self.words = words
        self.takes_paths = words in (ArgumentKind.PATHS, ArgumentKind.REVISIONS)  # after "--"
        self.ours = tuple(entry[1:] for entry in options.split() if entry.startswith("!"))
        entries = (_option(entry) for entry in options.split() if not entry.startswith("!"))
        self.options = {name: option for names, option in entries for name in names}
        self.looks_within = looks_within
        self.most_words = most_words
        self.refused = refused or {}

    def option(self, name: str) -> _Option:
        """Returns the option for a spelling. Raises ToolRefused, with the reason or the list of allowed options."""
        if (option := self.options.get(name)) is not None:
            return option
        for reason, names in (*self.refused.items(), *_NEVER.items()):
            if name in names.split():
                raise ToolRefused(f"{self} {name} is not allowed: {reason}.")
        allowed = " ".join(sorted(self.options))
        raise ToolRefused(f"{self} {name} is not allowed. Allowed options, which must be written in full: {allowed}.")

    def __str__(self) -> str:
        return " ".join(["git", *self.command])


def _option(entry: str) -> tuple[list[str], _Option]:
    """Parses an entry of the table into its spellings and the option."""
    spellings, takes_value, value = entry.removesuffix("]").partition("=")
    names = spellings.removesuffix("[").split(",")
    pattern = _VALUES[value] if value.isupper() else "|".join(map(re.escape, value.split("|")))
    return names, _Option(
        written=names[-1],
        value=re.compile(pattern, re.DOTALL) if takes_value else None,
        needs_value=bool(takes_value) and not entry.endswith("]"),
    )


_NO_PROGRAMS: Final = "!--no-ext-diff !--no-textconv !--no-color !--ignore-submodules=dirty"
_DIFF: Final = (
    f"{_NO_PROGRAMS} -p -u --patch -s --no-patch --raw --shortstat --numstat --summary --name-only --name-status"
    " --compact-summary --minimal --patience --histogram --full-index --binary -a --text -w --ignore-all-space -b"
    " --ignore-space-change --ignore-space-at-eol --ignore-blank-lines -W --function-context -R --check --pickaxe-all"
    " --pickaxe-regex --no-renames --no-prefix --no-color --no-ext-diff --no-textconv --patch-with-stat -m --cc"
    " -U,--unified=NUMBER --inter-hunk-context=NUMBER --diff-algorithm=myers|minimal|patience|histogram"
    " --diff-filter=LETTERS -S=TEXT -G=TEXT --stat[=SIZES] --dirstat[=SHARES] --word-diff[=plain|porcelain|none]"
    " --color[=never] --abbrev[=NUMBER] -M[=SHARE] -C[=SHARE] --find-renames[=SHARE] --find-copies[=SHARE]"
)
_FETCH: Final = (
    "!--no-recurse-submodules -q --quiet -v --verbose -p --prune -t --tags --no-tags --dry-run --unshallow --progress"
    " --no-progress --depth=NUMBER --deepen=NUMBER"
)

_LOST_WORK: Final = "it discards changes or commits that exist nowhere else"
_PERSON: Final = "nobody can answer"
_READS_FILE: Final = "it reads a file; give its content as an argument"
_SERVER: Final = "options of the server are not passed on"
_STRATEGY: Final = "a strategy may be a program"
_UNSIGNED: Final = "commits are not signed here"

# fmt: off
_NEVER: Final = {
    _PERSON: "--interactive --edit --edit-description --reedit-message --patch",
    _READS_FILE: "-O --file --template --pathspec-from-file",
    _SERVER: "--push-option",
    _STRATEGY: "--strategy --strategy-option",
    _UNSIGNED: "-S --gpg-sign",
    "it names a program to run": "--upload-pack --receive-pack --exec",
    "it runs a program that the repository names": "--ext-diff --textconv",
    "it reads files that are not in the repository; use file-read": "--no-index",
    "it writes a file; use file-write": "--output",
    "name a remote instead": "--repo",
}
"""Options that are refused unless the table lists them, with the reason."""

_TABLE: Final = (
    _Rule("status", ArgumentKind.PATHS,
         "!--ignore-submodules=dirty -s --short -b --branch --long --show-stash --ahead-behind --no-ahead-behind"
         " --renames --no-renames --porcelain[=v1|v2|1|2] -u,--untracked-files[=no|normal|all]"
         " --ignored[=traditional|no|matching]"),
    _Rule("add", ArgumentKind.PATHS,
         "-A --all --no-all -u --update -n --dry-run -v --verbose -N --intent-to-add --refresh --chmod=+x|-x",
         looks_within=True,
         refused={"the repository's rules exclude such files from commits": "-f --force", _PERSON: "-i -p -e"}),
    _Rule("commit", ArgumentKind.PATHS,
         "!--no-gpg-sign -a --all -q --quiet -s --signoff --amend --no-edit --allow-empty --dry-run -n --no-verify"
         " --reset-author -o --only -i --include -m,--message=MESSAGE --author=PERSON --date=DATE"
         " -C,--reuse-message=REVISION --fixup=COMMIT",
         looks_within=True, refused={_READS_FILE: "-F -t", _PERSON: "-e -c -p"}),
    _Rule("push", ArgumentKind.REMOTE,
         "!--no-signed !--no-recurse-submodules -u --set-upstream -q --quiet -v --verbose -n --dry-run --tags"
         " --follow-tags --atomic --all --porcelain --no-verify --progress --no-progress",
         refused={_SERVER: "-o", "it removes what others have pushed; pull, then push the result":
                  "-f --force --force-with-lease --force-if-includes --mirror -d --delete --prune"}),
    _Rule("log", ArgumentKind.REVISIONS,
         f"{_DIFF} --oneline --graph --no-graph --all --merges --no-merges --first-parent --reverse --abbrev-commit"
         " --no-abbrev-commit --follow --full-history --simplify-by-decoration --topo-order --date-order"
         " --author-date-order --no-decorate --parents --children --left-right --cherry-pick --cherry-mark --cherry"
         " --boundary --no-notes -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp"
         " --all-match --invert-grep -g --walk-reflogs --root --relative-date -c -n,--max-count=NUMBER --skip=NUMBER"
         " --after,--since=ANYTHING --until,--before=ANYTHING --author=TEXT --committer=TEXT --grep=TEXT"
         " --date=DATE_FORMAT --format=FORMAT --pretty[=FORMAT] --decorate[=short|full|auto|no] --branches[=REVISION]"
         " --tags[=REVISION] --remotes[=REVISION]"),
    _Rule("diff", ArgumentKind.REVISIONS, f"{_DIFF} --cached --staged --merge-base"),
    _Rule("branch", ArgumentKind.BRANCHES,
         "!--no-color !--no-column -a --all -r --remotes -v --verbose -l --list --show-current -d --delete -m --move -c"
         " --copy -q --quiet -t --track --no-track --unset-upstream -i --ignore-case --no-color --no-column"
         " -u,--set-upstream-to=REVISION --sort=SORT_KEY --contains[=REVISION] --no-contains[=REVISION]"
         " --merged[=REVISION] --no-merged[=REVISION] --points-at=REVISION --abbrev[=NUMBER]",
         refused={_LOST_WORK: "-D -M -C -f --force"}),
    _Rule("checkout", ArgumentKind.REVISIONS,
         "!--no-recurse-submodules !--no-progress"
         " !-q"  # a report after the command would inspect submodules that came with the change
         " -q --quiet -d --detach -t --track --no-track --guess --no-guess --ours --theirs -b=REVISION"
         " --orphan=REVISION",
         looks_within=True, most_words=1, refused={_LOST_WORK: "-f --force -B", _PERSON: "-p"}),
    _Rule("pull", ArgumentKind.REMOTE,
         f"{_FETCH} --ff --ff-only --no-ff -r --no-rebase --commit --no-commit --no-edit --autostash --no-autostash"
         " --stat -n --no-stat --squash --no-squash --allow-unrelated-histories --rebase[=true|false|merges]",
         looks_within=True, refused={_LOST_WORK: "-f --force", _STRATEGY: "-s -X", _SERVER: "-o"}),
    _Rule("fetch", ArgumentKind.REMOTE, f"{_FETCH} --all -n --atomic",
         refused={_LOST_WORK: "-f --force -u --update-head-ok", _SERVER: "-o"}),
    _Rule("stash push", ArgumentKind.PATHS,
         "-k --keep-index --no-keep-index -S --staged -u --include-untracked -q --quiet -m,--message=TEXT",
         looks_within=True,
         refused={"it removes files that the repository does not track": "-a --all", _PERSON: "-p"}),
    _Rule("stash list", ArgumentKind.STASHES, f"{_NO_PROGRAMS} --oneline -n,--max-count=NUMBER", most_words=0),
    _Rule("stash show", ArgumentKind.STASHES, f"{_DIFF} --include-untracked --only-untracked", most_words=1),
    _Rule("stash pop", ArgumentKind.STASHES, "!-q --index -q --quiet", looks_within=True, most_words=1),
    _Rule("stash apply", ArgumentKind.STASHES, "!-q --index -q --quiet", looks_within=True, most_words=1),
    _Rule("stash drop", ArgumentKind.STASHES, "-q --quiet", most_words=1),
)
# fmt: on
RULES: Final = {" ".join(rule.command): rule for rule in _TABLE}
SUBCOMMANDS: Final = tuple(dict.fromkeys(rule.command[0] for rule in _TABLE))


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A parsed call."""

    rule: _Rule
    options: tuple[str, ...]  # as passed to git
    words: tuple[str, ...]  # arguments before "--" that are not options
    paths: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The subcommand; for a stash, also the action."""
        return self.rule.command

    def argv(self) -> list[str]:
        """Returns the arguments for git."""
        paths = ["--", *self.paths] if self.rule.takes_paths else []
        return [*self.command, *self.rule.ours, *self.options, *self.words, *paths]


def understood(subcommand: str, arguments: Sequence[str]) -> Parsed:
    """Parses a call.

    Raises:
        ToolRefused: The call is not allowed or not valid; the message contains the argument and the reason.
    """
    if subcommand not in SUBCOMMANDS:
        raise ToolRefused(f"git {subcommand} is not allowed. Allowed are: {', '.join(SUBCOMMANDS)}.")
    name = subcommand
    if subcommand == "stash":
        has_action = arguments and not arguments[0].startswith("-")
        action, arguments = (arguments[0], arguments[1:]) if has_action else ("push", arguments)
        if (name := f"stash {action}") not in RULES:
            actions = (rule.command[1] for rule in _TABLE if rule.command[0] == "stash")
            raise ToolRefused(f"git stash {action} is not allowed. Allowed are: {', '.join(actions)}.")
    parsed = _parse(RULES[name], arguments)
    _check(parsed)
    return parsed


def _parse(rule: _Rule, arguments: Sequence[str]) -> Parsed:
    left = list(arguments)
    options, words, paths = list[str](), list[str](), list[str]()
    while left:
        word = left.pop(0)
        if word == "--":
            paths, left = left, []
        elif word == "-":
            words.append("@{-1}")  # the branch that was checked out previously
        elif word.startswith("--"):
            name, joined, value = word.partition("=")
            options.append(_given(rule.option(name), value if joined else None, left))
        elif word.startswith("-"):
            options += _short(rule, word, left)
        else:
            words.append(word)
    if rule.words is ArgumentKind.PATHS:
        words, paths = [], words + paths
    return Parsed(rule=rule, options=tuple(options), words=tuple(words), paths=tuple(paths))


def _short(rule: _Rule, word: str, left: list[str]) -> Iterator[str]:
    """Yields single-letter options, several of which may share a word. The last one may have its value joined or in the
    next argument.
    """
    if re.fullmatch(r"-\d+", word) and "-n" in rule.options:
        word = f"-n{word[1:]}"
    for place, letter in enumerate(word[1:], start=2):
        option = rule.option(f"-{letter}")
        if option.value and word[place:]:
            yield option.given(word[place:])
            return
        yield _given(option, None, left)


def _given(option: _Option, joined: str | None, left: list[str]) -> str:
    """Returns the option for git. A required value that is not joined to it is taken from the remaining arguments."""
    return option.given(left.pop(0) if joined is None and option.needs_value and left else joined)


def _check(parsed: Parsed) -> None:
    rule, words = parsed.rule, parsed.words
    if parsed.paths and not rule.takes_paths:
        raise ToolRefused(f"{rule} takes no paths.")
    if rule.most_words is not None and len(words) > rule.most_words:
        raise ToolRefused(
            f"{rule} takes at most {rule.most_words} arguments that are not options; paths come after '--'."
        )
    if rule.words is ArgumentKind.STASHES and not all(map(_STASH.fullmatch, words)):
        raise ToolRefused("A stash is named like stash@{0}.")
    sources = ("--message=", "--amend", "--reuse-message=", "--fixup=")
    if parsed.command == ("commit",) and not any(option.startswith(sources) for option in parsed.options):
        raise ToolRefused("git commit needs a message: -m and the text, as two arguments.")
