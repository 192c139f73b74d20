"""Agents that the coordinator runs itself: remote services that speak AG-UI, and (later) those built in.

`agui` is the client of a remote agent; `conversation` computes the ids under which agents know our threads. Below the
client: `dialects` (what is sent), `exchange` with `credentials` and `http` (how), `sse` and `whole_answers` (what comes
back), `failures` (what went wrong, in words for people), and `translation` (AG-UI's events in our words).
"""
