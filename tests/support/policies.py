"""Operating policies for tests."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from swarm.domain.policy.operating import OperatingPolicy, Policies, PolicyBook

_OF_BOOK = {field.name for field in fields(Policies)}


def governing(**given: Any) -> OperatingPolicy:
    """An operating policy, given by its own fields and those of `Policies`."""
    own = {name: value for name, value in given.items() if name in _OF_BOOK}
    fixed = {name: value for name, value in given.items() if name not in _OF_BOOK}
    return OperatingPolicy(book=PolicyBook(Policies(**own)), **fixed)
