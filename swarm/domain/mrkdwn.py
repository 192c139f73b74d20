"""Text on its way to and from Slack: made safe to post, cut to size, cleaned of what nobody can see.

Slack gives ``<…>`` a meaning (a link, a mention, a ping of everybody) and knows three escapes, ``&amp; &lt; &gt;``.
An agent's words are never trusted with that: everything is escaped, and only what has been checked is live again.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

MIN_LIMIT = 64
"""The smallest part, in characters, that ``cut`` and ``split`` make: a code fence opened and closed needs some room."""

# --- Characters ---------------------------------------------------------------------------------------------------

_LINE_BREAK = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Categories Cc and Cf and the whole block of tags, but neither the joiners U+200C and U+200D, which scripts and emoji
# need, nor the Arabic, Syriac and Kaithi signs of category Cf, which are visible.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def strip_invisible(text: str) -> str:
    """Text from people without characters that carry something no reader sees: tags, bidi controls, zero widths.

    Every kind of line break becomes ``\\n``; tabs, ZWJ, ZWNJ and variation selectors stay; a lone surrogate becomes
    U+FFFD. What is left can be encoded, and it has no line that only some programs take for one.
    """
    return _INVISIBLE.sub("", _LINE_BREAK.sub("\n", _well_formed(text)))


def preview(text: str, limit: int = 200) -> str:
    """The first ``limit`` characters of a message, without the invisible ones."""
    return strip_invisible(text)[:limit]


def _well_formed(text: str) -> str:
    """Surrogate pairs become the character they mean, lone surrogates U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# --- Code blocks --------------------------------------------------------------------------------------------------

_FENCE_LINE = re.compile(r"^(?P<fence>[ \t]*(?P<run>`{3,}|~{3,}))(?P<rest>[^\n]*)$", re.MULTILINE)
# Bounded, so that unpaired backticks in a very long line cost no more than its length.
_INLINE_CODE = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)")


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A fenced code block, by positions in the text."""

    begin: int  # the first character of the opening line
    inside: int  # the first character after the opening line
    close: int  # the first character of the closing line; the end of the text if there is none
    end: int  # after the closing fence
    opening: str  # the opening line with its info string
    fence: str  # the fence alone, indented as it was


def _code_blocks(text: str) -> list[_Block]:
    """The fenced blocks of a text in order; one that is never closed reaches to the end."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opening is None:
            opening = line if _opens(line) else None
        elif _closes(line, opening):
            blocks.append(_block(text, opening, line.start(), line.start("rest")))
            opening = None
    if opening is not None:
        blocks.append(_block(text, opening, len(text), len(text)))
    return blocks


def _opens(line: re.Match[str]) -> bool:
    return line["run"][0] == "~" or "`" not in line["rest"]


def _closes(line: re.Match[str], opening: re.Match[str]) -> bool:
    return line["run"].startswith(opening["run"]) and not line["rest"].strip()


def _block(text: str, opening: re.Match[str], close: int, end: int) -> _Block:
    inside = min(opening.end() + 1, len(text))
    return _Block(
        begin=opening.start(), inside=inside, close=close, end=end, opening=opening.group(), fence=opening["fence"]
    )


# --- Safe to post -------------------------------------------------------------------------------------------------

_WORD_JOINER = "\u2060"
# An @ before one of the names that ping everybody, unless it stands in an e-mail address such as bob@here.org.
_PING = re.compile(
    r"(?:(?<![a-z0-9])|(?!@[a-z]+\.[a-z0-9]))@(?=(?:channel|here|everyone|group)(?![a-z0-9]))", re.IGNORECASE
)
_PROSE = re.compile(
    rf"(?P<code>{_INLINE_CODE.pattern})"
    r"|(?P<quote>^ {0,3}>(?: ?>)*)"
    r"|<(?P<token>[^<>\n]*)>"
    r"|(?P<address>\bhttps?://\w[^\s<>`]*)",
    re.MULTILINE | re.IGNORECASE,
)
_MENTION = re.compile(r"@(?P<user>[UW][A-Z0-9]+)(?:\|.*)?")
_CHANNEL = re.compile(r"#(?P<channel>[CG][A-Z0-9]+)(?:\|.*)?")
_LINK = re.compile(r"(?P<url>(?:https?://\w|mailto:[^\s<>|`@]+@)[^\s<>|`]+)(?:\|(?P<label>[^|`]+))?", re.IGNORECASE)


def safe(text: str, mentionable: Container[str] = frozenset()) -> str:
    """Text of an agent as Slack may have it: a reader sees what the agent wrote, and nobody is pinged by it.

    ``&``, ``<`` and ``>`` are escaped, escapes that are in the text already included: call this once. Live again are
    http, https and mailto links, mentions of the user ids in ``mentionable``, channel links, and the ``>`` that makes
    a line a quote; in code nothing is. ``@channel`` and its like get a word joiner after the ``@``, in code too,
    since Slack decides where code ends. Control characters other than newline and tab are removed, every kind of
    line break becomes a newline, a lone surrogate becomes U+FFFD.
    """
    text = _CONTROL.sub("", _LINE_BREAK.sub("\n", _well_formed(text)))
    pieces: list[str] = []
    at = 0
    for block in _code_blocks(text):
        pieces += [_prose(text[at : block.begin], mentionable), _inert(text[block.begin : block.end])]
        at = block.end
    return "".join([*pieces, _prose(text[at:], mentionable)])


def escape(text: str) -> str:
    """The three characters that mean something to Slack, escaped its way."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    """The reverse of ``escape``, once: ``&amp;lt;`` becomes ``&lt;``."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _prose(text: str, mentionable: Container[str]) -> str:
    """Text outside code blocks. Searched once from left to right, so nothing that was escaped is looked at again."""
    pieces: list[str] = []
    at = 0
    for found in _PROSE.finditer(text):
        pieces += [_inert(text[at : found.start()]), _checked(found, mentionable)]
        at = found.end()
    return "".join([*pieces, _inert(text[at:])])


def _checked(found: re.Match[str], mentionable: Container[str]) -> str:
    if found["quote"]:
        return found.group()
    if found["address"]:
        return escape(found.group())
    live = _live(found["token"], mentionable) if found["token"] else None
    return _inert(found.group()) if live is None else live


def _live(token: str, mentionable: Container[str]) -> str | None:
    """What stood between ``<`` and ``>`` as Slack's markup, or None if it must stay plain text."""
    if mention := _MENTION.fullmatch(token):
        return f"<@{mention['user']}>" if mention["user"] in mentionable else None
    if channel := _CHANNEL.fullmatch(token):
        return f"<#{channel['channel']}>"
    # Links are often copied as Slack writes them, with & escaped; both spellings mean the same address.
    link = _LINK.fullmatch(unescape(token))
    if link is None or _INVISIBLE.search(link["url"]):
        return None
    label = _inert(strip_invisible(link["label"] or "").strip())
    return f"<{escape(link['url'])}|{label}>" if label else f"<{escape(link['url'])}>"


def _inert(text: str) -> str:
    return _PING.sub("@" + _WORD_JOINER, escape(text))


# --- Cut to size --------------------------------------------------------------------------------------------------

# Each starts where the last visible character before a break ends; the lookbehind keeps long blanks linear.
_PARAGRAPH = re.compile(r"(?<=\S)[^\S\n]*\n[^\S\n]*\n")
_LINE = re.compile(r"(?<=\S)[^\S\n]*\n")
_WORD = re.compile(r"(?<=\S)\s+")
_BLANK = re.compile(r"\s*")
_ATOM = re.compile(r"&(?:amp|lt|gt);|<[^<>\n]+>")
_LONGEST_CLUSTER = 32  # characters looked back for the start of what a reader sees as one


@dataclass(frozen=True, kw_only=True)
class Part:
    """One message's worth of a longer text."""

    gap: str  # whitespace between the part before and this one; it is shown nowhere
    opened: str  # the opening line of a code block that goes on from the part before, else empty
    body: str  # the text's own characters
    closed: str  # the closing line of a code block that goes on in the next part, else empty

    @property
    def text(self) -> str:
        """What is posted."""
        return self.opened + self.body + self.closed


def split(text: str, limit: int) -> list[str]:
    """The texts of ``cut``: what to post, one message each."""
    return [part.text for part in cut(text, limit)]


def join(parts: Iterable[Part]) -> str:
    """The text that was cut: ``join(cut(text, limit)) == text.rstrip()``."""
    return "".join(part.gap + part.body for part in parts)


def cut(text: str, limit: int) -> list[Part]:
    """A text in parts of at most ``limit`` characters, none of them blank; of a blank text there are none.

    A cut falls between paragraphs, else lines, else words, else anywhere, in the last three quarters of a part. It
    falls neither into an escape or a ``<…>`` (unless that alone is longer than a part) nor into what a reader sees as
    one character. A code block is closed at the end of a part and opened again, info string included, in the next;
    a block whose opening line takes more than a quarter of the limit is treated as plain text.

    :raises ValueError: ``limit`` is below ``MIN_LIMIT``.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"a part needs room for at least {MIN_LIMIT} characters, not {limit}")
    return list(_Cutter(text.rstrip(), limit).parts())


class _Spans:
    """Stretches of a text that are better not cut; they do not overlap."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = list(spans)

    def leave(self, position: int) -> int:
        """The start of the stretch that a cut here would divide, else the position itself."""
        index = bisect_left(self._spans, (position, 0)) - 1
        if index >= 0 and position < self._spans[index][1]:
            return self._spans[index][0]
        return position


class _Cutter:
    """One text being cut. It looks at each window of ``limit`` characters once, so the cost is linear."""

    def __init__(self, text: str, limit: int) -> None:
        self._text = text
        self._limit = limit
        self._blocks = [block for block in _code_blocks(text) if len(block.opening) <= limit // 4]
        self._begins = [block.begin for block in self._blocks]
        self._codes = _Spans(found.span() for found in _INLINE_CODE.finditer(text))
        self._atoms = _Spans(found.span() for found in _ATOM.finditer(text))

    def parts(self) -> Iterator[Part]:
        end = 0
        going_on: _Block | None = None
        while end < len(self._text):
            start = self._resume(end)
            opened = f"{going_on.opening}\n" if going_on else ""
            gap = self._text[end:start]
            end = self._end(start, start + self._limit - len(opened))
            going_on = self._block_at(end) if end < len(self._text) else None
            yield Part(gap=gap, opened=opened, body=self._text[start:end], closed=_closing(going_on))

    def _end(self, start: int, furthest: int) -> int:
        """Where the part that begins at ``start`` ends; ``furthest`` is the last position it could."""
        if len(self._text) <= furthest:
            return len(self._text)
        earliest = start + (furthest - start) // 4
        for pattern in (_PARAGRAPH, _LINE, _WORD):
            # A break may begin at the last position and go on after it; how far it goes is of no interest.
            breaks = [found.start() for found in pattern.finditer(self._text, earliest, furthest + self._limit)]
            for end in reversed(breaks):
                if end <= furthest and self._is_good(end, furthest):
                    return end
        return self._anywhere(start, furthest)

    def _is_good(self, end: int, furthest: int) -> bool:
        """Whether a cut at this whitespace divides nothing, leaves no empty code block, and has room to close one."""
        resume = self._resume(end)
        block = self._block_at(end)
        if block is None:
            return self._shielded(end) == end and not self._starts_fence(end, resume)
        is_empty = end < block.inside or resume >= block.close
        has_room = end + len(_closing(block)) <= furthest
        return not is_empty and has_room and not self._starts_fence(end, resume)

    def _starts_fence(self, end: int, resume: int) -> bool:
        """Whether a cut within a line would make a fence of characters that are none where they stand."""
        return "\n" not in self._text[end:resume] and self._text.startswith(("```", "~~~"), resume)

    def _anywhere(self, start: int, furthest: int) -> int:
        """The last position that divides nothing it need not; a part is never blank."""
        floor = self._visible(start)
        end = furthest
        while True:
            most = min(end, furthest - len(_closing(self._block_at(end))))
            better = self._step_back(most, floor)
            if better == end:
                return end
            end = better

    def _step_back(self, end: int, floor: int) -> int:
        """Out of each protected stretch in turn, as far as that leaves something before the cut."""
        steps: tuple[Callable[[int], int], ...] = (self._codes.leave, self._atoms.leave, self._cluster_start)
        for step in steps:
            before = step(end)
            end = before if before > floor else end
        return end

    def _shielded(self, end: int) -> int:
        """Before the inline code, escape or ``<…>`` that a cut here would divide."""
        return min(self._codes.leave(end), self._atoms.leave(end))

    def _cluster_start(self, end: int) -> int:
        """Before the character as a reader sees it, and not before what would become a fence."""
        for position in range(end, max(end - _LONGEST_CLUSTER, 0), -1):
            starts_fence = self._starts_fence(position, self._resume(position))
            if not starts_fence and not _belongs_together(self._text, position):
                return position
        return end

    def _resume(self, end: int) -> int:
        """Where the next part begins: after the blank lines, with its indentation; within a line, at the next word."""
        visible = self._visible(end)
        newline = self._text.rfind("\n", end, visible)
        if newline < 0 and end > 0:
            return visible
        return newline + 1 if visible - newline <= self._limit // 4 else visible

    def _visible(self, position: int) -> int:
        """The first character from here on that is not whitespace."""
        blank = _BLANK.match(self._text, position)
        return blank.end() if blank else position

    def _block_at(self, position: int) -> _Block | None:
        """The code block that a cut here would divide."""
        index = bisect_left(self._begins, position) - 1
        if index >= 0 and position < self._blocks[index].end:
            return self._blocks[index]
        return None


def _closing(block: _Block | None) -> str:
    return f"\n{block.fence}" if block else ""


def _belongs_together(text: str, position: int) -> bool:
    """Whether the characters on both sides of a position are seen as one, or become a fence when divided."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    return (
        after in "\u200c\u200d"
        or before == after == "`"
        or before == after == "~"
        or before == "\u200d"
        or unicodedata.category(after).startswith("M")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags of flags
        or (_is_regional(after) and _regionals_before(text, position) % 2 == 1)
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regionals_before(text: str, position: int) -> int:
    """Two letters make a flag, so a flag is divided after an odd number of them."""
    letters = takewhile(_is_regional, (text[index] for index in range(position - 1, -1, -1)))
    return sum(1 for _ in letters)
