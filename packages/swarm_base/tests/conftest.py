"""The clock of these tests: their time limits are not about how busy the machine is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tests.support.idle_time import IdleTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop for each test."""
    return {"idle time": IdleTimeLoop}
