"""Agents that the coordinator runs itself: built-in agents, and remote services with AG-UI.

`agui` is the client of a remote agent; `conversation` computes the ids under which agents know our threads. Below the
client: `dialects` (the requests), `exchange` and `http` (their transport), `failures` (errors in words for people), and
`translation` (AG-UI's events and whole answers as ours).
"""
