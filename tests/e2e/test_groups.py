"""Tests that share what is costly to start run in one process, or each process would start it."""

from __future__ import annotations

import os

import pytest


def test_whoever_deals_out_the_tests_is_told_of_their_groups(request: pytest.FixtureRequest) -> None:
    is_dealt_out_in_groups = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@processes") == is_dealt_out_in_groups
    assert not is_dealt_out_in_groups or "PYTEST_XDIST_WORKER" in os.environ
