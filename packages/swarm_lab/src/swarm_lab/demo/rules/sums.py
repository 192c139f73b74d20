"""Sums expressed in words, in a few languages: finds the numbers and the tool for the calculation, and words the
result."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """The words that a language uses for sums."""

    marks: str  # words that identify the language
    wanted: Mapping[_Kind, str]  # words that identify the sum
    told: Mapping[_Kind, str]  # words between the numbers
    equals: str
    other_number: str
    both_numbers: str
    result: str


_ENGLISH: Final = Language(
    marks=r"\b(what|is|times|multiply|add|please|by)\b",
    wanted={
        _Kind.MULTIPLY: r"\btimes\b|\bmultipl\w*|\bproduct\b",
        _Kind.DIVIDE: r"\bdivided?\b|\bquotient\b",
        _Kind.SUBTRACT: r"\bminus\b|\bsubtract\b|\bdifference\b",
        _Kind.ADD: r"\bplus\b|\badd\b|\bsum\b",
    },
    told={_Kind.MULTIPLY: "times", _Kind.DIVIDE: "divided by", _Kind.SUBTRACT: "minus", _Kind.ADD: "plus"},
    equals="is",
    other_number="I have {known} so far. What is the other number?",
    both_numbers="With which two numbers?",
    result="The result is **{result}**.",
)

_OTHERS: Final = (
    Language(
        marks=r"\b(was|ist|wie|viel|mal|bitte|multipliziere|addiere|subtrahiere|geteilt)\b",
        wanted={
            _Kind.MULTIPLY: r"\bmal\b|\bmultiplizier\w*",
            _Kind.DIVIDE: r"\bgeteilt\b|\bdividier\w*|\bdurch\b",
            _Kind.SUBTRACT: r"\bminus\b|\bsubtrahier\w*",
            _Kind.ADD: r"\bplus\b|\baddier\w*",
        },
        told={_Kind.MULTIPLY: "mal", _Kind.DIVIDE: "geteilt durch", _Kind.SUBTRACT: "minus", _Kind.ADD: "plus"},
        equals="ist",
        other_number="Bisher habe ich {known}. Wie lautet die andere Zahl?",
        both_numbers="Mit welchen zwei Zahlen?",
        result="Das Ergebnis ist **{result}**.",
    ),
    Language(
        marks=r"\b(combien|font|fait|fois|quel|multiplie|ajoute|divise|divisé)\b",
        wanted={
            _Kind.MULTIPLY: r"\bfois\b|\bmultipli\w*",
            _Kind.DIVIDE: r"\bdivis\w*",
            _Kind.SUBTRACT: r"\bmoins\b|\bsoustra\w*",
            _Kind.ADD: r"\bplus\b|\bajout\w*",
        },
        told={_Kind.MULTIPLY: "fois", _Kind.DIVIDE: "divisé par", _Kind.SUBTRACT: "moins", _Kind.ADD: "plus"},
        equals="font",
        other_number="J'ai {known} pour l'instant. Quel est l'autre nombre ?",
        both_numbers="Avec quels deux nombres ?",
        result="Le résultat est **{result}**.",
    ),
    Language(
        marks=r"\b(cuánto|cuanto|es|son|por|multiplica|suma|resta|dividido)\b",
        wanted={
            _Kind.MULTIPLY: r"\bpor\b|\bmultiplic\w*",
            _Kind.DIVIDE: r"\bdividi?\w*|\bentre\b",
            _Kind.SUBTRACT: r"\bmenos\b|\bresta\w*",
            _Kind.ADD: r"\bmás\b|\bsuma\w*",
        },
        told={_Kind.MULTIPLY: "por", _Kind.DIVIDE: "dividido por", _Kind.SUBTRACT: "menos", _Kind.ADD: "más"},
        equals="son",
        other_number="De momento tengo {known}. ¿Cuál es el otro número?",
        both_numbers="¿Con qué dos números?",
        result="El resultado es **{result}**.",
    ),
)

_SIGNS: Final = {
    _Kind.MULTIPLY: r"[×*·]|(?<=\d)\s*x\s*(?=\d)",
    _Kind.DIVIDE: r"[÷/]",
    _Kind.ADD: r"\+",
    _Kind.SUBTRACT: r"\s[-−]\s",
}
_TOOLS: Final = {
    _Kind.MULTIPLY: r"multipl",
    _Kind.DIVIDE: r"divi",
    _Kind.SUBTRACT: r"subtract",
    _Kind.ADD: r"\badd\b|_add\b|sum",
}
_NUMBER: Final = re.compile(r"(?<![\w.,])[-−]?\d+(?:[.,]\d+)?(?!\w)")
_SPELT: Final = {
    word: number
    for spelt in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze",
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    )
    for number, word in enumerate(spelt.split())
}
_SPELT_WORD: Final = re.compile(rf"\b(?:{'|'.join(_SPELT)})\b", re.IGNORECASE)
_FROM: Final = re.compile(r"\b(?:subtract|subtrahiere|soustrais|resta)\b.*\b(?:from|von|de)\b", re.IGNORECASE)
_AND: Final = re.compile(r"\s*[,;?]\s+|\s+(?:and|und|et|y)\s+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sum:
    """A sum, which may be incomplete."""

    kind: _Kind
    numbers: tuple[Number, ...]
    language: Language

    @property
    def is_complete(self) -> bool:
        return len(self.numbers) == 2

    @property
    def question(self) -> str:
        """The question that completes the sum."""
        if not self.numbers:
            return self.language.both_numbers
        return self.language.other_number.format(known=_shown(self.numbers[0]))

    def told(self, result: str) -> str:
        """Returns a sentence with the sum and its result."""
        first, second = (_shown(number) for number in self.numbers)
        return f"{first} {self.language.told[self.kind]} {second} {self.language.equals} **{result}**."

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
    return [Sum(kind=known[0].kind, numbers=numbers, language=known[0].language)]


def sum_of(tool: str, arguments: Mapping[str, object], language: Language) -> Sum | None:
    """Returns the sum that a call calculates, or None for other calls."""
    numbers = tuple(value for value in arguments.values() if isinstance(value, int | float))
    kind = next((kind for kind in _Kind if re.search(_TOOLS[kind], tool)), None)
    return Sum(kind=kind, numbers=numbers, language=language) if kind and len(numbers) == 2 else None


def _numbers_in(text: str) -> tuple[Number, ...]:
    """Returns the numbers in a text in order of appearance, whether written in digits or words."""
    return tuple(_number(found) for found in _NUMBER.findall(_SPELT_WORD.sub(_digits, text)))


def is_number(text: str) -> bool:
    """Whether a text is a number and nothing else."""
    return bool(re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text))


def language_of(text: str) -> Language:
    """Returns the language of a text about sums; English by default."""
    told = [language for language in _OTHERS if re.search(language.marks, text, re.IGNORECASE)]
    return told[0] if told and not re.search(_ENGLISH.marks, text, re.IGNORECASE) else _ENGLISH


def _shown(number: Number) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def _sum(text: str) -> Sum | None:
    language, numbers = language_of(text), _numbers_in(text)
    kind = next((kind for kind in _Kind if _is_about(kind, text, language)), None)
    if kind is None or len(numbers) > 2 or not (numbers or len(text.split()) < 4):
        return None
    if kind is _Kind.SUBTRACT and _FROM.search(text):
        numbers = numbers[::-1]
    return Sum(kind=kind, numbers=numbers, language=language)


def _is_about(kind: _Kind, text: str, language: Language) -> bool:
    patterns = (language.wanted[kind], _SIGNS[kind])
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _digits(found: re.Match[str]) -> str:
    return str(_SPELT[found.group().lower()])


def _number(text: str) -> Number:
    plain = text.replace("−", "-").replace(",", ".")
    return float(plain) if "." in plain else int(plain)


def _takes_two(schema: Mapping[str, Any]) -> bool:
    return len(schema.get("required") or ()) == 2
