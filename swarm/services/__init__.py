"""Use cases: each module is one thing that the system does."""
