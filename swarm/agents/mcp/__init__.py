"""MCP servers of built-in agents: their configuration, their connections and their tools."""
