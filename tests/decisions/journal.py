"""What the askers of the matrix got and did, and what they are told to do: files, since some askers are programs.

A cell of the matrix has a word of its own, such as ``k17``. It is in what people write (``act k17``) and in the
arguments of the calls that follow, so that the cells of an asker can be played at once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

COMMAND: Final = re.compile(r"\b(act|twice|form|wait|interesting|again) (k\d+)\b")
"""What people write: one call, two calls, a form; ``wait`` is answered later, and the rest at once."""

EARLY: Final = "{command} while it asks"
"""What is heard of a command that comes while the question of the same conversation is open. Agents ask again then."""

ASKS: Final = "I ask first."
"""What an asker says before it asks."""

Kind = Literal["got", "ran", "heard"]


def command_in(text: str, *, is_first: bool = False) -> tuple[str, str]:
    """Returns the newest command of a text, and its cell; two empty words if there is none.

    The newest is the last, unless the prompt begins with it, as those of coding CLIs do.
    """
    found = COMMAND.findall(text)
    return (found[0] if is_first else found[-1]) if found else ("", "")


def paths_of(command: str, cell: str, *, at_once: int = 2) -> list[str]:
    """Returns the arguments of the calls that a command wants; an asker may ask for one only ``at_once``."""
    paths = {"act": [cell], "again": [f"{cell}-again"], "twice": [cell, f"{cell}-2"]}
    return paths.get(command, [])[:at_once]


def cell_of(path: str) -> str:
    """Returns the cell that a call's argument belongs to."""
    return path.partition("-")[0]


@dataclass(frozen=True)
class Journal:
    """A folder. ``got`` is what an asker heard of decisions, ``ran`` the calls that were made, ``heard`` the commands
    of people that began a run.
    """

    folder: Path

    def note(self, kind: Kind, path: str, word: str) -> None:
        """Adds a line."""
        with (self.folder / "journal.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([kind, path, word]) + "\n")

    def got(self, path: str, word: str) -> None:
        self.note("got", path, word)

    def ran(self, path: str) -> None:
        self.note("ran", path, path.removeprefix(cell_of(path)))

    def heard(self, cell: str, command: str) -> None:
        self.note("heard", cell, command)

    def of(self, kind: Kind, cell: str) -> list[str]:
        """Returns the words about a cell, in order."""
        file = self.folder / "journal.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        noted = [json.loads(line) for line in lines if f'"{cell}' in line]
        return [word for one, path, word in noted if one == kind and cell_of(path) == cell]

    def fail(self, cell: str) -> None:
        """Lets the asker fail once when it gets a decision of this cell, before it acts."""
        (self.folder / f"fail-{cell}").touch()

    def takes_failure(self, cell: str) -> bool:
        """Whether the asker is to fail now."""
        file = self.folder / f"fail-{cell}"
        is_due = file.exists()
        file.unlink(missing_ok=True)
        return is_due

    def go_on(self, cell: str) -> None:
        """Ends a ``wait``."""
        (self.folder / f"go-{cell}").touch()

    def may_go_on(self, cell: str) -> bool:
        return (self.folder / f"go-{cell}").exists()
