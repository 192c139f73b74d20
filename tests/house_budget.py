"""What each room of the house may grow to: `FILE`, held by ``python -m tests.house --hold``, which the gate runs.

A budget is what stood when it was set, plus two per cent; long files, long functions and imports that make circles are
lists that only shrink. A number is raised, and a line added, only with ``# reason: thoughts/plans/….md`` beside it, or
above it. Raised means: since the version of `FILE` that was committed before; where git knows none, nothing is.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

FILE: Final = "tests/house_budget.toml"
GROWTH_PERCENT: Final = {"lines": 2, "nodes": 2, "counts": 2}  # other sections are lists, which only shrink

Place = tuple[str, str]  # a section, and what is counted in it: a room, a file, …
Numbers = Mapping[Place, int]  # how much there is, or may be; the places of a section follow one another

HEAD: Final = """\
# What each room may grow to (tests/house_budget.py). `python -m tests.house --hold` shows what is left.
# `python -m tests.house --set [--reason thoughts/plans/….md]` writes what stands plus two per cent.
"""
_REASON = re.compile(r'^(?:# reason: (\S+)\n)?"?([^"\n=#]+?)"? = \d+(?: +# reason: (\S+))?$', re.MULTILINE)


def complaints(root: Path, stands: Numbers, largest: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """What is wrong, each with its remedy; ``largest`` names the largest files of a room."""
    allowed, reasons = _numbers(_text(root)), _reasons(_text(root))
    for (section, name), number in stands.items():
        most = allowed.get((section, name))
        if most is None or number > most:
            over = "has no budget" if most is None else f"is {number - most:,} over its budget of {most:,}"
            files = f" Its largest files: {', '.join(largest[name])}." if name in largest else ""
            yield (
                f"{name} ({section}: {number:,}) {over}.{files} Merge, delete or take apart; or raise the number in "
                f"{FILE} in the same commit, with `# reason: thoughts/plans/….md` beside it."
            )
    for section, name in sorted(allowed.keys() - stands):
        yield f"{name} ({section}) is gone: delete its line in {FILE}."
    for place in sorted(reasons.keys() | _raised(root, allowed)):
        reason = reasons.get(place, "")
        if not (reason.startswith("thoughts/plans/") and (root / reason).is_file()):
            given = f"{reason} is no file of that folder" if reason else "there is none"
            yield f"{place[1]} ({place[0]}) was raised, which needs `# reason: thoughts/plans/….md` beside it: {given}."


def table(root: Path, stands: Numbers) -> str:
    """For each thing that is counted: what stands, what is allowed, and how much it may still grow."""
    allowed, shown = _numbers(_text(root)), ""
    for section, places in groupby(stands, key=lambda place: place[0]):
        shown += f"\n| {section} | stands at | budget | may still grow |\n|---|---:|---:|---:|\n"
        for place in places:
            number, most = stands[place], allowed.get(place, 0)
            shown += f"| {place[1]} | {number:,} | {most:,} | {most - number:,} |\n"
    return shown


def write(root: Path, stands: Numbers, reason: str | None) -> None:
    """Set all budgets by what stands; ``reason`` goes beside the numbers that this raises."""
    percent = {place: 100 + GROWTH_PERCENT.get(place[0], 0) for place in sorted(stands)}
    budgets = {place: stands[place] * more // 100 for place, more in percent.items()}
    old = _numbers(_text(root))
    reasons = {place: why for place, why in _reasons(_text(root)).items() if budgets.get(place, 0) >= old[place]}
    reasons |= dict.fromkeys(_raised(root, budgets), reason) if reason else {}
    text = HEAD
    for section, places in groupby(budgets, key=lambda place: place[0]):
        text += f'\n["{section}"]\n'
        for place in places:
            why = f"  # reason: {reasons[place]}" if place in reasons else ""
            text += f'"{place[1]}" = {budgets[place]}{why}\n'
    (root / FILE).write_text(text, encoding="utf-8")


def _text(root: Path) -> str:
    return (root / FILE).read_text(encoding="utf-8") if (root / FILE).exists() else ""


def _numbers(text: str) -> dict[Place, int]:
    return {(section, name): most for section, values in tomllib.loads(text).items() for name, most in values.items()}


def _reasons(text: str) -> dict[Place, str]:
    found = ((part.partition('"]')[0], match) for part in text.split('\n["') for match in _REASON.finditer(part))
    return {(section, match[2]): match[3] or match[1] for section, match in found if match[3] or match[1]}


def _raised(root: Path, allowed: Numbers) -> set[Place]:
    """What is higher than in the newest committed version that differs from ``allowed``."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False).stdout

    for commit in git("log", "-9", "--format=%H", "--", FILE).split():
        before = _numbers(git("show", f"{commit}:./{FILE}"))
        if before and before != allowed:
            return {place for place, number in allowed.items() if number > before.get(place, 0)}
    return set()
