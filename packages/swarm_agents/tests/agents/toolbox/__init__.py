"""Tests of `swarm_agents.toolbox`."""
