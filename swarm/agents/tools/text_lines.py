"""Lines of a text file, a bounded part at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO, Final

from swarm.agents.tools.answers import ToolRefused

_CHUNK_BYTES: Final = 1 << 16


def lines_of(file: BinaryIO, path: str, *, first: int, limit: int | None, most_bytes: int) -> str:
    """Lines ``first`` to ``first + limit - 1``, at most ``most_bytes`` of them, and where to go on if there is more.

    Of a line that alone is longer comes the beginning. Memory is bounded by ``most_bytes``.

    Raises:
        Refused: It is not text: it has a NUL byte, or what is read is not UTF-8; or it has fewer lines.
    """
    part = _Part(first=first, last=None if limit is None else first + limit - 1, most_bytes=most_bytes)
    while chunk := file.read(_CHUNK_BYTES):
        if b"\0" in chunk:
            raise ToolRefused(f"{path} is a binary file, not text.")
        part.add(chunk)
    if first > 1 and part.line < first:
        raise ToolRefused(f"{path} has {part.line:,} lines; there is no line {first:,}.")
    return part.text(path)


@dataclass(slots=True)
class _Part:
    """The wanted lines while the file goes by."""

    first: int
    last: int | None
    most_bytes: int
    line: int = 0  # the number of the line to which the last byte belonged
    wanted: bytearray = field(default_factory=bytearray)
    full: bool = False  # something that was wanted had no room
    begins: bool = True  # the next byte begins a line

    def add(self, chunk: bytes) -> None:
        for piece in _lines(chunk):
            self.line += self.begins
            self.begins = piece.endswith(b"\n")
            if self.line >= self.first and (self.last is None or self.line <= self.last):
                room = self.most_bytes - len(self.wanted)
                self.wanted += piece[:room]
                self.full = self.full or len(piece) > room

    def text(self, path: str) -> str:
        """The lines, and in brackets what remains."""
        if not self.line:
            return f"{path} is empty."
        try:
            text = self._whole_characters().decode()
        except UnicodeDecodeError:
            raise ToolRefused(f"{path} is a binary file, or its text is not UTF-8.") from None
        after = self.first + text.count("\n") if self.full else (self.last or self.line) + 1
        if self.full and "\n" not in text:
            return f"{text}\n[line {self.first:,} goes on; it is too long to be read whole]"
        if self.full:
            text = text[: text.rindex("\n") + 1]
        return text if after > self.line else f"{text}[{path} goes on; read from offset={after}, of {self.line} lines]"

    def _whole_characters(self) -> bytes:
        """Without the beginning of a character that the limit cut in two."""
        if not self.full:
            return bytes(self.wanted)
        end = len(self.wanted)
        while end and len(self.wanted) - end < 4 and self.wanted[end - 1] & 0xC0 == 0x80:
            end -= 1
        lead = self.wanted[end - 1] if end else 0
        return bytes(self.wanted[: end - 1] if lead >= 0xC0 else self.wanted)


def _lines(chunk: bytes) -> list[bytes]:
    """Split behind line feeds, and nowhere else."""
    *whole, rest = chunk.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])
