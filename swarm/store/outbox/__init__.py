"""Deliveries to Slack, reactions among them."""
