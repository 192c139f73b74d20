"""A user without a home folder is told so."""

from __future__ import annotations

import pwd

import pytest

from swarm.config import load
from swarm.domain.errors import ConfigurationError

pytestmark = pytest.mark.req("OPS-16")


def test_no_home_folder_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(ConfigurationError) as found:
        load({})
    assert found.value.message.startswith("HOME is not set")
    assert "Set HOME" in (found.value.hint or "")
