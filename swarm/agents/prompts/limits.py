"""The limits of a rendering. Both processes read this module, which needs only the standard library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderLimits:
    """The limits of one rendering.

    Time is wall-clock time. The later stages are for code that cannot be interrupted: each applies if the stage before
    did not work, and the last is still within two seconds.
    """

    seconds: float = 1.4  # then an exception ends the rendering, with the line
    output_bytes: int = 256 * 1024  # of the rendered text, as UTF-8
    memory_bytes: int = 96 * MEBIBYTE  # of address space, beyond the process's size at the start

    @property
    def watchdog_seconds(self) -> float:
        """After this time, a signal that needs no interpreter writes a traceback and ends the process."""
        return self.seconds + 0.2

    @property
    def kill_seconds(self) -> float:
        """After this time, the parent kills the process."""
        return self.seconds + 0.4

    @property
    def deadline_seconds(self) -> float:
        """After this time, the coordinator kills the parent with all its children."""
        return self.seconds + 0.6


LIMITS: Final = RenderLimits()

MOST_TEMPLATE_BYTES: Final = 256 * 1024
MOST_VARIABLE_BYTES: Final = MEBIBYTE  # as JSON
MOST_ANSWER_BYTES: Final = 16 * MEBIBYTE  # text as JSON, code of the template, or the dump of a watchdog
MOST_CODE_BYTES: Final = 256 * 1024  # of a template's code that is kept for the next time
