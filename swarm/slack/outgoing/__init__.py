"""Calls to Slack: the gateway, the pace, files, and answers that are written live."""
