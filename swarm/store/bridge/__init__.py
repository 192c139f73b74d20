"""The bridge to the database: connections, transactions, statements, wakeups; the same for both engines."""
