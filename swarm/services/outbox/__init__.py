"""Deliveries to Slack: storing, sending, and the election of the process that sends."""
