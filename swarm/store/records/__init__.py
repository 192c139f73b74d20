"""Records about other rows: history, idempotency keys, figures, elections; retention and erasure."""
