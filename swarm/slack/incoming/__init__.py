"""Slack's payloads as values of the domain."""
