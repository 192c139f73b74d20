"""The MCP tools, one per module. Each has typed arguments and a typed result, and makes one call of one service."""
