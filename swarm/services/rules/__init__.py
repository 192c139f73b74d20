"""Rules shared by the packages of services: leases, idempotency, replies, ownership, failover. Imports no other of
these packages.
"""
