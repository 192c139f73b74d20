"""Slack: the gateway, which makes all calls to Slack and keeps its rate limits, and Slack's payloads."""
