"""The rules of the system: pure functions over frozen dataclasses, no I/O."""
