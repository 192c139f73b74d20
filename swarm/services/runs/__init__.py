"""Runs of streaming agents: start, input, stream, recovery, end."""
