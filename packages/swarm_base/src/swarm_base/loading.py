"""Loads slow modules without garbage collection, since the loaded objects are never freed, and without parts that are
not used."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uncollected() -> Iterator[None]:
    """Loads modules without garbage collection. All existing objects are exempt from later collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def without(name: str) -> Iterator[None]:
    """Hides an optional module from the modules that are loaded in the meantime, as if it was not installed."""
    modules: dict[str, Any] = sys.modules
    hidden = modules.get(name)
    modules[name] = None
    try:
        yield
    finally:
        modules.pop(name)
        if hidden is not None:
            modules[name] = hidden
