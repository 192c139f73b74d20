"""Tests of `swarm_agents.builtin`."""
