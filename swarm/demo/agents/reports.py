"""The texts of the demo's writer about a repository, in Markdown; every number in them was counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from swarm.demo.repository import File, Group, by_folder, by_kind, by_part

REPORT_CHARACTERS: Final = 13_000
"""A long report exceeds one message of Slack, however small the folder is."""

_SHOWN: Final = 5
_LARGEST: Final = 3


def overview(name: str, found: Sequence[File]) -> str:
    """Writes a page: the kinds of files as a table, the folders as a drawing."""
    total = sum(file.lines for file in found)
    return (
        f"**{name}** has {len(found):,} text files with {total:,} lines. I have counted them just now.\n\n"
        f"{_kinds(found)}\n\n"
        "Most of it is in these folders:\n\n"
        f"```\n{_drawing(by_part(found)[:_SHOWN])}\n```\n\n"
        f"{_longest(found)} Ask for `a long report`, and I go through all folders one by one."
    )


def report(name: str, found: Sequence[File]) -> str:
    """Writes folder by folder, the largest first, up to a length; small repositories get openly declared padding."""
    places = by_folder(found)
    text = f"# {name}, folder by folder\n\n{len(found):,} files in {len(places)} folders.\n\n{_kinds(found)}"
    for number, place in enumerate(places):
        if len(text) > REPORT_CHARACTERS:
            return f"{text}\n\nThe other {len(places) - number} folders are smaller."
        text += "\n\n" + _chapter(place, [file for file in found if file.folder == place.name])
    return text + _padding(REPORT_CHARACTERS - len(text))


def _kinds(found: Sequence[File]) -> str:
    rows = (f"| `{kind.name}` | {kind.files:,} | {kind.lines:,} |" for kind in by_kind(found)[:_SHOWN])
    return "\n".join(["| kind | files | lines |", "|---|---:|---:|", *rows])


def _drawing(parts: Sequence[Group]) -> str:
    most = max((part.lines for part in parts), default=0) or 1
    width = max((len(part.name) for part in parts), default=0)
    rows = (f"{part.name:<{width}} {part.lines:>8,} {'█' * max(1, 20 * part.lines // most)}" for part in parts)
    return "\n".join(rows)


def _chapter(place: Group, found: Sequence[File]) -> str:
    rows = (
        f"{file.lines:>7,}  {Path(file.path).name}" for file in sorted(found, key=lambda file: file.path)[: 4 * _SHOWN]
    )
    listing = "\n".join(rows)
    return (
        f"## {place.name}\n\n"
        f"There are {place.files:,} files with {place.lines:,} lines here, {place.lines // place.files:,} on average. "
        f"{_longest(found)}\n\n"
        f"```\n{listing}\n```"
    )


def _longest(found: Iterable[File]) -> str:
    longest = sorted(found, key=lambda file: (-file.lines, file.path))[:_LARGEST]
    if not longest:
        return "There is nothing to count yet."
    return "The longest: " + ", ".join(f"`{file.path}` ({file.lines:,})" for file in longest) + "."


def _padding(characters: int) -> str:
    return "".join(_paragraphs(characters))


def _paragraphs(characters: int) -> Iterator[str]:
    number = 0
    while characters > 0:
        number += 1
        paragraph = (
            f"\n\n**Remark {number}.** The folder is small and a long report was asked for, so this paragraph is here "
            "only to be streamed: it shows how an answer goes on in another message before the first is too long."
        )
        characters -= len(paragraph)
        yield paragraph
