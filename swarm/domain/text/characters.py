"""Characters that no reader sees: they carry text past people, and commands into terminals and models.

Everything invisible is removed: control and format characters, tags, fillers, bidi controls and variation selectors.
Visible scripts and emoji need three of them, which stay only where they do their work, so that a row of them can spell
nothing:

- one VS15 or VS16 directly behind a symbol, or behind a digit, ``#`` or ``*`` of a keycap;
- one Mongolian selector directly behind a Mongolian letter;
- one ZWJ or ZWNJ between two letters of a script that joins its letters, or between two symbols.

The selectors VS1 to VS14 and VS17 to VS256 never stay: behind an ideograph each of them is one of 240 values, a byte,
and without it the ideograph is only drawn in its usual form.

Text for models: the one function on the way to each of them.

Text for terminals.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

_BREAKS: Final = "\r\v\f\x85\u2028\u2029"
_IGNORED: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The categories Cc and Cf and what Unicode calls default-ignorable, but not the visible signs among Cf."""

_LINE_BREAK: Final = re.compile(f"\r\n|[{_BREAKS}]")
_RUN: Final = re.compile(f"[{_IGNORED}]+")
_UNCLEAN: Final = re.compile(f"[{_BREAKS}{_IGNORED}\ud800-\udfff]")

_JOINERS: Final = frozenset("\u200c\u200d")
_EMOJI_STYLES: Final = frozenset("\ufe0e\ufe0f")
_MONGOLIAN_STYLES: Final = frozenset("\u180b\u180c\u180d\u180f")
_SYMBOLS: Final = frozenset({"So", "Sm", "Sk"})
_MORE_SYMBOLS: Final = frozenset("\u203c\u2049\u2139\u3030")  # emoji of other categories: ‼ ⁉ ℹ 〰
_KEYCAP: Final = "\u20e3"
_KEPT_OF_RUN: Final = 2  # no decision looks at more of a run


def strip_invisible(text: str) -> str:
    """Text as a reader sees it.

    Every kind of line break becomes ``\\n``, tabs stay, a lone surrogate becomes U+FFFD. What is left can be encoded,
    and it has no line that only some programs take for one. Cleaning twice changes nothing.
    """
    return _stripped(text, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Visible:
    """`strip_invisible` for a text that comes in pieces: together they give what the whole gives."""

    last: str = ""  # the last character given
    held: str = ""  # what the next character decides about; a few characters at most

    def feed(self, text: str) -> tuple[Visible, str]:
        """What of the text is decided."""
        if not self.held and not _UNCLEAN.search(text):
            return (replace(self, last=text[-1]) if text else self), text
        text = self.held + text
        end = _decided(text)
        shown = _stripped(text[:end], self.last)
        held = _RUN.sub(lambda run: run.group()[:_KEPT_OF_RUN], text[end:])
        return Visible(last=shown[-1:] or self.last, held=held), shown

    def end(self) -> tuple[Visible, str]:
        """Nothing follows: what was held back is decided as well."""
        shown = _stripped(self.held, self.last)
        return Visible(last=shown[-1:] or self.last), shown


def _stripped(text: str, before: str) -> str:
    """The visible text, behind the character ``before``."""
    if not _UNCLEAN.search(text):
        return text
    text = _LINE_BREAK.sub("\n", _well_formed(text))
    return _RUN.sub(lambda run: _kept(run, before), text)


def _well_formed(text: str) -> str:
    """Surrogate pairs become the character they mean, lone surrogates U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _decided(text: str) -> int:
    """Where the end begins that the next character may change."""
    end = len(text)
    if text and (text[-1] == "\r" or "\ud800" <= text[-1] <= "\udbff"):
        end -= 1
    while end and _RUN.match(text, end - 1):
        end -= 1
    return end


def _kept(run: re.Match[str], before: str) -> str:
    """What of a row of invisible characters does its work here."""
    before = run.string[run.start() - 1] if run.start() else before
    after = run.string[run.end() : run.end() + 1]
    style, rest = "", run.group()
    if rest[0] in _EMOJI_STYLES | _MONGOLIAN_STYLES and _takes_style(before, rest[0], after):
        style, rest = rest[0], rest[1:]
    joins = rest[:1] in _JOINERS and bool(rest) and _may_join(before, after)
    return style + rest[0] if joins else style


def _takes_style(before: str, style: str, after: str) -> bool:
    if style in _MONGOLIAN_STYLES:
        return "\u1820" <= before <= "\u18aa"
    if before in "0123456789#*":
        return bool(before) and after == _KEYCAP
    return before in _MORE_SYMBOLS or _is_symbol(before)


def _may_join(before: str, after: str) -> bool:
    if not before or not after:
        return False
    return any(fits(before) and fits(after) for fits in (_is_symbol, _joins_letters))


def _is_symbol(character: str) -> bool:
    return character > "\x7f" and unicodedata.category(character) in _SYMBOLS


def _joins_letters(character: str) -> bool:
    """Hebrew and Arabic to Mongolian, the later Indic blocks, and those beyond the basic plane."""
    return (
        "\u0590" <= character <= "\u1cff"
        or "\ua840" <= character <= "\uabff"
        or "\U00010a00" <= character <= "\U00011fff"
    )


def for_model(text: str) -> str:
    """Text as a model may have it: what a person sees of it, and nothing else. Otherwise it stays as it is."""
    return strip_invisible(text)


def data_for_model(value: Any) -> Any:
    """JSON-like data with every text in it as `for_model` gives it, names of fields included."""
    match value:
        case str():
            return for_model(value)
        case Mapping():
            return {data_for_model(name): data_for_model(part) for name, part in value.items()}
        case list() | tuple():
            return [data_for_model(part) for part in value]
        case _:
            return value


def for_terminal(text: object) -> str:
    """Text that commands no terminal: without escapes, control and invisible characters, with its line breaks.

    What rich would read as its own markup is no concern of this function: consoles print it with ``markup=False``.
    """
    return strip_invisible(str(text))


def line_for_terminal(text: object) -> str:
    """The same on one line."""
    return " ".join(for_terminal(text).split())
