"""Tests of `swarm.agents.router`."""
