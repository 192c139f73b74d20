"""Tests of `swarm.agents.toolbox`."""
