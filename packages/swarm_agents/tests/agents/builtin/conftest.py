"""A database where it does not matter which."""

from packages.swarm_agents.tests.agents.builtin.places import db

__all__ = ("db",)
