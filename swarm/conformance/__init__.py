"""A test of an agent's behaviour in Slack: four questions, whose answers take the production path.

The agent is reached as the coordinator reaches it, its events go through the production reducer and Slack's own SDK
into a Slack twin, and 22 checks judge the result. `tests/STREAMING_CONFORMANCE.md` explains them.
"""
