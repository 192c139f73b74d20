"""What a rendering may use up. Both processes read this; it needs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderLimits:
    """The limits of one rendering.

    Time is wall-clock time. The stages after the first are for what cannot be interrupted: each is there in case the
    one before did not work, and the last is still within two seconds.
    """

    seconds: float = 1.4  # then an exception ends it, which knows the line
    output_bytes: int = 256 * 1024  # of the rendered text, as UTF-8
    memory_bytes: int = 96 * MEBIBYTE  # of address space, beyond what the process has at the start

    @property
    def watchdog_seconds(self) -> float:
        """Then a signal that needs no interpreter makes it say where it is stuck, and ends the process."""
        return self.seconds + 0.2

    @property
    def kill_seconds(self) -> float:
        """Then the process is killed by its parent."""
        return self.seconds + 0.4

    @property
    def deadline_seconds(self) -> float:
        """Then the coordinator kills the parent too, with all its children."""
        return self.seconds + 0.6


LIMITS: Final = RenderLimits()

MOST_TEMPLATE_BYTES: Final = 256 * 1024
MOST_VARIABLE_BYTES: Final = MEBIBYTE  # as JSON
MOST_ANSWER_BYTES: Final = 16 * MEBIBYTE  # text as JSON, code of the template, or the dump of a watchdog
MOST_CODE_BYTES: Final = 256 * 1024  # of a template's code that is kept for the next time
