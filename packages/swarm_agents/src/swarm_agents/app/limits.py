"""The limits of built-in agents, from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from swarm.config import Settings
from swarm.config.builtin import AgentLimitSettings
from swarm.domain.model.language_models import NO_LIMITS, RunLimits
from swarm.domain.policy.section import Section
from swarm_agents.toolbox.tool import ToolLimits

_DAILY: Final = ("requests", "tokens", "tool_calls", "cost_dollars")
_OF_RUN: Final = (*_DAILY, "seconds")


def run_limits(settings: Settings, agent: str | None = None) -> RunLimits:
    """Returns the limits of one run of built-in agents, or of one ``agent``."""
    return _limits(_sources(settings, agent), _OF_RUN)


def day_limits(settings: Settings, agent: str) -> RunLimits:
    """Returns the limits of a conversation's answers on one day, as they hold for one agent's runs."""
    return _limits([(f"{key}.thread", limits.thread) for key, limits in _sources(settings, agent)], _DAILY)


def tool_limits(settings: Settings, agent: str) -> tuple[ToolLimits, ...]:
    """Returns the limits of tools for one agent: its own before those of all agents, each in the settings' order."""
    return tuple(
        ToolLimits(pattern=pattern, key=f"{key}.tools.{pattern}", **one.model_dump())
        for key, limits in _sources(settings, agent)
        for pattern, one in limits.tools.items()
    )


def _sources(settings: Settings, agent: str | None) -> list[tuple[str, AgentLimitSettings]]:
    """Returns the sections with limits, each with its key: the agent's own, and those of all agents."""
    everyone = ("limits", settings.limits)
    return (
        [(f"agents.builtin.{agent}.limits", settings.agents.builtin[agent].limits), everyone] if agent else [everyone]
    )


def _limits(sources: Sequence[tuple[str, Section]], names: Sequence[str]) -> RunLimits:
    """Returns each limit from the first section that sets it, or else from the last."""
    keys: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name in names:
        key, section = next((one for one in sources if name in one[1].model_fields_set), sources[-1])
        keys[name], values[name] = f"{key}.{name}", getattr(section, name)
    return replace(NO_LIMITS, **values, keys=keys)
