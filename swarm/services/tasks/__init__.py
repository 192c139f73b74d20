"""Tasks: delegation, progress and results, and views for agents and operators."""
