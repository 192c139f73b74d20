"""Provides a twin on a free port in the test's event loop. Every skipped test is reported."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator

import pytest
import pytest_asyncio
from _pytest.nodeid import NodeId
from hypothesis import settings

from tests.world import World, new_world

# A shared machine is sometimes slow, so the properties have no limit on the duration of an example.
settings.register_profile("slack_twin", deadline=None, max_examples=60)
settings.load_profile("slack_twin")


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with new_world() as world:
        yield world


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives tests the ids that pytest-xdist uses for their groups.

    Since pytest 9.2, xdist writes them to a place that is not read:
    https://github.com/pytest-dev/pytest-xdist/issues/1386.
    """
    for item in items:
        if meant := vars(item).get("_nodeid"):
            item._id = NodeId.parse(meant)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails tests that skip themselves in environments with all dependencies."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"In CI nothing may be skipped: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Reports the skipped tests prominently."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"NOT TESTED: {len(skipped)} tests were skipped", red=True)
        for reason in sorted({str(report.longrepr[2]) for report in skipped}):
            terminalreporter.write_line(reason)
