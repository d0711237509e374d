"""Search tools of MCP servers."""
