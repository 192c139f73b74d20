"""Slack: the gateway, the only caller of Slack, with its rate limits; and Slack's payloads."""
