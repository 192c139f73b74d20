"""Converts Slack's payloads to domain objects."""
