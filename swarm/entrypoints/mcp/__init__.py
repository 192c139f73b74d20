"""MCP: the tools of `tools/` over streamable HTTP."""
