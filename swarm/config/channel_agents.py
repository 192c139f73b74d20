"""The agents of CAIPE services that channels name by their ids (`agent_id`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from swarm.config.agents import AgentSettings, RemoteAgentSettings
from swarm.config.channels import ChannelSettings
from swarm.domain.answers.agents import Dialect
from swarm.domain.model.agents import LONGEST_NAME, NEVER_NAMES

NamedAgent = tuple[str, RemoteAgentSettings]

_DIGEST_CHARACTERS: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


def agent_by_id(agents: AgentSettings, chosen: ChannelSettings) -> NamedAgent | None:
    """Returns the agent with a channel's ``agent_id``; None without one.

    This is the agent of `agents.remote` with this id. If there is none, it is an agent with the settings of its
    service, named after the id. Raises ValueError if the service is unknown or ambiguous, or the name is taken.
    """
    wanted = chosen.agent_id
    if wanted is None:
        return None
    service = _service(agents, chosen.agent) if chosen.agent else None
    known = [
        (name, entry)
        for name, entry in agents.remote_in_full.items()
        if entry.dialect is Dialect.CAIPE and entry.agent_id == wanted and (not service or entry.url == service.url)
    ]
    if known and (service or len(known) == 1):
        return known[0]
    return _derived(agents, wanted, service or _only_service(agents))


def is_service(agents: AgentSettings, name: str) -> bool:
    """Whether a name is that of a CAIPE service, or of one of its agents."""
    entry = _entry(agents, name)
    return entry is not None and entry.dialect is Dialect.CAIPE


def _service(agents: AgentSettings, name: str) -> RemoteAgentSettings:
    entry = _entry(agents, name)
    if entry is None or entry.dialect is not Dialect.CAIPE:
        raise ValueError(
            f"agent is '{name}', which is no CAIPE service; the name of an entry of agents.remote with the dialect "
            "caipe is expected"
        )
    return entry


def _entry(agents: AgentSettings, name: str) -> RemoteAgentSettings | None:
    return agents.remote.get(name) or next((one for one in agents.remote.values() if name in one.agent_ids), None)


def _only_service(agents: AgentSettings) -> RemoteAgentSettings:
    services = {name: entry for name, entry in agents.remote.items() if entry.dialect is Dialect.CAIPE}
    if not services:
        raise ValueError("there is no CAIPE service; an entry of agents.remote with the dialect caipe is expected")
    if len(services) > 1:
        names = ", ".join(services)
        raise ValueError(f"there are several CAIPE services ({names}); the key agent is expected to name one of them")
    return next(iter(services.values()))


def _derived(agents: AgentSettings, agent_id: str, service: RemoteAgentSettings) -> NamedAgent:
    name = name_of(agent_id)
    if name in agents.remote_in_full or name in agents.builtin:
        raise ValueError(
            f"the agent '{agent_id}' would be named '{name}', which is another agent's name; list it with a name of "
            "its own under agent_ids of its service"
        )
    return name, service.model_copy(update={"agent_id": agent_id, "agent_ids": {}})


def name_of(agent_id: str, *, with_digest: bool = False) -> str:
    """Returns a valid name for an agent, made from its id in a service. Ids that need a longer or another name get a
    part of a digest, as do those whose plain name is taken (``with_digest``).
    """
    name = _NOT_IN_NAMES.sub("-", agent_id.lower()).strip("-")
    if name and name not in NEVER_NAMES and len(name) <= LONGEST_NAME and not with_digest:
        return name
    digest = hashlib.sha256(agent_id.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{(name or 'agent')[: LONGEST_NAME - _DIGEST_CHARACTERS - 1].rstrip('-')}-{digest}"


def agent_id_problems(agents: AgentSettings, channels: Mapping[str, ChannelSettings]) -> dict[str, str]:
    """Returns each bad ``agent_id`` of the channels' complete settings, by their keys, with its problem."""
    problems: dict[str, str] = {}
    ids: dict[str, str | None] = {}
    for key, chosen in channels.items():
        try:
            named = agent_by_id(agents, chosen)
        except ValueError as error:
            problems[f"{key}.agent_id"] = str(error)
            continue
        if named and ids.setdefault(named[0], chosen.agent_id) != chosen.agent_id:
            problems[f"{key}.agent_id"] = (
                f"the agents '{ids[named[0]]}' and '{chosen.agent_id}' would both be named '{named[0]}'; list them "
                "with names of their own under agent_ids of their service"
            )
    return problems
