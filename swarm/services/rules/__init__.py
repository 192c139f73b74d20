"""Rules shared by the service packages: leases, idempotency, replies, ownership and escalations. Imports none of the
other service packages.
"""
