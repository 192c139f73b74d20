"""Requests to people: asking, deciding, and what becomes of the work that waits."""
