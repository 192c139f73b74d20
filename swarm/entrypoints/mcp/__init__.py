"""The MCP entry point: the tools of `tools/` over streamable HTTP."""
