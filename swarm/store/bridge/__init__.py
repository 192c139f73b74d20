"""Connections, transactions, statements and wakeups, the same for both engines."""
