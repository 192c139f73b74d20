"""Checks made before the heavy parts are loaded, so that errors are reported in one line and within a second."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from swarm import extensions
from swarm.app import home, settings_mapping
from swarm.config import Settings, checked_work_tree
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import ADDRESS_VARIABLES, ModelSpec, require_key

CONNECT_SECONDS: Final = 1.0

_HERE: Final = ("localhost", "127.0.0.1", "::1")
_PORTS: Final = {"http": 80, "https": 443}


def check(settings: Settings) -> None:
    """Creates the home folder. Raises ConfigurationError for settings that prevent a coordinator from starting."""
    checked_work_tree(settings)
    home.prepare(settings)
    home.check_kept_token(settings)
    bot_token(settings)
    if settings.agents.builtin:
        extensions.require("swarm-agents", "A built-in agent (agents.builtin; LLM_MODEL alone makes one, too)")
    for agent in settings.agents.builtin:
        for spec in settings_mapping.model_specs(settings, agent):
            require_key(spec)


def check_models(specs: Sequence[ModelSpec]) -> None:
    """Raises ConfigurationError if a key is missing, or if nothing listens at the models' addresses. Blocks for at most
    one second per model.

    Addresses that do not answer, and addresses behind a proxy, are left to the model's client.
    """
    for spec in specs:
        require_key(spec)
    refused = [spec for spec in specs if _is_refused(spec)]
    if not refused or len(refused) < len(specs):
        return
    first = refused[0]
    raise ConfigurationError(
        f"The model {first.label} cannot be reached: nothing listens at {first.base_url}.",
        hint=f"Start the server at this address, or check {ADDRESS_VARIABLES[first.provider]}. {first.guess}".rstrip(),
    )


def _is_refused(spec: ModelSpec) -> bool:
    address = urlsplit(spec.base_url or "")
    host = address.hostname
    if not host or (getproxies() and not proxy_bypass(host) and host not in _HERE):
        return False
    try:
        socket.create_connection((host, address.port or _PORTS[address.scheme]), timeout=CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def bot_token(settings: Settings) -> str:
    """Returns the bot token for Slack. Raises ConfigurationError if there is none."""
    if settings.slack.bot_token is None:
        raise ConfigurationError(
            "SLACK_BOT_TOKEN and SLACK_APP_TOKEN are not set. `swarm slack manifest` helps to create the Slack app; "
            "`swarm demo` runs everything against a local twin of Slack."
        )
    return settings.slack.bot_token.get_secret_value()
