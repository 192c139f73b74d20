"""Connections, transactions, statements and wakeups, with the same interface for both engines."""
