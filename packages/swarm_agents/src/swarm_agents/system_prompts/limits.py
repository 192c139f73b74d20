"""The limits of a rendering. Both processes import this module, which needs only the standard library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderLimits:
    """The limits of one rendering.

    Time is wall-clock time. The later stages are for code that cannot be interrupted: each applies if the previous
    stage did not work, and the last stage still ends within two seconds.
    """

    seconds: float = 1.4  # after this time, an exception ends the rendering and reports the line
    output_bytes: int = 256 * 1024  # of the rendered text, as UTF-8
    memory_bytes: int = 96 * MEBIBYTE  # of address space, beyond the process's size at the start

    @property
    def watchdog_seconds(self) -> float:
        """The time after which a signal that does not need the interpreter writes a traceback and ends the process."""
        return self.seconds + 0.2

    @property
    def kill_seconds(self) -> float:
        """The time after which the parent kills the process."""
        return self.seconds + 0.4

    @property
    def deadline_seconds(self) -> float:
        """The time after which the coordinator kills the parent with all its children."""
        return self.seconds + 0.6


LIMITS: Final = RenderLimits()

MOST_TEMPLATE_BYTES: Final = 256 * 1024
MOST_VARIABLE_BYTES: Final = MEBIBYTE  # as JSON
MOST_ANSWER_BYTES: Final = 16 * MEBIBYTE  # text as JSON, the template's code, or the dump of a watchdog
MOST_CODE_BYTES: Final = 256 * 1024  # the maximum size of a template's code that is stored for the next request
