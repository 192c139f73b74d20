"""What is typed while no line is read: it must neither spoil what is shown nor get lost."""

from __future__ import annotations

import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_back(fd: int) -> Iterator[None]:
    """What is typed while no line is read is not shown, and waits until one is: Enter and Ctrl-C as well."""
    with _changed(fd) as mode:
        mode[0] &= ~termios.ICRNL  # Enter is to arrive as it does while a line is read
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield


@contextmanager
def interruptible(fd: int) -> Iterator[None]:
    """Ctrl-C is a signal, and does not wait."""
    with _changed(fd) as mode:
        mode[3] |= termios.ISIG
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield


@contextmanager
def _changed(fd: int) -> Iterator[list[Any]]:
    """The terminal's mode, to be changed; afterwards it is what it was."""
    before = termios.tcgetattr(fd)
    try:
        yield [*before]
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
