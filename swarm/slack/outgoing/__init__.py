"""Calls to Slack: the gateway, rate limits, files and streamed answers."""
