"""Decides which tool calls a person has to approve before they are made.

A pattern is compared with the name of a tool, and for git also with its name and subcommand ("git push"), and with what
discards work ("git checkout --", "git stash drop"). ``*`` stands for anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from swarm.domain.tool_names import tool_key
from swarm_agents.toolbox.arguments import parameters
from swarm_agents.toolbox.tool import Tool

USUAL_PATTERNS: Final = ("git push", "git checkout --", "git stash drop", "shell", "*-delegate")
"""The calls that need approval if the settings do not say otherwise, besides those of destructive tools."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalRules:
    """The patterns of the calls that need approval; None for the usual ones and all destructive tools."""

    patterns: tuple[str, ...] | None = None

    def apply_to(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Returns whether a person has to approve this call. By default, tools that only read and tools that hand work
        to another agent need no approval.
        """
        if self.patterns is not None:
            return _matches(self.patterns, _names(tool, arguments))
        if tool.is_read_only or tool.hands_over:  # another agent's calls have their own approvals
            return False
        return tool.is_destructive or _matches(USUAL_PATTERNS, _names(tool, arguments))

    def unused(self, tools: Iterable[Tool]) -> Sequence[str]:
        """Returns the configured patterns that match no call of these tools."""
        names = [name for tool in tools for name in _all_names(tool)]
        return [pattern for pattern in self.patterns or () if not _matches([pattern], names)]


NEVER: Final = ApprovalRules(patterns=())
"""No call needs approval."""


def _matches(patterns: Iterable[str], names: Sequence[str]) -> bool:
    return any(fnmatchcase(tool_key(name), tool_key(pattern)) for pattern in patterns for name in names)


def _names(tool: Tool, arguments: Mapping[str, Any]) -> Sequence[str]:
    action = arguments.get(tool.operation) if tool.operation else None
    actions = (action if isinstance(action, str) else "", tool.risk(arguments))
    return [tool.name, *(f"{tool.name} {one}" for one in actions if one)]


def _all_names(tool: Tool) -> Sequence[str]:
    actions = parameters(tool.parameters).get(tool.operation, {}).get("enum") if tool.operation else None
    return [tool.name, *(f"{tool.name} {action}" for action in (*(actions or ()), *tool.risks))]
