"""A database where it does not matter which."""

from tests.agents.builtin.places import db

__all__ = ("db",)
