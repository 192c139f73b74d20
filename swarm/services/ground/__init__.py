"""What every service stands on: locks, contained failures, credentials, idempotent calls, batches."""
