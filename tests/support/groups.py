"""Groups of tests that run in one process, which pytest-xdist has no more since pytest 9.2.

pytest-xdist tells the process that deals out the tests of a group by the end of a test's id. It writes that end into an
attribute that pytest does not read any more, and nothing fails: each process starts everything that a group shares
(https://github.com/pytest-dev/pytest-xdist/issues/1386).

The group ``processes`` has what starts coordinators, demos and commands. These tests wait more than they work: one
process of pytest does them all, while the others keep the processors busy, and loads the code for them once. Among the
long tests nothing keeps the processors busy: those of each module are a group, so that several modules wait at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.nodeid import NodeId
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]


def with_processes(items: Iterable[pytest.Item], folder: Path) -> None:
    """All in one group. Each wait has a limit of its own; that of a whole test is for what hangs."""
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.xdist_group("processes"))
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(300))


def split_long(items: Iterable[pytest.Item]) -> None:
    """Give the long tests of each module a group of their own; to be called before pytest-xdist's hook.

    pytest-xdist makes one name out of all groups of a test.
    """
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def longest_first(items: list[pytest.Item]) -> None:
    """Begin with the long tests that may take longest: at the end, a process that has one more leaves the others idle.

    Groups keep this order with ``--no-loadscope-reorder``; pytest-xdist would begin with those of most tests.
    """

    def limit(item: pytest.Item) -> float:
        timeout = item.get_closest_marker("timeout")
        return timeout.args[0] if timeout and item.get_closest_marker("long") else 0

    items.sort(key=limit, reverse=True)


def restore_groups(items: Iterable[pytest.Item]) -> None:
    """Give tests the ids that pytest-xdist has meant; to be called after its own hook."""
    for item in items:
        if meant := vars(item).get("_nodeid"):
            item._id = NodeId.parse(meant)


class Scheduling(LoadGroupScheduling):  # type: ignore[misc]
    """pytest-xdist's groups, without what has ended: it counts all that a process was ever given after each test."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]
