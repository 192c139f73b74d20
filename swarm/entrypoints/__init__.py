"""Entry points: Slack events, HTTP, MCP, AG-UI. They check the caller, translate, and call one service."""
