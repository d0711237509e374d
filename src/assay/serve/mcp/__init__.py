"""The MCP server and its REST twin."""
