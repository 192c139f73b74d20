"""Inbox messages, notices, leases, and the queues that agents poll."""
