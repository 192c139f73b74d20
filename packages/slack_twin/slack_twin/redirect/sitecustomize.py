"""Runs at the start of every Python process below `slack_twin.run`: the clients of slack_sdk call the twin.

Only the standard library is used, because the app may run in an environment without the twin.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_SLACK = "https://slack.com/api/"
_CLIENTS = {
    "slack_sdk.web.base_client": "BaseClient",
    "slack_sdk.web.async_base_client": "AsyncBaseClient",
    "slack_sdk.web.legacy_base_client": "LegacyBaseClient",
}


class _Redirect(importlib.abc.MetaPathFinder):
    """Changes the default address of a client as soon as its module is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name in _CLIENTS else None
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(_load, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


def _load(load: Any, module: ModuleType) -> None:
    load(module)
    client, twin = getattr(module, _CLIENTS[module.__name__]), os.environ["SLACK_API_URL"]
    made = client.__init__

    @functools.wraps(made)
    def init(self: Any, token: str | None = None, base_url: str = _SLACK, *args: Any, **options: Any) -> None:
        made(self, token, twin if base_url == _SLACK else base_url, *args, **options)

    client.BASE_URL, client.__init__ = twin, init


def _install() -> None:
    """Installs the redirection, and then runs the `sitecustomize` that this one hides."""
    sys.meta_path.insert(0, _Redirect())
    here = os.path.dirname(__file__)
    sys.path[:] = [folder for folder in sys.path if folder != here]
    hidden = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if hidden is not None and hidden.loader is not None:
        hidden.loader.exec_module(importlib.util.module_from_spec(hidden))


_install()
