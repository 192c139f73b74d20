"""No test here ever asks for a host that is not this machine, and none finds keys in the environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.providers import AWS_ENVIRONMENT

_PREFIXES = ("OPENAI_", "ANTHROPIC_", "OLLAMA_", "AWS_")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In one process: the providers' libraries take five seconds to load."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("providers"))


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that the providers' libraries read from the environment, only credentials of nobody for Bedrock."""
    for name in [name for name in os.environ if name.startswith(_PREFIXES)]:
        monkeypatch.delenv(name)
    for name, value in AWS_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def sought(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The foreign hosts that somebody has tried to find; there are none for them to find."""
    hosts: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name.startswith("127.") or name in ("localhost", "::1"):
            return real(host, *args, **kwargs)
        hosts.append(name)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return hosts


@pytest.fixture(autouse=True)
def _no_foreign_host(sought: list[str]) -> Iterator[None]:
    """A test that means a foreign host takes it from the list."""
    yield
    assert sought == []
