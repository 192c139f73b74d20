"""Built-in agents of swarm: assistant, router, their tools, models, MCP servers."""
