"""The doors: many applications, one after the other."""

from tests.contract.conftest import adapters

__all__ = ["adapters"]
