"""Tasks: delegation, work on them, their state for agents and operators."""
