"""Loads slow modules without garbage collection, since the loaded objects are never freed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Loads modules without garbage collection. All existing objects are exempt from later collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
