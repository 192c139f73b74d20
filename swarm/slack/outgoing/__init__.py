"""Calls to Slack: the gateway, rate limits, files, and live answers."""
