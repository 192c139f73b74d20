"""How an operator sees what the system does: metrics, traces, and the log's account of what changed."""
