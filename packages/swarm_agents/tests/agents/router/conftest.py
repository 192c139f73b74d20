"""A database where it does not matter which, and a log that costs nothing at debug."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from packages.swarm_agents.tests.agents.builtin.places import db

__all__ = ("db",)


@pytest.fixture(autouse=True)
def _log_from_info_on() -> Iterator[None]:
    """As a coordinator has it: at debug the router writes down all that it is told."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.reset_defaults()
