"""The common parts of all built-in agents: start, limits, memory and end of a run."""
