"""Tests of `swarm.agents.assistant`."""
