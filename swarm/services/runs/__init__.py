"""Runs of agents that answer live: start, input, stream, recovery, end."""
