"""What other packages add to ``swarm``: commands, kinds of agents, routes and sections of the settings.

A package names its `Extension` in its metadata, and needs nothing else:

    [project.entry-points."swarm.extensions"]
    mine = "my_package.extension:EXTENSION"

Loading an extension must be cheap, since every command does it: what it adds is named as ``module:attribute`` and
imported when it is used. Our own packages are found the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from swarm.domain.errors import ConfigurationError

GROUP: Final = "swarm.extensions"

OURS: Final[Mapping[str, str]] = {
    "chat": "swarm-agents",
    "eval": "swarm-agents",
    "run": "swarm-runner",
    "bench": "swarm-lab",
    "conformance": "swarm-lab",
    "demo": "swarm-lab",
    "slack selftest": "swarm-lab",
}
"""The commands of our own packages, which say what to install where it is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command: the function, as ``module:attribute``, and its usage line, if the derived one would mislead."""

    target: str
    usage: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Extension:
    """What a package adds. ``package`` is the name of its distribution, as people install it."""

    package: str
    commands: Mapping[str, Command] = field(default_factory=dict)  # by name; "slack mine" is a command of `swarm slack`


@cache
def installed() -> tuple[Extension, ...]:
    """Returns all extensions, in the order of their names.

    Raises ConfigurationError for an extension that cannot be loaded, and for two that add the same command.
    """
    found = [_loaded(one) for one in sorted(entry_points(group=GROUP), key=lambda one: one.name)]
    owners: dict[str, str] = {}
    for extension in found:
        for name in extension.commands:
            owner = OURS.get(name) or owners.setdefault(name, extension.package)
            if owner != extension.package:
                raise ConfigurationError(
                    f"The packages {owner} and {extension.package} both have a command `{name}`.",
                    hint=f"Uninstall {extension.package}, or ask its authors for another name.",
                )
    return tuple(found)


def missing(what: str, package: str) -> ConfigurationError:
    """Returns the error for something that needs a package which is not installed."""
    return ConfigurationError(
        f"{what} needs the package {package}, which is not installed.",
        hint=f"Install its wheel (`make dist` builds all), or in a checkout `pip install ./packages/"
        f"{package.replace('-', '_')}`.",
    )


def _loaded(point: EntryPoint) -> Extension:
    package = point.dist.name if point.dist else point.value
    try:
        found = point.load()
    except Exception as error:  # code of others
        raise ConfigurationError(
            f"The package {package} cannot be loaded as an extension ({point.value}): {error!r}",
            hint=f"Install a version of it that fits, or uninstall it: pip uninstall {package}",
        ) from error
    if not isinstance(found, Extension):
        raise ConfigurationError(
            f"{point.value} of the package {package} is no swarm.extensions.Extension.",
            hint=f"Uninstall it, or ask its authors: pip uninstall {package}",
        )
    return found
