"""MCP servers that built-in agents use: which there are, the way to each of them, and their tools."""
