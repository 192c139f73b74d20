"""Shared parts of the built-in agents: execution, limits, sessions and recording of runs."""
