"""MCP servers of built-in agents: their configuration, connections and tools."""
