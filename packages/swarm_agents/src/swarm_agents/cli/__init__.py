"""The commands ``swarm chat`` and ``swarm eval``."""
