"""Tests of `swarm.agents.builtin`."""
