"""The MCP server and its REST routes."""
