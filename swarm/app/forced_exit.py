"""The end of the process whatever hangs: nothing in it is asked any more, and nothing that it has started is left.

An orderly end may wait for somebody who never answers: a database in the middle of a statement, a library's thread, a
disk. So a thread that waits for nobody ends the process when its time is over.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from typing import Final

import structlog

from swarm.processes.supervisor import kill_descendants

CUT_SECONDS: Final = 9.0
"""So long after it was told to stop the process is ended; a supervisor's patience usually ends at ten."""

_TELL_SECONDS: Final = 0.2  # for the line in the log, which may be what hangs

_log = structlog.get_logger(__name__)


class ForcedExit:
    """Ends the process so many seconds after `begin`, whatever else it is doing."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._reader, self._writer = os.pipe()  # not a lock: a signal's handler may stand anywhere
        threading.Thread(target=self._wait, name="last resort", daemon=True).start()

    def begin(self, code: int) -> None:
        """The time runs from the first call; ``code`` is what the process exits with, if it has to be ended."""
        os.write(self._writer, bytes([code]))

    def _wait(self) -> None:
        (code,) = os.read(self._reader, 1)
        time.sleep(self._seconds)
        telling = threading.Thread(target=self._tell, args=(_stack_of_main_thread(),), daemon=True)
        telling.start()
        telling.join(_TELL_SECONDS)
        end_at_once(code)

    def _tell(self, stack: str) -> None:
        _log.error("The process does not end, and is cut off.", action="cut_off", seconds=self._seconds, where=stack)


def end_at_once(code: int) -> None:
    """Kill all that descends from this process, and end it."""
    kill_descendants()
    os._exit(code)


def _stack_of_main_thread() -> str:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""
