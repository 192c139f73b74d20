"""HTML pages as readable text, with Markdown headings."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

_SILENT: Final = frozenset({"script", "style", "template", "svg", "noscript", "iframe", "select", "math"})
_LINES: Final = frozenset({"dd", "dt", "li", "td", "th", "tr"})
_BLOCKS: Final = _LINES | {
    *("address", "article", "aside", "blockquote", "body", "details", "div", "dl", "figcaption", "figure", "footer"),
    *("form", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "ul"),
}
_BEFORE: Final = {"li": "\n- ", "tr": "\n", "dd": "\n", "td": " ", "th": " "}  # others get a blank line
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}


def text_of(page: str) -> str:
    """Returns the text of a page, preceded by its title unless the page has a first-level heading. Accepts any text."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    text = re.sub(r"\n\s*\n", "\n\n", "".join(reader.parts)).strip()
    title = " ".join("".join(reader.title).split())
    return f"# {title}\n\n{text}" if title and not reader.has_heading else text


class _Reader(HTMLParser):
    """A parser that collects the readable text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title: list[str] = []
        self.has_heading = False  # a first-level heading
        self._silent: list[str] = []  # the open elements whose content is ignored
        self._in_title = False
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag == "title" and not self._silent:
            self._in_title = True
        elif tag in _HEADINGS:
            self.has_heading = self.has_heading or tag == "h1"
            self.parts.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in _BLOCKS:
            self._preformatted += tag == "pre"
            self.parts.append(_BEFORE.get(tag, "\n\n"))

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT and tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        elif tag == "title":
            self._in_title = False
        elif tag in _HEADINGS or (tag in _BLOCKS and tag not in _LINES):
            self._preformatted = max(0, self._preformatted - (tag == "pre"))
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._silent:
            self.parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))
