"""Inbox messages, notices, leases, and the queue of each agent."""
