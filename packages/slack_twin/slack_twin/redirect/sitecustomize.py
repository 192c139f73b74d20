"""Runs at the start of every Python process below `slack_twin.run`: the clients of slack_sdk call the twin.

Only the standard library is used, because the app may run in an environment without the twin.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_SLACK = "https://slack.com/api/"
_CLIENTS = {
    "slack_sdk.web.base_client": "BaseClient",
    "slack_sdk.web.async_base_client": "AsyncBaseClient",
    "slack_sdk.web.legacy_base_client": "LegacyBaseClient",
}


class _Redirect(MetaPathFinder):
    """Changes the default address of a client as soon as its module is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _CLIENTS else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def redirected(module: ModuleType) -> None:
                load(module)
                _redirect(getattr(module, _CLIENTS[name]), os.environ["SLACK_API_URL"])

            spec.loader.exec_module = redirected  # type: ignore[method-assign]
        return spec


def _redirect(client: Any, twin: str) -> None:
    made = client.__init__

    def init(self: Any, token: str | None = None, base_url: str = _SLACK, *args: Any, **options: Any) -> None:
        made(self, token, twin if base_url == _SLACK else base_url, *args, **options)

    client.BASE_URL, client.__init__ = twin, init


sys.meta_path.insert(0, _Redirect())
sys.path[:] = [folder for folder in sys.path if folder != os.path.dirname(__file__)]
if (_hidden := PathFinder.find_spec("sitecustomize")) and _hidden.loader:  # the one that this one hides
    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))
