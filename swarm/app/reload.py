"""Reloads the settings of a running coordinator.

Who may act: the owner of the process, by a signal (SIGHUP), and the operator (``POST /reload``). What is guaranteed:
the reloadable policies are replaced together or, after any error in the settings, not at all; each message is routed
either by the old policies or by the new ones. All other settings are only compared, and changes that need a restart are
reported. Each process reads its own settings; a reload does not affect other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from itertools import count
from typing import Final

import structlog

from swarm.app import settings_mapping
from swarm.app.slack_check import SlackCheck, named
from swarm.clock import until_next
from swarm.config import BadSettings, Settings, differences, load
from swarm.config import secrets as config_secrets
from swarm.domain.errors import ConfigurationError, Invalid, Unavailable
from swarm.domain.policy.operating import SETTINGS_KEPT, PolicyBook, ReloadResult
from swarm.domain.slack_check import sentences
from swarm.services.ground.guarded import attempt
from swarm.services.speaking.participants import Rosters
from swarm_base import secrets as text_secrets

LIVE: Final = (
    "channels",
    "channel_defaults",
    "agents.access",
    "agents.default",
    "agents.dm",
    "budgets",
    "decisions",
    "feedback",
    "reactions",
    "limits.messages_per_minute_per_user",
    "operators",
    "slack.app_token",
    "slack.bot_token",
)
"""The keys that a reload changes, with all keys below them."""

COMPARED_EVERY: Final = 60  # ticks of `ANSWER_SECONDS`
ANSWER_SECONDS: Final = 10.0
"""How long a reload waits for Slack, and when Slack is asked again that did not answer."""

_BY_ID: Final = ".agent_id"
_LIVE_OF_AGENTS: Final = ".suggested_prompts"
"""The key of each agent that a reload changes as well."""

UseTokens = Callable[[str | None, str | None], Awaitable[None]]
"""Goes on with another bot token and app token (None: as before). Raises ConfigurationError or Unavailable, and then
nothing has changed."""

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
        overruled: Callable[[], Collection[str]] = tuple,
        introduce: Callable[[Collection[str]], Awaitable[None]] | None = None,
        slack_check: SlackCheck | None = None,
        use_tokens: UseTokens | None = None,
    ) -> None:
        """``introduce`` registers the coordinator's own agents, by name. Without ``use_tokens`` other tokens need
        a restart.
        """
        self._started_with = settings
        self._in_force = settings
        self._book = book
        self._rosters = rosters
        self._read = read
        self._overruled = overruled
        self._introduce = introduce
        self._slack_check = slack_check
        self._comparing = asyncio.Lock()
        self._use_tokens = use_tokens
        self._one_at_a_time = asyncio.Lock()

    async def reload(self) -> ReloadResult:
        """Reads the settings again and applies the reloadable ones. Raises Invalid without changing anything."""
        async with self._one_at_a_time:  # so that the settings read last take effect last
            new = await self._read_anew()
            await self._change_tokens(new)
            changed = tuple(key for key in differences(self._in_force, new) if _is_live(key))
            waiting = tuple(key for key in differences(self._started_with, new) if not _is_live(key))
            waiting += self._derived_anew(new)
            self._book.current = settings_mapping.policies(new)
            self._in_force, self._book.findings = new, None
            if self._introduce:
                await self._introduce({*new.remote_in_full, *new.agents.builtin})
        _log.info("The settings were reloaded.", action="reload", changed=changed, needs_restart=waiting)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.compare(), ANSWER_SECONDS)
        doubts = (*await self.doubts(), *sentences(self._book.findings))
        return ReloadResult(changed=changed, needs_restart=waiting, doubts=doubts)

    async def _change_tokens(self, new: Settings) -> None:
        """Goes on with other tokens of the same app. Raises Invalid, and then nothing has changed."""
        before, after = self._in_force.slack, new.slack
        bot_token = after.bot_token if after.bot_token != before.bot_token else None
        app_token = after.app_token if after.app_token != before.app_token else None
        if self._use_tokens is None or not (bot_token or app_token):
            return
        text_secrets.hide(config_secrets(new))
        try:
            await self._use_tokens(settings_mapping.secret(bot_token), settings_mapping.secret(app_token))
        except (ConfigurationError, Unavailable) as error:
            raise Invalid(error.message, hint=error.hint or SETTINGS_KEPT) from error

    def _derived_anew(self, new: Settings) -> tuple[str, ...]:
        """Returns the keys that name an agent by an id that no agent had at the start."""
        known = self._started_with.remote_in_full
        named = settings_mapping.named_agents(new)
        return tuple(key for key, name in named if key.endswith(_BY_ID) and name not in known)

    async def doubts(self) -> tuple[str, ...]:
        """Returns likely mistakes in the settings, as sentences. They are also logged."""
        settings = self._in_force
        found = [
            (channel, f"The channel {channel} names no agent; the default lead answers.")
            for channel in settings_mapping.channels_without_agent(settings)
        ]
        found += [
            (key, f"{key} has no effect, because agents hear only mentions there. Set listen to all, bots or alerts.")
            for key in settings_mapping.overthink_without_effect(settings)
        ]
        known = await self._known_agents()
        found += [
            (key, f"There is no agent '{name}', which {key} names. Until the agent exists, the default lead answers.")
            for key, name in settings_mapping.named_agents(settings)
            if known is not None and name not in known
        ]
        found += [
            (key, f"There is no agent '{name}', which {key} names. Until the agent exists, nobody says who is on call.")
            for key, name in settings_mapping.on_call_agents(settings)
            if known is not None and name not in known
        ]
        found += [
            (f"agents.access.{name}", f"There is no agent '{name}', whose use agents.access limits.")
            for name in settings.agents.access
            if known is not None and name not in known
        ]
        found += [
            (name, f"{name} comes from the process's environment, not from the file: change it there, and restart.")
            for name in await asyncio.to_thread(self._overruled)
        ]
        for key, sentence in found:
            _log.warning(sentence, action="configure", key=key)
        return tuple(sentence for _, sentence in found)

    async def watch_slack(self) -> None:
        """Compares the settings with Slack until cancelled: at once, and then more often as long as it is silent."""
        for tick in count():
            if self._book.findings is None or tick % COMPARED_EVERY == 0:
                await attempt(self.compare(), "configure")
            await asyncio.sleep(until_next(ANSWER_SECONDS))

    async def compare(self) -> None:
        """Compares the settings in force with Slack. New findings are logged."""
        async with self._comparing:
            settings, found = self._in_force, None
            with suppress(Unavailable, ConfigurationError):
                found = await self._slack_check.look(settings, named(settings)) if self._slack_check else ()
            for one in set(found or ()) - set(self._book.findings or ()):
                _log.warning(*sentences((one,)), action="configure", key=", ".join(one.keys))
            if settings is self._in_force:
                self._book.findings = found

    def warnings(self, agent: str) -> tuple[str, ...]:
        """Returns warnings, as sentences, for an operator who removes an agent that the settings name."""
        settings = self._in_force.agents
        by_kind = (("remote", settings.remote), ("builtin", settings.builtin))
        declaring = [f"agents.{kind}.{agent}" for kind, declared in by_kind if agent in declared]
        by_name = settings_mapping.named_agents(self._in_force)
        declaring += [key for key, name in by_name if name == agent and key.endswith(_BY_ID)]
        if declaring:
            key = declaring[0]
            return (
                f"{key} declares this agent, which will be registered again at the next reload or start unless "
                f"you remove {key}.",
            )
        named = [key for key, name in settings_mapping.named_agents(self._in_force) if name == agent]
        on_call = [key for key, name in settings_mapping.on_call_agents(self._in_force) if name == agent]
        return (
            *(f"{key} names this agent. Until another agent is named, the default lead answers." for key in named),
            *(f"{key} names this agent. Until another agent is named, nobody says who is on call." for key in on_call),
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
        started = self._started_with
        return frozenset(agent.name for agent in roster.agents) | {*started.remote_in_full, *started.agents.builtin}


def _is_live(key: str) -> bool:
    return key.endswith(_LIVE_OF_AGENTS) or any(key == live or key.startswith(f"{live}.") for live in LIVE)
