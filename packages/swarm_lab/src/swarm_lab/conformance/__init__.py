"""Tests an agent's behaviour in Slack with questions, whose answers take the production path.

The agent is called as the coordinator calls it. Its events pass through the production reducer and Slack's own SDK to a
Slack twin, and 22 checks judge the result; six more are reported apart. `tests/STREAMING_CONFORMANCE.md` explains them.
"""
