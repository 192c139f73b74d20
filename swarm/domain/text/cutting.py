"""Code blocks in Markdown, and the division of long text for Slack into parts: between paragraphs if possible, with
code blocks closed and reopened, and the headers of tables repeated."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from swarm.domain.text.tables import MAX_ROWS, Table, reopened_line, tables_in

_FENCE_LINE = re.compile(r"^(?P<fence>[ \t]*(?P<run>`{3,}|~{3,}))(?P<rest>[^\n]*)$", re.MULTILINE)
# Bounded, so that unpaired backticks in a very long line cost only linear time.
INLINE_CODE = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)")


@dataclass(frozen=True, kw_only=True)
class _CodeBlock:
    """A fenced code block, or a table in the place of one, by positions in the text."""

    begin: int  # the first character of the opening line
    inside: int  # the first character after the opening line
    close: int  # the first character of the closing line, or the text's end without a closing line
    end: int  # after the closing fence
    opening: str  # the opening line with its info string; a table's header
    fence: str  # the fence with its indentation; empty for a table


def code_blocks(text: str) -> list[_CodeBlock]:
    """Returns the fenced blocks of a text in order; an unclosed block extends to the end."""
    blocks: list[_CodeBlock] = []
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


def tables(text: str) -> list[Table]:
    """Returns the tables of a text, in order."""
    if "|" not in text:
        return []
    return list(tables_in(text, [(block.begin, block.end) for block in code_blocks(text)]))


def after_line(line: str, opening: str | None) -> tuple[str | None, bool]:
    """Advances by one line. Returns the opening line of the block that is open after the line, and whether the line is
    code.

    Equivalent to ``code_blocks`` for a text in lines. ``line`` is passed without its line break. The opening of a table
    is its header.
    """
    found = _FENCE_LINE.fullmatch(line)
    if opening is None:
        opens = found is not None and _opens(found)
        return (line if opens else None), opens
    begun = _FENCE_LINE.fullmatch(opening)
    is_over = "|" not in line if begun is None else found is not None and _closes(found, begun)
    return (None if is_over else opening), begun is not None


def open_at_end(text: str) -> _CodeBlock | None:
    """Returns the code block left open at the end of a text, or the table that its last line belongs to, if any."""
    blocks = code_blocks(text)
    if blocks and blocks[-1].close == blocks[-1].end == len(text):
        return blocks[-1]
    table = next(reversed(tables(text)), None)
    return _as_block(table) if table and text.endswith("\n") and table.end == len(text) - 1 else None


def _opens(line: re.Match[str]) -> bool:
    return line["run"][0] == "~" or "`" not in line["rest"]


def _closes(line: re.Match[str], opening: re.Match[str]) -> bool:
    return line["run"].startswith(opening["run"]) and not line["rest"].strip()


def _block(text: str, opening: re.Match[str], close: int, end: int) -> _CodeBlock:
    inside = min(opening.end() + 1, len(text))
    return _CodeBlock(
        begin=opening.start(), inside=inside, close=close, end=end, opening=opening.group(), fence=opening["fence"]
    )


MIN_LIMIT = 64
"""The smallest limit of ``cut`` and ``split``, in characters, because an opened and closed code fence needs
some room.
"""

# Each match starts where the last visible character before a break ends; the lookbehind keeps the search linear for
# long runs of blanks.
_PARAGRAPH = re.compile(r"(?<=\S)[^\S\n]*\n(?:[^\S\n]*\n)+(?!\s)")
_AFTER_PARAGRAPH = re.compile(r"\S[^\S\n]*\n[^\S\n]*\n\s*\Z")
_OUTER_LINE = re.compile(r"(?<=\S)[^\S\n]*\n(?!\s)")  # not what belongs to an item above
_LINE = re.compile(r"(?<=\S)[^\S\n]*\n")
_WORD = re.compile(r"(?<=\S)\s+")
_BLANK = re.compile(r"\s*")
_ATOM = re.compile(
    r"&(?:amp|lt|gt);|<[^<>\n]+>|\[[^\[\]\n]{1,400}\]\([^()\n]{1,1200}(?:\([^()\n]{0,100}\)[^()\n]{0,100}){0,3}\)"
)
# Emphasis; at the end of the text also without its end, which may still come.
_PHRASE = re.compile(
    rf"(?P<code>{INLINE_CODE.pattern})"
    r"|(?<![\\*A-Za-z0-9])(?P<stars>\*{1,3})(?![\s*])[^\n]{1,300}?(?:(?<![\s*])(?P=stars)(?!\*)|\Z)"
    r"|(?<![\\~A-Za-z0-9])(?P<tildes>~{1,2})(?![\s~])[^\n]{1,300}?(?:(?<![\s~])(?P=tildes)(?!~)|\Z)"
    r"|(?<![\\\w])(?P<bars>_{1,3})(?![\s_])[^\n]{1,300}?(?:(?<![\s_])(?P=bars)(?!\w)|\Z)"
)
# Where a growing message may end: after a blank, a line or a phrase.
_PLACE = re.compile(r"(?<=\S)[^\S\n]+(?=\S|\Z)|\n|(?<=[、。，！？；：])|(?<=[.!?…:;)\"”’])(?<!\d\.)\Z")
_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)])[ \t]")
_MARKED_LINE = re.compile(
    r"[ \t>|]|(?:[-+*]|#{1,6}|\d{1,9}[.)])[ \t]|[^\n|]{0,300}\|"
)  # an item, quotation, heading or row
_MAY_BE_TABLE = re.compile(r"^[^\n|]*\|[^\n]*(?:\n[ \t>|:-]*)?\Z", re.MULTILINE)
_LONGEST_CLUSTER = 32  # how far to look back for the start of one visible character


@dataclass(frozen=True, kw_only=True)
class _MessagePart:
    """The part of a longer text for one message."""

    gap: str  # whitespace before this part; not shown
    opened: str  # the opening line of a code block continued from the previous part, or empty
    body: str  # the text's own characters
    closed: str  # the closing line of a code block that continues in the next part, or empty

    @property
    def text(self) -> str:
        """The text to post."""
        return self.opened + self.body + self.closed


def split(text: str, limit: int) -> list[str]:
    """Returns the texts of ``cut``, one per message."""
    return [part.text for part in cut(text, limit)]


def cut(text: str, limit: int) -> list[_MessagePart]:
    """Cuts a text into non-blank parts of at most ``limit`` characters. Returns no parts for a blank text.

    A cut falls between paragraphs, or else lines, or else words, or else anywhere, in the last three quarters of a
    part. It never divides an escape or a ``<…>`` (unless that alone exceeds a part), nor one visible character. A code
    block is closed at the end of a part and reopened in the next, including its info string, and a table goes on under
    its header; a block or table whose opening takes more than a quarter of the limit is treated as plain text.

    :raises ValueError: ``limit`` is below ``MIN_LIMIT``.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"a part needs room for at least {MIN_LIMIT} characters, not {limit}")
    return list(_Cutter(text.rstrip(), limit).parts())


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """The end of a growing message, and the start of the next one."""

    end: int  # the message contains the text before this position
    resume: int  # the next message starts here; the blanks in between are not shown
    closed: str  # closes an open code block, or empty
    opened: str  # reopens that block in the next message, or empty


def cut_growing(text: str, sent: int, wanted: int, limit: int, *, is_stream: bool = False) -> _Cut | None:
    """Returns the cut for a message whose first ``sent`` characters are already shown; None if all of the text fits.

    A text that fits is cut at its first break between paragraphs after ``wanted`` characters, outside code. A longer
    text is cut at or before ``limit``, at the best place after the shown characters, by the rules of ``cut``, or before
    some of them if that divides less. A stream is also cut where it would have more of a table than Slack takes.
    """
    cutter = _Cutter(text, max(limit, MIN_LIMIT))
    if is_stream and (stop := cutter.end_for_table(sent)) and stop.end <= limit:
        return stop
    end = cutter.first_paragraph(max(sent, wanted), limit) if len(text) <= limit else cutter.best_end(sent, limit)
    return None if end is None else cutter.cut_at(end)


def whole_end(text: str, sent: int) -> int | None:
    """Returns where a message that does not end yet divides no word, emphasis, link, line of code, row, item or
    quotation: the first such place after the ``sent`` characters, or else the last one before; None if nowhere.
    """
    if not text[:sent].strip():
        return sent
    cutter, shown = _Cutter(text, max(len(text), MIN_LIMIT)), len(text) - len(text.lstrip())
    places = [found.end() for found in _PLACE.finditer(text, shown)]
    at = bisect_left(places, sent)
    return next(filter(cutter.is_whole, (*places[at:], *reversed(places[:at]))), None)


class _Spans:
    """Non-overlapping ranges of a text that should not be divided."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._spans = list(spans)

    def leave(self, position: int) -> int:
        """Returns the start of the range that a cut here would divide, or the position itself."""
        index = bisect_left(self._spans, (position, 0)) - 1
        if index >= 0 and position < self._spans[index][1]:
            return self._spans[index][0]
        return position


class _Cutter:
    """The state for cutting one text. Each window of ``limit`` characters is examined once, so the cost is linear."""

    def __init__(self, text: str, limit: int) -> None:
        self._text = text
        self._limit = limit
        self._tables = tables(text)
        blocks = sorted([*code_blocks(text), *map(_as_block, self._tables)], key=lambda block: block.begin)
        self._blocks = [block for block in blocks if len(block.opening) <= limit // 4]
        self._begins = [block.begin for block in self._blocks]
        phrases = [found.span() for found in _PHRASE.finditer(text) if not found["code"]]
        self._protected = (
            _Spans((begin, end + 1 if end == len(text) else end) for begin, end in phrases),
            _Spans(found.span() for found in INLINE_CODE.finditer(text)),
            _Spans(found.span() for found in _ATOM.finditer(text)),
        )

    def parts(self) -> Iterator[_MessagePart]:
        end = 0
        while end < len(self._text):
            start = self._resume(end)
            opened = self._opening(end, start)
            gap = self._text[end:start]
            end = self._end(start, start + self._limit - len(opened))
            closed = _closing(self._block_at(end)) if end < len(self._text) else ""
            yield _MessagePart(gap=gap, opened=opened, body=self._text[start:end], closed=closed)

    def first_paragraph(self, earliest: int, furthest: int) -> int | None:
        """Returns the first break between paragraphs outside code that is followed by text."""
        if earliest <= furthest and self._ends_paragraph(earliest):
            return earliest
        for found in _PARAGRAPH.finditer(self._text, max(earliest - 1, 0)):
            end = found.start()
            if earliest <= end <= furthest and self._block_at(end) is None and self._visible(end) < len(self._text):
                return end
        return None

    def _ends_paragraph(self, end: int) -> bool:
        """Whether a blank line that is already shown ends here and is followed by more text."""
        is_break = _AFTER_PARAGRAPH.search(self._text, max(end - _LONGEST_CLUSTER, 0), end) is not None
        return is_break and self._block_at(end) is None and self._text[end : end + 1].strip() != ""

    def best_end(self, sent: int, furthest: int) -> int:
        """Returns the best end between the shown text and the furthest position, or before if that divides less."""
        end = sent if furthest <= sent else max(self._best(sent, furthest, max(sent, furthest // 4)), sent)
        if not self._harm(end):
            return end
        before = [found.start() for found in _WORD.finditer(self._text, furthest // 4, end)]
        good = (place for place in reversed(before) if self._is_good(place, furthest))
        return min((end, *good), key=self._harm)

    def _harm(self, end: int) -> int:
        """Returns how bad a cut here is: in a word, emphasis or the like, or in an item, row, quotation or heading."""
        around, begin = self._text[max(end - 1, 0) : end + 1], self._text.rfind("\n", 0, end) + 1
        is_in_line = begin < end and "\n" not in self._text[end : self._resume(end)]
        is_in_word = self._shielded(end) < end or (around.isascii() and around.isalnum())
        return 2 * is_in_word + (is_in_line and _MARKED_LINE.match(self._text, begin) is not None)

    def end_for_table(self, sent: int) -> _Cut | None:
        """Returns the cut before or in the first table that does not fit into a stream; None if all do."""
        for number, table in enumerate(self._tables):
            if number == 0 and not table.is_refused and len(table.rows) < MAX_ROWS:
                continue
            rows = [] if number or table.is_refused else [table.head, *table.rows[: MAX_ROWS - 1]]
            end = table.begin + sum(len(row) + 1 for row in rows)
            # Without anything before it, the header is all that is shown.
            return (
                self.cut_at(end - 1) if self._text[:end].strip() else _Cut(end=sent, resume=end, closed="", opened="")
            )
        return None

    def is_whole(self, end: int) -> bool:
        """Whether the text may end here although it goes on, perhaps in ways that are not known yet."""
        begin = self._text.rfind("\n", 0, end) + 1
        block = self._block_at(end) or self._block_at(end - 2)  # also one that has just ended
        if block is not None:
            return end == begin and end > block.inside and block.inside < block.close
        if begin == end:  # not before what belongs to an item above
            return self._text[end : end + 1] not in (" ", "\t") and not _MAY_BE_TABLE.search(self._text, 0, end)
        return self._shielded(end) == end and not _MARKED_LINE.match(self._text, begin)

    def cut_at(self, end: int) -> _Cut:
        """Returns the cut at a position, with code blocks closed and reopened."""
        resume = max(self._resume(end), end) if end < len(self._text) else end
        return _Cut(end=end, resume=resume, closed=_closing(self._block_at(end)), opened=self._opening(end, resume))

    def _end(self, start: int, furthest: int) -> int:
        """Returns the end of the part that begins at ``start``; ``furthest`` is the last possible position."""
        if len(self._text) <= furthest:
            return len(self._text)
        return self._best(start, furthest, start + (furthest - start) // 4)

    def _best(self, start: int, furthest: int, earliest: int) -> int:
        for pattern in (_PARAGRAPH, _OUTER_LINE, _LINE, _WORD):
            # A break may begin at the last position and extend beyond it; its length does not matter.
            breaks = [found.start() for found in pattern.finditer(self._text, earliest, furthest + self._limit)]
            for end in reversed(breaks):
                if end <= furthest and self._is_good(end, furthest):
                    return end
        return self._anywhere(start, furthest)

    def _is_good(self, end: int, furthest: int) -> bool:
        """Whether a cut at this whitespace divides nothing, leaves no empty code block, and leaves room to close a code
        block.
        """
        resume = self._resume(end)
        block = self._block_at(end)
        if block is None:
            return self._shielded(end) == end and not self._starts_fence(end, resume)
        is_empty = end < block.inside or resume >= block.close
        has_room = end + len(_closing(block)) <= furthest
        return not is_empty and has_room and not self._starts_fence(end, resume)

    def _starts_fence(self, end: int, resume: int) -> bool:
        """Whether a cut within a line would turn its characters into a fence."""
        return "\n" not in self._text[end:resume] and self._text.startswith(("```", "~~~"), resume)

    def _anywhere(self, start: int, furthest: int) -> int:
        """Returns the last position that divides as little as possible. A part is never blank."""
        floor = self._visible(start)
        end = furthest
        while True:
            most = min(end, furthest - len(_closing(self._block_at(end))))
            better = self._step_back(most, floor)
            if better == end:
                return end
            end = better

    def _step_back(self, end: int, floor: int) -> int:
        """Moves before each protected range in turn while some text remains before the cut."""
        for step in (*(spans.leave for spans in self._protected), self._cluster_start):
            before = step(end)
            end = before if before > floor else end
        return end

    def _shielded(self, end: int) -> int:
        """Returns the position before the emphasis, inline code, escape or link that a cut here would divide."""
        return min(spans.leave(end) for spans in self._protected)

    def _cluster_start(self, end: int) -> int:
        """Returns the position before the visible character around ``end`` that does not start a new fence."""
        for position in range(end, max(end - _LONGEST_CLUSTER, 0), -1):
            starts_fence = self._starts_fence(position, self._resume(position))
            if not starts_fence and not _belongs_together(self._text, position):
                return position
        return end

    def _resume(self, end: int) -> int:
        """Returns the start of the next part: after blank lines, keeping indentation; within a line, at the
        next word.
        """
        visible = self._visible(end)
        newline = self._text.rfind("\n", end, visible)
        if newline < 0 and end > 0:
            return visible
        if _ITEM.match(self._text, visible) and self._block_at(end) is None:  # with four blanks it would be code
            return max(newline + 1, visible - 3)
        return newline + 1 if visible - newline <= self._limit // 4 else visible

    def _visible(self, position: int) -> int:
        """Returns the position of the next non-blank character."""
        blank = _BLANK.match(self._text, position)
        return blank.end() if blank else position

    def _opening(self, end: int, resume: int) -> str:
        """Returns what begins the text from ``resume`` in another message, to go on with a block, row or quotation."""
        block, line = self._block_at(end), self._text[self._text.rfind("\n", 0, end) + 1 : resume]
        is_in_line = end > 0 and "\n" not in line and not (block and block.fence)
        begun = reopened_line(line, is_row=block is not None) if is_in_line else ""
        return (f"{block.opening}\n" if block else "") + (begun if len(begun) <= self._limit // 4 else "")

    def _block_at(self, position: int) -> _CodeBlock | None:
        """Returns the code block that a cut here would divide."""
        index = bisect_left(self._begins, position) - 1
        if index >= 0 and position < self._blocks[index].end:
            return self._blocks[index]
        return None


def _as_block(table: Table) -> _CodeBlock:
    return _CodeBlock(
        begin=table.begin, inside=table.inside, close=table.end, end=table.end, opening=table.head, fence=""
    )


def _closing(block: _CodeBlock | None) -> str:
    return f"\n{block.fence}" if block and block.fence else ""


def _belongs_together(text: str, position: int) -> bool:
    """Whether the characters around a position form one visible character or mark, or become a fence."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    return (
        after in "\u200c\u200d"
        or (before == after and after in "`~*")
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
    """Counts the flag letters before a position. Two form a flag, so an odd number means a divided flag."""
    letters = takewhile(_is_regional, (text[index] for index in range(position - 1, -1, -1)))
    return sum(1 for _ in letters)
