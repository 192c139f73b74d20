"""What a model may say to git: subcommands, the options of each by their exact spelling, and what follows them.

Everything that is not listed is refused: abbreviated options, which git would complete; options that run programs or
read and write files elsewhere; and those that throw away what somebody may miss. What is allowed is written anew, one
option an argument and each value joined to its option, so that git cannot read it otherwise than we did.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from swarm.agents.tools.answers import ToolRefused

END_OF_OPTIONS: Final = "--"


class Value(enum.Enum):
    """Whether an option takes a value."""

    NONE = "none"
    OPTIONAL = "optional"  # only joined to the option: --ignored=matching, -uno
    REQUIRED = "required"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option, in all its spellings."""

    written: str  # how it is given to git
    value: Value = Value.NONE
    pattern: re.Pattern[str] | None = None  # which the whole value must match

    def given(self, value: str | None) -> str:
        """The argument for git.

        Raises:
            Refused: The value is missing, superfluous or not allowed.
        """
        if value is None:
            if self.value is Value.REQUIRED:
                raise ToolRefused(f"{self.written} needs a value.")
            return self.written
        if self.value is Value.NONE:
            raise ToolRefused(f"{self.written} takes no value.")
        if self.pattern is not None and not self.pattern.fullmatch(value):
            raise ToolRefused(f"{value!r} is not a value that {self.written} may have here.")
        return f"{self.written}={value}" if self.written.startswith("--") else f"{self.written}{value}"


class ArgumentKind(enum.Enum):
    """What the arguments that are no options are."""

    PATHS = "paths"
    REVISIONS = "revisions"  # commits and branches; paths come after "--"
    NAMES = "names"  # branches or stashes; no paths at all
    REMOTE = "remote"  # the name of a remote, then refspecs


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What may follow a subcommand."""

    options: Mapping[str, Option]
    words: ArgumentKind
    ours: tuple[str, ...] = ()  # options that we always give
    takes_paths: bool = True
    looks_within: bool = False  # git looks into submodules, and cannot be told not to
    most_words: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)  # why an option is refused, where that is worth a word


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """What a model said, taken apart."""

    rule: Rule
    command: tuple[str, ...]  # the subcommand; for a stash also what to do with it
    options: tuple[str, ...]  # as they are given to git
    words: tuple[str, ...]  # what is no option, before "--"
    paths: tuple[str, ...]  # what comes after it

    def argv(self) -> list[str]:
        """The arguments for git."""
        paths = [END_OF_OPTIONS, *self.paths] if self.rule.takes_paths else []
        return [*self.command, *self.rule.ours, *self.options, *self.words, *paths]

    def has(self, *names: str) -> bool:
        """Whether one of these options, as it is given to git, was said."""
        return any(option.partition("=")[0] in names for option in self.options)


def parse(command: Sequence[str], rule: Rule, arguments: Iterable[str]) -> Parsed:
    """Take the arguments of a subcommand apart.

    Raises:
        Refused: One of them is not allowed; the message says which and why.
    """
    left = list(arguments)
    options: list[str] = []
    words: list[str] = []
    paths: list[str] = []
    while left:
        word = left.pop(0)
        if word == END_OF_OPTIONS:
            paths, left = left, []
        elif word == "-":
            words.append("@{-1}")  # the branch that was checked out before
        elif word.startswith("--"):
            options.append(_long(command, rule, word, left))
        elif word.startswith("-"):
            options += _short(command, rule, word, left)
        else:
            words.append(word)
    if rule.words is ArgumentKind.PATHS:
        words, paths = [], words + paths
    _check_counts(command, rule, words, paths)
    return Parsed(rule=rule, command=tuple(command), options=tuple(options), words=tuple(words), paths=tuple(paths))


def _long(command: Sequence[str], rule: Rule, word: str, left: list[str]) -> str:
    name, joined, value = word.partition("=")
    option = _option(command, rule, name)
    if joined:
        return option.given(value)
    return option.given(left.pop(0) if option.value is Value.REQUIRED and left else None)


def _short(command: Sequence[str], rule: Rule, word: str, left: list[str]) -> list[str]:
    """Options of one letter, several in one word; the last may have its value joined or in the next argument."""
    if re.fullmatch(r"-\d+", word) and "-n" in rule.options:
        return [rule.options["-n"].given(word[1:])]
    found: list[str] = []
    for place, letter in enumerate(word[1:], start=1):
        option = _option(command, rule, f"-{letter}")
        rest = word[place + 1 :]
        if option.value is not Value.NONE and rest:
            return [*found, option.given(rest)]
        found.append(option.given(left.pop(0) if option.value is Value.REQUIRED and left else None))
    return found


def _option(command: Sequence[str], rule: Rule, name: str) -> Option:
    if (option := rule.options.get(name)) is not None:
        return option
    said = " ".join(["git", *command, name])
    if name in rule.reasons:
        raise ToolRefused(f"{said} is not allowed: {rule.reasons[name]}.")
    raise ToolRefused(
        f"{said} is not allowed. Allowed options, to be spelt out: {' '.join(sorted(rule.options)) or 'none'}."
    )


def _check_counts(command: Sequence[str], rule: Rule, words: Sequence[str], paths: Sequence[str]) -> None:
    said = " ".join(["git", *command])
    if paths and not rule.takes_paths:
        raise ToolRefused(f"{said} takes no paths.")
    if rule.most_words is not None and len(words) > rule.most_words:
        raise ToolRefused(
            f"{said} takes at most {rule.most_words} arguments that are no options; paths come after '--'."
        )


def flags(names: str) -> dict[str, Option]:
    """Options without a value, by their spellings."""
    return {name: Option(written=name) for name in names.split()}


def valued(names: str, pattern: str | None = None, value: Value = Value.REQUIRED) -> dict[str, Option]:
    """The spellings of one option with a value; git is given the longest."""
    spellings = names.split()
    option = Option(
        written=max(spellings, key=len), value=value, pattern=re.compile(pattern, re.DOTALL) if pattern else None
    )
    return dict.fromkeys(spellings, option)


def optional(names: str, pattern: str) -> dict[str, Option]:
    """The spellings of one option that may have a value, joined to it."""
    return valued(names, pattern, Value.OPTIONAL)
