"""All services that docs/targets.md names, at one address: HTTP, A2A and MCP, over the notes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a.helpers import new_data_part, new_text_part
from a2a.server.tasks import TaskUpdater
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from tests.interop.server10 import Stranger, agent_app
from tests.targets.search_services import DOCUMENTS, app, best


async def answer(question: str, updater: TaskUpdater) -> None:
    if question.startswith("{"):
        asked = json.loads(question)
        found = [{"doc_id": each} for each, _ in best(asked["query"], asked["top_k"])]
        await updater.add_artifact([new_data_part({"search": {"results": found}})])
        return
    sentences = [f"{DOCUMENTS[each].title} says so [{each}]." for each, _ in best(question, 5)]
    for place, each in enumerate(sentences):
        await updater.add_artifact([new_text_part(f"{each}\n")], artifact_id="a", append=place > 0)


def mcp_server() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("notes")

    @server.tool()
    def search_notes(query: str, limit: int = 5) -> str:
        return json.dumps({"notes": [{"id": each} for each, _ in best(query, limit)]})

    @server.tool()
    def query_documents(collection_name: str, query_texts: list[str]) -> dict[str, Any]:
        assert collection_name == "docs"
        return {"ids": [[each for each, _ in best(text, 5)] for text in query_texts]}

    @server.tool()
    def list_notes(query: str) -> str:
        lines = [f"* **{DOCUMENTS[each].title}** (id: {each})" for each, _ in best(query, 5)]
        return "\n".join(lines)

    return server


def documented_app() -> Starlette:
    server = mcp_server()
    mcp_app = server.streamable_http_app()

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with server.session_manager.run():
            yield

    agent = agent_app(executor=Stranger(answer))
    return Starlette(routes=[*app.routes, *agent.routes, *mcp_app.routes], lifespan=lifespan)
