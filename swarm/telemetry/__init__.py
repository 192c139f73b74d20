"""The operator's view of the system: metrics, traces, and the log of changes."""
