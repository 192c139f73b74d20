"""Makes streamed text safe: each piece is shown as soon as later text can no longer change its meaning.

The output equals ``safe`` of the complete text without its markers, however it is divided into pieces. All rules of
``safe`` apply to single lines, except for the fences of code blocks, so complete lines are settled. In an unfinished
line, the part up to the last blank is settled, unless later text may still turn it into markup or code: an unclosed
``<`` or backtick, an address, the beginning of a fence or of a quote. When the agent pauses inside a word, ``release``
settles the part of the word whose meaning is certain.

`_Markers` removes agents' control markers, which people should not see, such as ``[FINAL ANSWER]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from swarm.domain.model.runs import SilentEnd
from swarm.domain.text.cutting import INLINE_CODE, after_line
from swarm.domain.text.slack_text import DEFINITION, MARKDOWN_LINK, MAY_BE_MARKDOWN_LINK, inert, prose
from swarm_base.characters import Visible, strip_invisible
from swarm_base.secrets import Secrets

_FIXED: Final = ("[FINAL ANSWER]", "[DEFER]", "[LOW_CONFIDENCE]", "[CONFIDENCE:")
_LONGEST: Final = 80
_MARKER = re.compile(r"\[(?:FINAL ANSWER|DEFER|LOW_CONFIDENCE|CONFIDENCE:[^\]\n]{0,64})\]", re.IGNORECASE)
_AFTER_MARKER = re.compile(r"[ \t]*\n?")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Markers:
    """Removal of markers from a text in pieces.

    A marker at the start of a line is removed with the blanks after it, and with the line break if the line is then
    empty.
    """

    held: str = ""  # possibly the beginning of a marker
    at_line_start: bool = True
    eats: bool = False  # removes blanks after a marker at the start of a line

    def feed(self, text: str) -> tuple[_Markers, str]:
        """Returns the text that is definitely not a marker, up to the possible beginning of a marker."""
        if not self.held and not self.eats and "[" not in text:
            return self._passed(text)
        text = self.held + text
        end = _may_begin(text)
        return replace(self, held=text[end:])._without(text[:end])

    def end(self) -> tuple[_Markers, str]:
        """Returns the text held back, which was not a marker."""
        return replace(self, held="")._without(self.held)

    def _without(self, text: str) -> tuple[_Markers, str]:
        kept: list[str] = []
        state, at = self, 0
        for found in _MARKER.finditer(text):
            state, piece = state._passed(text[at : found.start()])
            kept.append(piece)
            state = replace(state, eats=state.at_line_start)
            at = found.end()
        state, piece = state._passed(text[at:])
        return state, "".join([*kept, piece])

    def _passed(self, text: str) -> tuple[_Markers, str]:
        """Processes text without markers. Returns the next state and the text to show."""
        if self.eats and text:
            blank = _AFTER_MARKER.match(text)
            end = blank.end() if blank else 0
            goes_on = end == len(text) and not text.endswith("\n")
            text = text[end:]
            if not text:
                return replace(self, eats=goes_on), ""
        ends_line = text.endswith("\n")
        if not text or (not self.eats and ends_line == self.at_line_start):
            return self, text
        return replace(self, eats=False, at_line_start=ends_line), text


def without_markers(text: str) -> str:
    """Removes the markers from a complete text."""
    state, begun = _Markers().feed(text)
    return begun + state.end()[1]


def withheld_by(text: str) -> SilentEnd | None:
    """Returns why a complete answer is not shown if nobody has asked for it: its agent has marked it so."""
    found = {marker.upper() for marker in _MARKER.findall(strip_invisible(text))}
    if "[DEFER]" in found:
        return SilentEnd.DEFERRED
    return SilentEnd.LOW_CONFIDENCE if "[LOW_CONFIDENCE]" in found else None


def _may_begin(text: str) -> int:
    """Returns the position of a possible unfinished marker; the text's length if there is none."""
    start = text.rfind("[", max(0, len(text) - _LONGEST))
    if start >= 0 and _is_beginning(text[start:].upper()):
        return start
    return len(text)


def _is_beginning(piece: str) -> bool:
    if "]" in piece or "\n" in piece:
        return False
    return any(marker.startswith(piece) for marker in _FIXED) or piece.startswith("[CONFIDENCE:")


_LONGEST_CODE: Final = 1_020
"""A backtick not closed within this many characters does not start inline code."""

_LONGEST_TOKEN: Final = 3_000
"""A ``<`` or an address not closed within this many characters is shown as plain text."""

_LONGEST_WORD: Final = 80
"""A longer word is shown before its end, so that the cost of each piece stays constant."""

_MAY_BE_FENCE = re.compile(r"[ \t]*(?:`{0,2}|~{0,2}|(?:`{3,}|~{3,})[^\n]*)")
_MAY_BE_DEFINITION = re.compile(r"[ \t>\d.)*+-]{0,40}(?:\[[^\[\]\n]{0,999}\]?)?")
_MAY_BE_QUOTE = re.compile(r" {0,3}(?:>[ >]*)?")
_QUOTE = re.compile(r" {0,3}>(?: ?>)*")
_SPECIAL = re.compile(r"(?P<ticks>`+)|<|(?P<bracket>\[)|\bhttps?://\w[^\s<>`]*", re.IGNORECASE)
_END_OF_TOKEN = re.compile(r"[<>]")
_UP_TO_BREAK = re.compile(r"(?s:.*)(?:\s|[^\x00-\x7f])")
# Text that may become a ping, an address, inline code, emphasis or a mention, depending on the following text.
_UNDECIDED = re.compile(r"(?:@[a-z]*\.?|\bh(?:t(?:t(?:p(?:s?(?::/?/?)?)?)?)?)?|[`<*~]+)\Z", re.IGNORECASE)
_GOES_ON = re.compile(r"[a-z0-9.:/]", re.IGNORECASE)
_SCHEMES: Final = ("https://", "http://", "mailto:")
_ALIVE = re.compile(r"[&<>`@\[*~]|http", re.IGNORECASE)

_FindEnd = Callable[[str, int, int], int]
"""Returns the last position in a part of a text where a piece may end; 0 if there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _LineSoFar:
    """The settled beginning of the last line, as far as the rest of the line depends on it."""

    last: str = ""  # its last character; empty: nothing of the line is settled
    emphasis: tuple[str, ...] = ()  # the marks of emphasis that are open at its end


@dataclass(frozen=True, kw_only=True, slots=True)
class SafeText:
    """The state of a growing text. Only its last line is still open."""

    mentionable: frozenset[str] = frozenset()  # user ids that the text may mention
    visible: Visible = field(default_factory=Visible)
    markers: _Markers = field(default_factory=_Markers)
    secrets: Secrets = field(default_factory=Secrets)
    line: str = ""  # the unsettled part of the last line
    before: _LineSoFar = field(default_factory=_LineSoFar)
    opening: str | None = None  # the line that opened the current code block

    def feed(self, text: str) -> tuple[SafeText, str, str]:
        """Processes a piece. Returns the new state, the plain text without markers, and the newly settled text."""
        visible, text = self.visible.feed(text)
        markers, text = self.markers.feed(text)
        secrets, plain = self.secrets.feed(text)
        state, settled = replace(self, visible=visible, markers=markers, secrets=secrets)._take(plain)
        return state, plain, settled

    def end_line(self) -> tuple[SafeText, str, str]:
        """Settles the current line: no more text follows on it. Returns the same values as ``feed``."""
        visible, text = self.visible.end()
        markers, begun = self.markers.feed(text)
        markers, rest = markers.end()
        secrets, plain = self.secrets.feed(begun + rest)
        secrets, last_plain = secrets.end()
        plain += last_plain
        state, settled = replace(self, visible=visible, markers=markers, secrets=secrets)._take(plain)
        last, opening = state._whole(state.line, state.before, state.opening)
        before = replace(state.before, last=state.line[-1:] or state.before.last)
        return replace(state, line="", before=before, opening=opening), plain, settled + last

    def release(self) -> tuple[SafeText, str]:
        """Settles as much of an unfinished word as possible without changing its meaning. Used when the agent
        pauses.
        """
        end = _settled(self.line, self.before, self.opening, _last_decided)
        if not end:
            return self, ""
        piece, before = self._piece(self.line[:end], self.before, is_code=self.opening is not None)
        return replace(self, line=self.line[end:], before=before), piece

    def _take(self, plain: str) -> tuple[SafeText, str]:
        *whole, rest = (self.line + plain).split("\n")
        before, opening = self.before, self.opening
        pieces: list[str] = []
        for line in whole:
            piece, opening = self._whole(line, before, opening)
            pieces += [piece, "\n"]
            before = _LineSoFar()
        end = _settled(rest, before, opening)
        if end:
            piece, before = self._piece(rest[:end], before, is_code=opening is not None)
            pieces.append(piece)
        return replace(self, line=rest[end:], before=before, opening=opening), "".join(pieces)

    def _whole(self, line: str, before: _LineSoFar, opening: str | None) -> tuple[str, str | None]:
        """Settles the rest of a complete line. Returns it together with the code block that is open after the line."""
        if before.last:  # the line's beginning is settled, so the line is not a fence
            return self._piece(line, before, is_code=opening is not None)[0], opening
        opening, is_code = after_line(line, opening)
        return self._piece(line, before, is_code=is_code)[0], opening

    def _piece(self, text: str, before: _LineSoFar, *, is_code: bool) -> tuple[str, _LineSoFar]:
        """Makes part of a line safe, in the context of what precedes it. Returns also the context of what follows."""
        last, marks = text[-1:] or before.last, list(before.emphasis)
        if not _ALIVE.search(text):
            return text, replace(before, last=last)
        context = f"x{before.last}" if before.last else ""
        if is_code:
            return inert(context + text)[len(inert(context)) :], _LineSoFar(last=last)
        shown = prose(context + text, self.mentionable, marks)[len(prose(context, self.mentionable)) :]
        return shown, _LineSoFar(last=last, emphasis=tuple(marks))


def _after_blank(text: str, start: int, end: int) -> int:
    """Returns the position after the last blank or non-ASCII character, because both end every word."""
    found = _UP_TO_BREAK.match(text, start, end)
    return found.end() if found else 0


def _last_decided(text: str, start: int, end: int) -> int:
    """Returns the last position, even inside a word, before which later text changes nothing."""
    while end > start and (found := _UNDECIDED.search(text, max(start, end - _LONGEST_WORD), end)):
        is_decided = end < len(text) and not _GOES_ON.match(text, end)
        if is_decided and text[end - 1] not in "`<*~":
            break
        end = found.start()
    return end if end > start else 0


def _settled(rest: str, before: _LineSoFar, opening: str | None, find: _FindEnd = _after_blank) -> int:
    """Returns the length of the settled part of an unfinished line."""
    if not before.last and any(begun.fullmatch(rest) for begun in (_MAY_BE_FENCE, _MAY_BE_QUOTE, _MAY_BE_DEFINITION)):
        return 0
    if opening is not None:
        end = find(rest, 0, len(rest))
    else:
        quote = None if before.last else _QUOTE.match(rest)
        end = _outside_of_open(rest, quote.end() if quote else 0, find)
    if not before.last and opening is None and (begun := DEFINITION.match(rest)):
        end = max(end, begun.end())  # it is one only as a whole
    if end or len(rest) <= _LONGEST_WORD or find is _last_decided:
        return end
    return _settled(rest, before, opening, _last_decided)


def _outside_of_open(rest: str, at: int, find: _FindEnd) -> int:
    """Returns the last possible end after ``at`` that precedes all open constructs in a line of prose."""
    settled, looked = 0, at
    while found := _SPECIAL.search(rest, looked):
        end = _end_of_special(rest, found)
        if found["bracket"] and end == found.end():
            looked = end  # an ordinary character
            continue
        settled = find(rest, at, found.start()) or settled
        if end is None:
            return settled
        at = looked = end
    return find(rest, at, len(rest)) or settled


def _end_of_special(rest: str, found: re.Match[str]) -> int | None:
    """Returns the definite end of the construct that begins here; None while later text may change it."""
    open_for = len(rest) - found.start()
    if found["ticks"]:
        code = INLINE_CODE.match(rest, found.start())
        if code and code.end() < len(rest):
            return code.end()
        return found.end() if open_for > _LONGEST_CODE else None
    if found["bracket"]:
        link = MARKDOWN_LINK.match(rest, found.start())
        if link:
            return link.end()
        return None if _may_be_link(rest, found.start()) else found.end()
    if found.group() == "<":
        end = _END_OF_TOKEN.search(rest, found.end())
        if end:
            return end.end() if end.group() == ">" else found.end()
        return found.end() if open_for > _LONGEST_TOKEN else None
    if found.end() < len(rest):
        return found.end()
    return found.start() + len("http") if open_for > _LONGEST_TOKEN else None


def _may_be_link(rest: str, at: int) -> bool:
    """Whether the rest of the line may turn this beginning into a link."""
    found = MAY_BE_MARKDOWN_LINK.match(rest, at)
    begun = (found["begun"] or "").lower() if found else ""
    return found is not None and any(begun.startswith(scheme[: len(begun)]) for scheme in _SCHEMES)
