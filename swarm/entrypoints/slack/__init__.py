"""Slack events, over Socket Mode and HTTP."""
