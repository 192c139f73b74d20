"""Tasks: rows, transitions, queries."""
