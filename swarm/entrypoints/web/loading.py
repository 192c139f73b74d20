"""Loading of slow modules without the garbage collector, since loaded objects stay for good."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Loads without the garbage collector."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def late() -> Iterator[None]:
    """`uncollected` in a running process: loaded objects are frozen like those loaded at the start."""
    with uncollected():
        yield
        if gc.get_freeze_count():  # otherwise this process freezes no objects at all
            gc.freeze()
