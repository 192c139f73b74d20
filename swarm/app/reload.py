"""Reloads the settings of a running coordinator.

Who may act: the owner of the process, by a signal (SIGHUP), and the operator (``POST /reload``). What is guaranteed:
the reloadable policies are replaced together or, after any error in the settings, not at all; each message is routed
either by the old policies or by the new ones. All other settings are only compared, and changes that need a restart are
reported. Each process reads its own settings; a reload does not affect other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from swarm.app import settings_mapping
from swarm.config import BadSettings, Settings, differences, load
from swarm.domain.errors import ConfigurationError, Invalid, Unavailable
from swarm.domain.operating_policy import SETTINGS_KEPT, PolicyBook, ReloadResult
from swarm.services.rules.guarded import attempt
from swarm.services.rules.participants import Rosters

LIVE: Final = (
    "channels",
    "channel_defaults",
    "agents.default",
    "agents.dm",
    "decisions",
    "reactions",
    "limits.messages_per_minute_per_user",
)
"""The keys that a reload changes, with all keys below them."""

_LIVE_OF_AGENTS: Final = ".suggested_prompts"
"""The key of each agent that a reload changes as well."""

_log = structlog.get_logger(__name__)


class Reloader:
    """An object that keeps a policy book in line with the settings, which are read on each `reload`."""

    def __init__(
        self,
        settings: Settings,
        book: PolicyBook,
        rosters: Rosters,
        *,
        read: Callable[[], Settings] = load,
        introduce: Callable[[Collection[str]], Awaitable[None]] | None = None,
    ) -> None:
        """``introduce`` registers the coordinator's own agents, by name."""
        self._started_with = settings
        self._in_force = settings
        self._book = book
        self._rosters = rosters
        self._read = read
        self._introduce = introduce
        self._one_at_a_time = asyncio.Lock()

    async def reload(self) -> ReloadResult:
        """Reads the settings again and applies the reloadable ones. Raises Invalid without changing anything."""
        async with self._one_at_a_time:  # so that the settings read last take effect last
            new = await self._read_anew()
            changed = tuple(key for key in differences(self._in_force, new) if _is_live(key))
            waiting = tuple(key for key in differences(self._started_with, new) if not _is_live(key))
            self._book.current = settings_mapping.policies(new)
            self._in_force = new
            if self._introduce:
                await self._introduce({*new.agents.remote, *new.agents.builtin})
        _log.info("The settings were reloaded.", action="reload", changed=changed, needs_restart=waiting)
        return ReloadResult(changed=changed, needs_restart=waiting, doubts=await self.doubts())

    async def doubts(self) -> tuple[str, ...]:
        """Returns likely mistakes in the settings, as sentences. They are also logged."""
        settings = self._in_force
        found = [
            (channel, f"The channel {channel} names no agent; the default lead answers.")
            for channel in settings_mapping.channels_without_agent(settings)
        ]
        known = await self._known_agents()
        found += [
            (key, f"There is no agent '{name}', which {key} names. Until the agent exists, the default lead answers.")
            for key, name in settings_mapping.named_agents(settings)
            if known is not None and name not in known
        ]
        for key, sentence in found:
            _log.warning(sentence, action="configure", key=key)
        return tuple(sentence for _, sentence in found)

    def warnings(self, agent: str) -> tuple[str, ...]:
        """Returns warnings, as sentences, for an operator who removes an agent that the settings name."""
        settings = self._in_force.agents
        for kind, declared in (("remote", settings.remote), ("builtin", settings.builtin)):
            if agent in declared:
                key = f"agents.{kind}.{agent}"
                return (
                    f"{key} declares this agent, which will be registered again at the next reload or start unless "
                    f"you remove {key}.",
                )
        named = [key for key, name in settings_mapping.named_agents(self._in_force) if name == agent]
        return tuple(
            f"{key} names this agent. Until another agent is named, the default lead answers." for key in named
        )

    async def obey(self, heard: asyncio.Event) -> None:
        """Reloads the settings each time ``heard`` is set. Runs until cancelled. Errors are logged."""
        while True:
            await heard.wait()
            heard.clear()
            await attempt(self._reload_or_say_why(), "reload")

    async def _reload_or_say_why(self) -> None:
        try:
            await self.reload()
        except Invalid as error:
            _log.warning("The settings are unchanged.", action="reload", error=error.message)

    async def _read_anew(self) -> Settings:
        try:
            return await asyncio.to_thread(self._read)
        except ConfigurationError as error:
            fields = error.problems if isinstance(error, BadSettings) else None
            raise Invalid(
                f"The new settings cannot be used: {error.message}", hint=SETTINGS_KEPT, fields=fields
            ) from error

    async def _known_agents(self) -> frozenset[str] | None:
        """Returns the names of all agents that are registered or were in the settings at start. Returns None if the
        agents cannot be read."""
        try:
            roster = await self._rosters.current()
        except Unavailable as error:
            _log.warning("The agents cannot be read.", action="configure", error=error.message)
            return None
        named = self._started_with.agents
        return frozenset(agent.name for agent in roster.agents) | {*named.remote_in_full, *named.builtin}


def _is_live(key: str) -> bool:
    return key.endswith(_LIVE_OF_AGENTS) or any(key == live or key.startswith(f"{live}.") for live in LIVE)
