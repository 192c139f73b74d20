"""Sums expressed in words: finds the numbers and the tool for the calculation, and words the result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from swarm_lab.demo.rules.asked import Call

Number = int | float


class _Kind(StrEnum):
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    SUBTRACT = "subtract"
    ADD = "add"


_WORDS: Final = {
    _Kind.MULTIPLY: r"\btimes\b|\bmultipl\w*|\bproduct\b|[×*·]|(?<=\d)\s*x\s*(?=\d)",
    _Kind.DIVIDE: r"\bdivided?\b|\bquotient\b|[÷/]",
    _Kind.SUBTRACT: r"\bminus\b|\bsubtract\b|\bdifference\b|\s[-−]\s",
    _Kind.ADD: r"\bplus\b|\badd\b|\bsum\b|\+",
}
"""What people write for a sum, in words and signs."""

_BETWEEN: Final = {
    _Kind.MULTIPLY: "times",
    _Kind.DIVIDE: "divided by",
    _Kind.SUBTRACT: "minus",
    _Kind.ADD: "plus",
}
_TOOLS: Final = {
    _Kind.MULTIPLY: r"multipl",
    _Kind.DIVIDE: r"divi",
    _Kind.SUBTRACT: r"subtract",
    _Kind.ADD: r"\badd\b|_add\b|sum",
}
_NUMBER: Final = re.compile(r"(?<![\w.,])[-−]?\d+(?:[.,]\d+)?(?!\w)")
_IS_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
_SPELT: Final = tuple("zero one two three four five six seven eight nine ten eleven twelve".split())  # noqa: SIM905
_SPELT_WORD: Final = re.compile(rf"\b(?:{'|'.join(_SPELT)})\b", re.IGNORECASE)
_FROM: Final = re.compile(r"\bsubtract\b.*\bfrom\b", re.IGNORECASE)
_AND: Final = re.compile(r"\s*[,;?]\s+|\s+and\s+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sum:
    """A sum, which may be incomplete."""

    kind: _Kind
    numbers: tuple[Number, ...]

    @property
    def is_complete(self) -> bool:
        return len(self.numbers) == 2

    @property
    def question(self) -> str:
        """The question that completes the sum."""
        if not self.numbers:
            return "With which two numbers?"
        return f"I have {_shown(self.numbers[0])} so far. What is the other number?"

    def tool_in(self, tools: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Returns the name of the tool that calculates the sum."""
        fitting = (name for name, schema in tools.items() if re.search(_TOOLS[self.kind], name) and _takes_two(schema))
        return next(fitting, None)

    def call(self, tools: Mapping[str, Mapping[str, Any]]) -> Call | None:
        """Returns the call that calculates the sum, or None if the sum is incomplete or no tool exists."""
        name = self.tool_in(tools)
        if name is None or not self.is_complete:
            return None
        return Call(tool=name, arguments=dict(zip(tools[name]["required"], self.numbers, strict=True)))


def sums_in(text: str) -> Sequence[Sum]:
    """Returns the sums in a text. An incomplete sum is returned only if the text contains no other sum."""
    parts = [found for part in _AND.split(text) if (found := _sum(part))]
    if len(parts) > 1 and all(part.is_complete for part in parts):
        return parts
    whole = _sum(text)
    return [whole] if whole else []


def continued(text: str, begun: str) -> Sequence[Sum]:
    """Returns the sum begun in an earlier message, completed by a later one."""
    known, more = sums_in(begun), _numbers_in(text)
    if len(known) != 1 or known[0].is_complete or not more:
        return []
    numbers = (*known[0].numbers, *more)[:2]
    return [Sum(kind=known[0].kind, numbers=numbers)]


def told(tool: str, arguments: Mapping[str, object], result: str) -> str:
    """Returns a sentence with the result of a call."""
    numbers = tuple(value for value in arguments.values() if isinstance(value, int | float))
    kind = next((kind for kind in _Kind if re.search(_TOOLS[kind], tool)), None)
    if kind is None or len(numbers) != 2 or not _IS_NUMBER.fullmatch(result):
        return f"The result is **{result}**."
    first, second = map(_shown, numbers)
    return f"{first} {_BETWEEN[kind]} {second} is **{result}**."


def _numbers_in(text: str) -> tuple[Number, ...]:
    """Returns the numbers in a text in order of appearance, whether written in digits or words."""
    return tuple(_number(found) for found in _NUMBER.findall(_SPELT_WORD.sub(_digits, text)))


def _shown(number: Number) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def _sum(text: str) -> Sum | None:
    numbers = _numbers_in(text)
    kind = next((kind for kind in _Kind if re.search(_WORDS[kind], text, re.IGNORECASE)), None)
    if kind is None or len(numbers) > 2 or not (numbers or len(text.split()) < 4):
        return None
    return Sum(kind=kind, numbers=numbers[::-1] if kind is _Kind.SUBTRACT and _FROM.search(text) else numbers)


def _digits(found: re.Match[str]) -> str:
    return str(_SPELT.index(found.group().lower()))


def _number(text: str) -> Number:
    plain = text.replace("−", "-").replace(",", ".")
    return float(plain) if "." in plain else int(plain)


def _takes_two(schema: Mapping[str, Any]) -> bool:
    return len(schema.get("required") or ()) == 2
