"""Safe text that comes in pieces: as soon as a piece can no longer change its meaning, it may be shown.

Whatever the pieces, what comes out is ``safe`` of the whole text without its markers. That works since every rule of
``safe`` looks at one line only, apart from the fences of code blocks: whole lines are settled. Of a line that is not
whole, what ends at a blank is settled, unless something may still become live or code: a ``<`` or a backtick that is
not closed, an address, the beginning of a fence or of a quote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from swarm.domain.code_blocks import INLINE_CODE, after_line
from swarm.domain.mrkdwn import inert, prose, tidied
from swarm.domain.streaming.markers import Markers

_LONGEST_CODE: Final = 1_020
"""A backtick that so many characters do not close is none of inline code."""

_LONGEST_TOKEN: Final = 3_000
"""A ``<`` that so many characters do not close is shown as it is."""

_MAY_BE_FENCE = re.compile(r"[ \t]*(?:`{0,2}|~{0,2}|(?:`{3,}|~{3,})[^\n]*)")
_MAY_BE_QUOTE = re.compile(r" {0,3}(?:>[ >]*)?")
_QUOTE = re.compile(r" {0,3}>(?: ?>)*")
_SPECIAL = re.compile(r"(?P<ticks>`+)|<|\bhttps?://\w[^\s<>`]*", re.IGNORECASE)
_END_OF_TOKEN = re.compile(r"[<>]")
_BREAK = re.compile(r"\s|[^\x00-\x7f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class SafeText:
    """What is known of a text so far, of which only the end is still open."""

    mentionable: frozenset[str] = frozenset()  # user ids that the text may mention
    carry: str = ""  # a carriage return or half a character, whose other half may follow
    markers: Markers = field(default_factory=Markers)
    line: str = ""  # what is not settled of the last line
    before: str = ""  # the last settled character of that line
    opening: str | None = None  # the line that opened the code block in which we are

    def feed(self, text: str) -> tuple[SafeText, str, str]:
        """Take a piece: the state after it, the plain text that it gave, without markers, and what is settled now."""
        text = self.carry + text
        keep = len(text) - 1 if text and _may_go_on(text[-1]) else len(text)
        markers, plain = self.markers.feed(tidied(text[:keep]))
        state, settled = replace(self, carry=text[keep:], markers=markers)._take(plain)
        return state, plain, settled

    def end_line(self) -> tuple[SafeText, str, str]:
        """Nothing more comes on this line: as ``feed``, and everything is settled."""
        markers, plain = self.markers.feed(tidied(self.carry))
        markers, rest = markers.end()
        state, settled = replace(self, carry="", markers=markers)._take(plain + rest)
        state, last = state._settle_line(state.line)
        return replace(state, line="", before=state.line[-1:] or state.before), plain + rest, settled + last

    def _take(self, plain: str) -> tuple[SafeText, str]:
        *whole, rest = (self.line + plain).split("\n")
        state = self
        pieces: list[str] = []
        for line in whole:
            state, piece = state._settle_line(line)
            pieces += [piece, "\n"]
            state = replace(state, before="")
        end = state._settled(rest)
        if end:
            pieces.append(state._piece(rest[:end], is_code=state.opening is not None))
            state = replace(state, before=rest[end - 1])
        return replace(state, line=rest[end:]), "".join(pieces)

    def _settle_line(self, line: str) -> tuple[SafeText, str]:
        """The rest of a line that is whole."""
        if self.before:  # its beginning was settled, so it is no fence
            return self, self._piece(line, is_code=self.opening is not None)
        opening, is_code = after_line(line, self.opening)
        return replace(self, opening=opening), self._piece(line, is_code=is_code)

    def _piece(self, text: str, *, is_code: bool) -> str:
        """A piece of a line as Slack may have it, seen behind what stands before it."""
        context = f"x{self.before}" if self.before else ""
        if is_code:
            return inert(context + text)[len(inert(context)) :]
        return prose(context + text, self.mentionable)[len(prose(context, self.mentionable)) :]

    def _settled(self, rest: str) -> int:
        """How much of an unfinished line is settled."""
        if not self.before and (_MAY_BE_FENCE.fullmatch(rest) or _MAY_BE_QUOTE.fullmatch(rest)):
            return 0
        if self.opening is not None:
            return _last_break(rest, 0, len(rest))
        quote = None if self.before else _QUOTE.match(rest)
        return _outside_of_open(rest, quote.end() if quote else 0)


def _outside_of_open(rest: str, at: int) -> int:
    """The last good place to end, behind ``at``, before whatever is still open in a line of prose."""
    settled = 0
    while found := _SPECIAL.search(rest, at):
        settled = _last_break(rest, at, found.start()) or settled
        end = _end_of_special(rest, found)
        if end is None:
            return settled
        at = end
    return _last_break(rest, at, len(rest)) or settled


def _end_of_special(rest: str, found: re.Match[str]) -> int | None:
    """Where what begins here ends for certain; None while more of the line may change that."""
    open_for = len(rest) - found.start()
    if found["ticks"]:
        code = INLINE_CODE.match(rest, found.start())
        if code and code.end() < len(rest):
            return code.end()
        return found.end() if open_for > _LONGEST_CODE else None
    if found.group() == "<":
        end = _END_OF_TOKEN.search(rest, found.end())
        if end:
            return end.end() if end.group() == ">" else end.start()
        return found.end() if open_for > _LONGEST_TOKEN else None
    return found.end() if found.end() < len(rest) else None


def _last_break(text: str, start: int, end: int) -> int:
    """Behind the last blank or character beyond ASCII in a stretch; 0 if there is none. Such end every word."""
    for position in range(end, start, -1):
        if _BREAK.match(text, position - 1):
            return position
    return 0


def _may_go_on(character: str) -> bool:
    return character == "\r" or "\ud800" <= character <= "\udbff"
