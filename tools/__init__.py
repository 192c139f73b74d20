"""The MCP tools, one a module: typed in, typed out, one call of one service."""
