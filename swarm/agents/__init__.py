"""Agents that the coordinator runs itself: remote services that speak AG-UI, and (later) those built in."""
