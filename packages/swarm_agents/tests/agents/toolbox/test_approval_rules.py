"""Which calls a person has to approve."""

from __future__ import annotations

from typing import Any

import pytest

from packages.swarm_agents.tests.agents.builtin.making import Made
from swarm_agents.toolbox.approval_rules import NEVER, ApprovalRules

pytestmark = pytest.mark.req("HITL-04")

GIT = Made(
    "git",
    parameters={"type": "object", "properties": {"subcommand": {"enum": ["push", "log"]}}},
    action="subcommand",
).tool
PUSH, LOG = {"subcommand": "push"}, {"subcommand": "log"}


@pytest.mark.parametrize(
    ("made", "arguments", "is_asked"),
    [
        (GIT, PUSH, True),
        (GIT, LOG, False),
        (GIT, {}, False),
        (Made("shell").tool, {}, True),
        (Made("claude-delegate").tool, {}, True),
        (Made("file-write").tool, {}, False),
        (Made("search", is_read_only=True).tool, {}, False),
        (Made("wipe", is_destructive=True).tool, {}, True),
        (Made("shell", is_read_only=True).tool, {}, False),
    ],
)
def test_usually_what_leaves_or_destroys_something_needs_approval(made: Any, arguments: Any, is_asked: bool) -> None:
    assert ApprovalRules().apply_to(made, arguments) is is_asked
    assert not NEVER.apply_to(made, arguments)


def test_patterns_replace_the_usual_ones() -> None:
    rules = ApprovalRules(patterns=("create_*", "git log"))
    assert rules.apply_to(Made("create_ticket").tool, {})
    assert rules.apply_to(GIT, LOG)
    assert not rules.apply_to(GIT, PUSH)
    assert not rules.apply_to(Made("wipe", is_destructive=True).tool, {})
    assert ApprovalRules(patterns=("git",)).apply_to(GIT, LOG)
    assert ApprovalRules(patterns=("*",)).apply_to(Made("search", is_read_only=True).tool, {})


def test_patterns_that_match_nothing_are_found() -> None:
    rules = ApprovalRules(patterns=("git push", "git*", "git pull", "shel"))
    assert rules.unused([GIT, Made("shell").tool]) == ["git pull", "shel"]
    assert ApprovalRules().unused([]) == []
