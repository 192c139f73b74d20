"""The common base of our HTTP servers: accepted hosts and origins, time limits, caps.

Nothing here depends on the rest of swarm: both the coordinator and the twin, which stands apart, use this.
"""
