"""Modules that take long to load: all that the garbage collector would look at meanwhile is there to stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Load without the garbage collector."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def late() -> Iterator[None]:
    """`uncollected` in a process that works already: what is loaded is put aside as what was loaded at the start."""
    with uncollected():
        yield
        if gc.get_freeze_count():  # else nothing is put aside in this process, and it is not ours to begin
            gc.freeze()
