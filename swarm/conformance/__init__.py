"""Whether an agent works well in Slack: it is asked four questions, and its answers go the way of real ones.

The agent is reached as the coordinator reaches it, its events go through the production reducer and Slack's own SDK
into a Slack twin, and what happened there is judged by 22 checks. `tests/STREAMING_CONFORMANCE.md` explains them.
"""
