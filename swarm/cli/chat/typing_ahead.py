"""Input typed while no line is read: kept out of the display, and not lost."""

from __future__ import annotations

import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_back(fd: int) -> Iterator[None]:
    """Hide and keep input until a line is read, Enter and Ctrl-C included."""
    with _changed(fd) as mode:
        mode[0] &= ~termios.ICRNL  # Enter arrives in the same form as while a line is read
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield


@contextmanager
def interruptible(fd: int) -> Iterator[None]:
    """Make Ctrl-C a signal that does not wait."""
    with _changed(fd) as mode:
        mode[3] |= termios.ISIG
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield


@contextmanager
def _changed(fd: int) -> Iterator[list[Any]]:
    """The terminal's mode, for changes; restored afterwards."""
    before = termios.tcgetattr(fd)
    try:
        yield [*before]
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
