"""Doors: Slack events, HTTP, MCP. They translate, and call one use case."""
