"""Rules shared by the service packages: leases, idempotency, replies, ownership and failover. Imports none of the other
service packages.
"""
