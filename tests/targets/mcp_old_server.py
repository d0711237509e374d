"""A server for the MCP library 1.2 to 1.8, run with that version's folder in PYTHONPATH."""

# mypy: ignore-errors
# It imports a name that the 2.x library of this environment no longer has.

import json

from mcp.server.fastmcp import FastMCP

server = FastMCP("old")


@server.tool()
def search_docs(query: str, limit: int = 5) -> str:
    return json.dumps({"results": [{"doc_id": each} for each in ("MED-1", "MED-0")][:limit]})


if __name__ == "__main__":
    server.run()
