"""The entities and their states."""
