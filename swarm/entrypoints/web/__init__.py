"""The common base of our HTTP servers: accepted hosts and origins, time limits, caps.

This package does not depend on the rest of swarm, so the twin can use it as well as the coordinator.
"""
