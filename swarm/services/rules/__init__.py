"""Rules that several rooms apply: leases, idempotency, replies, ownership, failover. Imports no other room."""
