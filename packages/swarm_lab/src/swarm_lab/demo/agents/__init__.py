"""The demo's agents, each of which runs as a separate process."""
