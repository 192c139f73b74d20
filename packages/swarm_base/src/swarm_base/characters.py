"""Invisible characters, which can hide text from people and send commands to terminals and models.

`strip_invisible` removes them all: control and format characters, tags, fillers, bidi controls and variation
selectors. Visible scripts and emoji need three kinds of them. These stay only in the positions where they are
needed, so that a sequence of them cannot encode a message:

- one VS15 or VS16 directly after a symbol, or after a digit, ``#`` or ``*`` of a keycap;
- one Mongolian selector directly after a Mongolian letter;
- one ZWJ or ZWNJ between two letters of a joining script, or between two symbols.

The selectors VS1 to VS14 and VS17 to VS256 are always removed: each is one of 240 values after an ideograph and so
encodes a byte. Without it the ideograph is only drawn in its usual form.

`for_model`, `data_for_model` and `for_terminal` prepare text for these readers. `marked` is for people who approve a
text: nothing is removed, and what they could not see is named.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

_BREAKS: Final = "\r\v\f\x85\u2028\u2029"
_IGNORED: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The categories Cc and Cf and Unicode's default-ignorable characters, except for the visible characters of Cf."""

_LINE_BREAK: Final = re.compile(f"\r\n|[{_BREAKS}]")
_RUN: Final = re.compile(f"[{_IGNORED}]+")
_UNCLEAN: Final = re.compile(f"[{_BREAKS}{_IGNORED}\ud800-\udfff]")

_ESCAPE: Final = re.compile(rb"\\[bfru]")
"""JSON's escapes of invisible characters. An escaped backslash before one of these letters looks the same."""

_TERMINAL_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[ -/]*[0-~]"
)

_PRINTABLE_ASCII: Final = bytes(range(0x20, 0x7F))

_JOINERS: Final = frozenset("\u200c\u200d")
_EMOJI_STYLES: Final = frozenset("\ufe0e\ufe0f")
_MONGOLIAN_STYLES: Final = frozenset("\u180b\u180c\u180d\u180f")
_SYMBOLS: Final = frozenset({"So", "Sm", "Sk"})
_MORE_SYMBOLS: Final = frozenset("\u203c\u2049\u2139\u3030")  # emoji of other categories: ‼ ⁉ ℹ 〰
_KEYCAP: Final = "\u20e3"
_KEPT_OF_RUN: Final = 2  # decisions consider only this many characters of a run

MAX_BLANKS: Final = 16
MAX_INDENTATION: Final = 40
"""The maximum numbers of blanks in a row that `marked` leaves, inside of a line and at its beginning."""

_TAB_WIDTH: Final = 4
_UNSEEN: Final = re.compile(
    f"(?P<one>[{_BREAKS}{_IGNORED}\\ud800-\\udfff\\xa0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000"
    "\\ue000-\\uf8ff\\U000f0000-\\U0010ffff\\u27e8])(?P=one)*"
)
"""What `marked` names: also blanks beyond ASCII, private characters, and the bracket that opens its own marks."""

_BLANK: Final = re.compile(f"[{_BREAKS}{_IGNORED}\\ud800-\\udfff\\u2800]")

_STACK: Final = re.compile(r"[^\w\x00-\x7f]{5,}")
_MAX_STACK: Final = 4
"""The maximum number of marks on one letter, which `marked` leaves. More of them cover the lines around."""

_EMPTY_LINES: Final = re.compile(r"^(?:[ \t]*\n){4,}", re.MULTILINE)
_MANY_BLANKS: Final = re.compile(r"[ \t]{5,}")
_CONTROLS: Final = {
    "\0": "null",
    "\b": "backspace",
    "\v": "vertical tab",
    "\f": "form feed",
    "\r": "carriage return",
    "\x1b": "escape",
    "\x7f": "delete",
    "\x85": "next line",
}


def strip_invisible(text: str) -> str:
    """Returns the visible text.

    All line breaks become ``\\n``, tabs stay, a lone surrogate becomes U+FFFD. The result can be encoded and has no
    line breaks that only some programs recognise. Idempotent.
    """
    if text.isascii() and text.isprintable():  # several times as fast as the search
        return text
    return _stripped(text, "")


def is_blank(text: str) -> bool:
    """Whether a text shows nothing."""
    return not _BLANK.sub("", text).strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class Visible:
    """`strip_invisible` for a text in pieces: the joined outputs equal the output for the complete text."""

    last: str = ""  # the last character of the output
    held: str = ""  # at most a few characters, which depend on the next one

    def feed(self, text: str) -> tuple[Visible, str]:
        """Processes a piece. Returns the decided part of the text."""
        if not self.held and not _UNCLEAN.search(text):
            return (replace(self, last=text[-1]) if text else self), text
        text = self.held + text
        end = _decided(text)
        shown = _stripped(text[:end], self.last)
        held = _RUN.sub(lambda run: run.group()[:_KEPT_OF_RUN], text[end:])
        return Visible(last=shown[-1:] or self.last, held=held), shown

    def end(self) -> tuple[Visible, str]:
        """Ends the text. Returns the part held back."""
        shown = _stripped(self.held, self.last)
        return Visible(last=shown[-1:] or self.last), shown


def _stripped(text: str, before: str) -> str:
    """Returns the visible text that follows the character ``before``."""
    if not _UNCLEAN.search(text):
        return text
    text = _LINE_BREAK.sub("\n", _well_formed(text))
    return _RUN.sub(lambda run: _kept(run, before), text)


def _well_formed(text: str) -> str:
    """Replaces surrogate pairs with their character, and lone surrogates with U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _decided(text: str) -> int:
    """Returns the start of the undecided part at the end, which depends on the next character."""
    end = len(text)
    if text and (text[-1] == "\r" or "\ud800" <= text[-1] <= "\udbff"):
        end -= 1
    while end and _RUN.match(text, end - 1):
        end -= 1
    return end


def _kept(run: re.Match[str], before: str) -> str:
    """Returns the characters of an invisible run that are needed for visible text."""
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
    """Whether a letter belongs to a joining script: Hebrew and Arabic to Mongolian, the later Indic blocks, and the
    joining scripts beyond the basic plane.
    """
    return (
        "\u0590" <= character <= "\u1cff"
        or "\ua840" <= character <= "\uabff"
        or "\U00010a00" <= character <= "\U00011fff"
    )


def marked(text: str, *, is_line: bool = False) -> str:
    """Returns a text in which everything is seen: what is invisible, or moves other text out of sight, is named.

    ``⟨700 × space⟩`` stands for more than 16 blanks in a row (40 at the beginning of a line, where a tab counts as 4),
    ``⟨9 × empty line⟩`` for more than 3 empty lines, ``⟨U+202E right-to-left override⟩`` for a character that cannot be
    seen, for a blank that is not ASCII, for the fifth mark on a letter, and for ``⟨`` itself. ``is_line``: the text
    begins inside of a line.
    """
    if text.isascii() and text.isprintable() and "     " not in text:
        return text
    if has_one_line_ending(text):
        text = text.replace("\r\n", "\n")
    if not text.isascii() or not text.isprintable():
        text = _EMPTY_LINES.sub(_empty_lines, _STACK.sub(_lower, _UNSEEN.sub(_named, text)))
    return _MANY_BLANKS.sub(lambda run: _blanks(run, is_line=is_line), text)


def has_one_line_ending(text: str) -> bool:
    """Whether all lines end alike, so that nothing is lost if their endings are not shown."""
    return text.count("\r\n") in (0, text.count("\n"))


def _lower(stack: re.Match[str]) -> str:
    """Names the marks on a letter that are too many."""
    shown = ""
    for is_mark, run in groupby(stack.group(), key=lambda one: unicodedata.category(one) in ("Mn", "Me")):
        found = "".join(run)
        most = _MAX_STACK if is_mark else len(found)
        shown += found[:most] + "".join(_name(one, len([*same])) for one, same in groupby(found[most:]))
    return shown


def _named(run: re.Match[str]) -> str:
    one, times = run["one"], len(run.group())
    return one if times == 1 and _is_of_emoji(run) else _name(one, times)


@lru_cache(maxsize=1024)
def _name(one: str, times: int) -> str:
    name = _CONTROLS.get(one) or unicodedata.name(one, "unnamed character").lower()
    return f"⟨{f'{times:,} × ' if times > 1 else ''}U+{ord(one):04X} {name}⟩"


def _is_of_emoji(run: re.Match[str]) -> bool:
    """Whether a selector or a joiner only gives an emoji its form."""
    text, at, one = run.string, run.start(), run.group()
    before, after = text[max(at - 1, 0) : at], text[run.end() : run.end() + 1]
    if one in _EMOJI_STYLES:
        return bool(before) and _takes_style(before, one, after)
    before = text[max(at - 2, 0) : at - 1] if before in _EMOJI_STYLES else before
    return one == "\u200d" and bool(before and after) and _is_symbol(before) and _is_symbol(after)


def _empty_lines(run: re.Match[str]) -> str:
    return f"⟨{run.group().count(chr(10)):,} × empty line⟩\n"


def _blanks(run: re.Match[str], *, is_line: bool) -> str:
    blanks, before = run.group(), run.string[max(run.start() - 2, 0) : run.start()]
    if run.start() < 2 and not is_line:
        before = "\n" + before
    is_indentation = before.endswith("\n") or before in ("\n+", "\n-")  # in a diff, after the sign
    counts = {"space": blanks.count(" "), "tab": blanks.count("\t")}
    if counts["space"] + _TAB_WIDTH * counts["tab"] <= (MAX_INDENTATION if is_indentation else MAX_BLANKS):
        return blanks
    return f"⟨{', '.join(f'{count:,} × {name}' for name, count in counts.items() if count)}⟩"


def for_model(text: str) -> str:
    """Returns text for a model: the text visible to people, otherwise unchanged."""
    return strip_invisible(text)


def is_json_for_model(body: bytes) -> bool:
    """Whether `data_for_model` would change nothing in the data of a JSON text, as written by orjson. False if in
    doubt.

    Looking at the whole text takes a small part of the time of walking the data.
    """
    if _ESCAPE.search(body):
        return False
    rest = body.translate(None, _PRINTABLE_ASCII)
    return not rest or not _UNCLEAN.search(rest.decode())


def data_for_model(value: Any) -> Any:
    """Returns JSON-like data with `for_model` applied to every text, including field names."""
    match value:
        case str():
            return for_model(value)
        case None | bool() | int():  # checked before the slow check for a mapping
            return value
        case Mapping():
            return {data_for_model(name): data_for_model(part) for name, part in value.items()}
        case list() | tuple():
            return [data_for_model(part) for part in value]
        case _:
            return value


def without_escapes(text: str) -> str:
    """Returns text without the escape sequences of terminals, such as colours. `strip_invisible` would leave their
    visible parts.
    """
    return _TERMINAL_ESCAPE.sub("", text)


def for_terminal(text: object) -> str:
    """Returns text without terminal commands: no escapes, control or invisible characters; line breaks stay.

    Rich's markup is not removed: consoles print the result with ``markup=False``.
    """
    return strip_invisible(str(text))


def line_for_terminal(text: object) -> str:
    """Returns text without terminal commands on one line."""
    return " ".join(for_terminal(text).split())
