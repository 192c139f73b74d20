"""What other packages add to ``swarm``: commands, kinds of agents, routes and sections of the settings.

A package names its `Extension` in its metadata, and needs nothing else:

    [project.entry-points."swarm.extensions"]
    mine = "my_package.extension:EXTENSION"

Loading an extension must be cheap, since every command does it: what it adds is named as ``module:attribute`` and
imported when it is used. Our own packages are found the same way. See docs/extensions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

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

PACKAGES: Final = frozenset({*OURS.values(), "slack-twin"})
"""Our own packages that the core does without."""


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
    agents: str | None = None  # a function: `swarm.app.extending.AgentHost` to a context with an `AgentSet`
    routes: str | None = None  # a function: `swarm.app.extending.RouteHost` to Starlette's routes
    section: str | None = None  # its settings, below extensions.NAME: a subclass of `swarm.config.section.Section`

    def load(self, target: str) -> Any:
        """Returns the function or class that a target names. Raises ConfigurationError if it cannot be imported."""
        module, _, name = target.partition(":")
        try:
            found = getattr(import_module(module), name)
        except Exception as error:  # code of others
            raise self.unusable(target, repr(error)) from error
        if not callable(found):
            raise self.unusable(target, f"it is no function or class, but {type(found).__name__}")
        return found

    def unusable(self, target: str, reason: str) -> ConfigurationError:
        """Returns the error for a part that cannot be used."""
        return ConfigurationError(
            f"The package {self.package} cannot be used as an extension: {target}: {reason}.",
            hint=f"Install a version of it that fits, or uninstall it: pip uninstall {self.package}",
        )


@cache
def installed() -> Mapping[str, Extension]:
    """Returns all extensions by their names, which the packages choose, in the order of the names.

    Raises ConfigurationError for an extension that cannot be loaded, and for two with the same name or command.
    """
    found: dict[str, Extension] = {}
    owners: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        extension = _loaded(point)
        if point.name in found:
            raise _both(found[point.name].package, extension.package, f"are called `{point.name}`")
        for name in extension.commands:
            owner = OURS.get(name) or owners.setdefault(name, extension.package)
            if owner != extension.package:
                raise _both(owner, extension.package, f"have a command `{name}`")
        found[point.name] = extension
    return found


def require(package: str, what: str) -> None:
    """Raises the error of `missing` unless a package is installed."""
    if all(extension.package != package for extension in installed().values()):
        raise missing(what, package)


def missing(what: str, package: str) -> ConfigurationError:
    """Returns the error for something that needs a package which is not installed."""
    return ConfigurationError(
        f"{what} needs the package {package}, which is not installed.",
        hint=f"Install its wheel (`make dist` builds all), or in a checkout `pip install ./packages/"
        f"{package.replace('-', '_')}`.",
    )


def _loaded(point: EntryPoint) -> Extension:
    package = Extension(package=point.dist.name if point.dist else point.value)
    try:
        found = point.load()
    except Exception as error:  # code of others
        raise package.unusable(point.value, repr(error)) from error
    if not isinstance(found, Extension):
        raise package.unusable(point.value, "it is no swarm.extensions.Extension")
    return found


def _both(one: str, other: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"The packages {one} and {other} both {what}.",
        hint=f"Uninstall {other}, or ask its authors for another name.",
    )
