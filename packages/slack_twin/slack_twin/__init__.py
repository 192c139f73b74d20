"""A local Slack workspace: Web API, Socket Mode, signed HTTP delivery, a control API and a page.

The package does not depend on the coordinator. `python -m slack_twin` runs it; tests use `build_twin` and `running`.
The names below are loaded on first use, because every run of pytest loads the plugin in this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slack_twin.server import create_app, environment, running, serve
    from slack_twin.settings import Settings
    from slack_twin.twin import Twin, build_twin

__all__ = ["Settings", "Twin", "build_twin", "create_app", "environment", "running", "serve"]

_HOMES = {"Settings": "settings", "Twin": "twin", "build_twin": "twin"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'server')}"), name)
