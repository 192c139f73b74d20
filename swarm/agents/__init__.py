"""Agents that the coordinator calls: built-in agents, and remote services with AG-UI.

`agui` is the client of a remote agent; `conversation` computes the conversation ids that agents use for our threads.
The client uses `dialects` (the requests), `exchange` and `http` (the transport), `failures` (user-facing descriptions
of errors), and `translation` (which converts AG-UI's events and complete answers to Swarm's).
"""
