"""The doors: hundreds of applications, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.adapters import shared_adapters


@pytest.fixture(scope="session", autouse=True)
def adapters() -> Iterator[None]:
    """One type adapter a type, instead of forty-five an application."""
    with shared_adapters():
        yield
