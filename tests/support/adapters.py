"""Type adapters that many applications share: FastAPI makes forty-five for each, which takes most of a test's start.

They depend on nothing but a route's types, and a process of the product has one application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi._compat import v2
from pydantic import ConfigDict, TypeAdapter

Make = Callable[..., TypeAdapter[Any]]


@contextmanager
def shared_adapters() -> Iterator[None]:
    """For the duration of the block, FastAPI makes one adapter a type instead of one a route and application."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(v2, "TypeAdapter", _once_a_type(TypeAdapter))
        yield


def _once_a_type(make: Make) -> Make:
    made: dict[tuple[object, ...], TypeAdapter[Any]] = {}

    def adapter(annotated: Any, *, config: ConfigDict | None = None) -> TypeAdapter[Any]:
        # A FieldInfo is equal to no other; its representation has all that the adapter takes from it.
        key = (annotated.__origin__, repr(annotated.__metadata__), repr(config))
        if key not in made:
            made[key] = make(annotated, config=config)
        return made[key]

    return adapter
