"""Observability for operators: metrics, traces, and the log of changes."""
