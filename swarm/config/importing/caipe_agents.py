"""The agents of a CAIPE service that a configuration of its Slack bot names: their names here, and their entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from swarm.config.channel_agents import name_of
from swarm.config.importing import caipe_variables as variable
from swarm.config.importing.translation import Translation
from swarm.domain.answers.agents import Dialect, ResumeForm

BESIDE: Final = "caipe-bot-config"
"""The entry under ``agents.remote`` for agents of a service that already has an entry of its own."""

_WEB_INTERFACE: Final = (
    "CAIPE's web interface refuses conversations that it has not opened itself; if runs fail, set DYNAMIC_AGENTS_URL "
    "to the service behind it"
)
_NO_SERVICE: Final = "no CAIPE service is known; set DYNAMIC_AGENTS_URL"


class ServiceAgents:
    """The names of the service's agents: those in the settings, and a new one for each further id."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        remote = _dicts(settings.get("remote"))
        self._default = settings.get("default")
        self.services = {name: entry for name, entry in remote.items() if entry.get("dialect") == Dialect.CAIPE}
        self.taken = {*remote, *_dicts(settings.get("builtin"))} - {variable.SERVICE}
        self.added: dict[str, str] = {}  # name → id
        self._names: dict[str, str] = {}  # id → name
        for name, entry in self.services.items():
            several = entry.get("agent_ids") or {}
            self.taken |= set(several)
            self._names |= {agent_id: called for called, agent_id in several.items()}
            if entry.get("agent_id"):
                self._names[entry["agent_id"]] = name

    def name_of(self, agent_id: str) -> str:
        """Returns the agent's name here, which is the id if it can be a name and is not taken."""
        if agent_id not in self._names:
            name = name_of(agent_id)
            if name == agent_id and name in self.taken:
                return name  # an agent that the settings have under this very name
            if name in self.taken or name in self.added:
                name = name_of(agent_id, with_digest=True)
            self._names[agent_id] = name
            self.added[name] = agent_id
        return self._names[agent_id]

    def service(self, url: str | None) -> tuple[str, dict[str, Any]] | None:
        """Returns the name and the settings of the entry for the added agents, without their ids.

        ``url`` is used if the settings have no such service. None: there is none, or one of several would be a guess.
        """
        if not self.services:
            return (variable.SERVICE, {"url": url}) if url else None
        called = variable.SERVICE if variable.SERVICE in self.services else next(iter(self.services))
        if called != variable.SERVICE and len(self.services) > 1:
            return None
        entry = {key: value for key, value in self.services[called].items() if key not in ("agent_id", "agent_ids")}
        is_free = called == variable.SERVICE and entry == self.services[called] and self._default != called
        return (called if is_free else BESIDE), entry


def _dicts(value: object) -> dict[str, dict[str, Any]]:
    return {name: entry for name, entry in value.items() if isinstance(entry, dict)} if isinstance(value, dict) else {}


def _defaults(done: Translation, agents: ServiceAgents, variables: Mapping[str, str]) -> None:
    for name, key in ((variable.DEFAULT_AGENT, "default"), (variable.DM_AGENT, "dm")):
        if agent_id := variables.get(name):
            done.put(("agents", key), agents.name_of(agent_id), name)
    if variables.get(variable.VICTOROPS_AGENT):
        done.note(variable.VICTOROPS_AGENT, "channels.*.escalation.agent")


def add_agents(
    done: Translation,
    agents: ServiceAgents,
    variables: Mapping[str, str],
    *,
    is_newer: bool,
    reference: Callable[[str], str] | None,
) -> None:
    """Adds the default agents, and the service with those of its agents that the settings do not have yet."""
    _defaults(done, agents, variables)
    if not agents.added:
        if variables.get(variable.API_URL) and not agents.services:
            done.leave(variable.API_URL, f"no agent of the service is named ({variable.DEFAULT_AGENT})")
        return
    base = agents.service(variables.get(variable.API_URL))
    if base is None:
        done.leave("agent_id", _NO_SERVICE)
        return
    called, entry = base
    service = {**entry, "dialect": Dialect.CAIPE.value, "agent_ids": dict(agents.added)}
    if is_newer:
        service.setdefault("resume", ResumeForm.DATA.value)
    done.values.setdefault("agents", {}).setdefault("remote", {})[called] = service
    at = f"agents.remote.{called}"
    if entry["url"] == variables.get(variable.API_URL):
        done.note(variable.API_URL, f"{at}.url", _WEB_INTERFACE)
    if not {"token", "oauth"} & entry.keys():
        for key, source in variable.oauth(variables).items():
            value = reference(source) if reference else variables[source]
            done.put((*at.split("."), "oauth", key), value, source)
