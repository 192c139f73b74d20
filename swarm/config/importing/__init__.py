"""Settings from the configurations of other systems: CAIPE's Slack bot, an MCP Slack bot, and Yui.

Each of them is translated into our settings with a note on every key: where it went, what differs, or why it was left
out. `caipe` also serves ``SLACK_INTEGRATION_BOT_CONFIG`` while a coordinator runs; ``swarm import`` writes any of them
as a ``swarm.yaml``.
"""
