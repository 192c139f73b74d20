"""Inbox messages, notices, leases, and each agent's queue."""
