"""Tests of `swarm_agents.router`."""
