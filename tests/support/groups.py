"""Groups of tests that run in one process, which pytest-xdist has no more since pytest 9.2.

pytest-xdist tells the process that deals out the tests of a group by the end of a test's id. It writes that end into an
attribute that pytest does not read any more, and nothing fails: each process starts everything that a group shares
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.nodeid import NodeId


def restore_groups(items: Iterable[pytest.Item]) -> None:
    """Give tests the ids that pytest-xdist has meant; to be called after its own hook."""
    for item in items:
        if meant := vars(item).get("_nodeid"):
            item._id = NodeId.parse(meant)
