"""Deliveries to Slack: storing and sending."""
