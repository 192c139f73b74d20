"""Settings: one frozen object, checked at start. Errors name the key, the value, and what was expected.

A value is taken from the first source that sets it: the process's environment, ``./.env``, ``~/.swarm/.env``,
``swarm.yaml``, the default. `VARIABLES` lists every environment variable with its setting. In ``swarm.yaml`` the
settings have the structure of the classes in `settings`, and ``${NAME}`` refers to a variable. SWARM_CONFIG names a
different file.
"""

from __future__ import annotations

from swarm.config.agents import AgentSettings, OAuthSettings, RemoteAgentSettings
from swarm.config.builtin import BuiltinAgentSettings, Kind, LocalTool
from swarm.config.channels import ChannelSettings
from swarm.config.reading import (
    CONFIG_FILE,
    BadSettings,
    Reading,
    load,
    load_part,
    read,
    read_variables,
)
from swarm.config.section import describe, differences, secret_problem, secrets
from swarm.config.settings import (
    DatabaseSettings,
    FileSettings,
    HttpSettings,
    LeaseSettings,
    LogFormat,
    LogSettings,
    MetricsSettings,
    Settings,
    SlackMode,
    SlackSettings,
    TracesSettings,
)
from swarm.config.variables import CONFIG_VARIABLE, DYNAMIC_AGENTS, VARIABLES
from swarm.config.work_tree import checked_work_tree

__all__ = [
    "CONFIG_FILE",
    "CONFIG_VARIABLE",
    "DYNAMIC_AGENTS",
    "VARIABLES",
    "AgentSettings",
    "BadSettings",
    "BuiltinAgentSettings",
    "ChannelSettings",
    "DatabaseSettings",
    "FileSettings",
    "HttpSettings",
    "Kind",
    "LeaseSettings",
    "LocalTool",
    "LogFormat",
    "LogSettings",
    "MetricsSettings",
    "OAuthSettings",
    "Reading",
    "RemoteAgentSettings",
    "Settings",
    "SlackMode",
    "SlackSettings",
    "TracesSettings",
    "checked_work_tree",
    "describe",
    "differences",
    "load",
    "load_part",
    "read",
    "read_variables",
    "secret_problem",
    "secrets",
]
