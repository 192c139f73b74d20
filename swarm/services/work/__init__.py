"""Work under leases: who may act on it, how it ends, to whom its thread belongs, and what is posted for it."""
