"""Use cases: each module is one feature of the system."""
