"""MCP servers as people write them with the SDK: each has one way to be asked and to answer.

`SHAPES` names them all; every server finds the same notes, in the order of `FOUND`.
"""

import json
from collections.abc import Callable
from typing import Any, TypedDict

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic import BaseModel

FOUND = ("note-7", "note-2", "note-5")
TITLES = {"note-2": "Green tea", "note-5": "Water", "note-7": "Coffee and sleep"}

SHAPES: dict[str, Callable[[], MCPServer[Any]]] = {}


def shape(build: Callable[[MCPServer[Any]], None]) -> Callable[[], MCPServer[Any]]:
    """Register a server, named after the function that adds its tools."""

    def server() -> MCPServer[Any]:
        made: MCPServer[Any] = MCPServer(build.__name__)
        build(made)
        return made

    SHAPES[build.__name__] = server
    return server


def hits(limit: int = 3) -> list[dict[str, Any]]:
    return [{"doc_id": each, "title": TITLES[each], "score": 0.5} for each in FOUND[:limit]]


@shape
def json_in_a_string(server: MCPServer[Any]) -> None:
    @server.tool()
    def search(query: str, limit: int = 3) -> str:
        return json.dumps({"results": hits(limit)})


@shape
def list_of_dicts(server: MCPServer[Any]) -> None:
    @server.tool()
    def search_notes(query: str, limit: int = 3) -> list[dict[str, Any]]:
        return hits(limit)


@shape
def list_of_ids(server: MCPServer[Any]) -> None:
    @server.tool()
    def find(q: str, k: int = 3) -> list[str]:
        return list(FOUND[:k])


class Note(BaseModel):
    note_id: str
    title: str


class Notes(BaseModel):
    total: int
    notes: list[Note]


@shape
def pydantic_model(server: MCPServer[Any]) -> None:
    @server.tool()
    def retrieve(question: str, max_results: int = 3) -> Notes:
        notes = [Note(note_id=each, title=TITLES[each]) for each in FOUND[:max_results]]
        return Notes(total=len(notes), notes=notes)


@shape
def dict_with_results(server: MCPServer[Any]) -> None:
    @server.tool()
    def lookup(text: str, n: int = 3) -> dict[str, Any]:
        return {"took_ms": 3, "data": {"results": [{"document": each} for each in hits(n)]}}


class Hit(TypedDict):
    id: str
    title: str


class Hits(TypedDict):
    hits: list[Hit]


@shape
def typed_dict(server: MCPServer[Any]) -> None:
    @server.tool()
    def search(search_query: str, top_k: int = 3) -> Hits:
        return {"hits": [{"id": each, "title": TITLES[each]} for each in FOUND[:top_k]]}


@shape
def markdown(server: MCPServer[Any]) -> None:
    @server.tool()
    def search(query: str, limit: int = 3) -> str:
        lines = [f"{n}. **{TITLES[each]}** (id: {each})" for n, each in enumerate(FOUND[:limit], 1)]
        return "# Results\n\n" + "\n".join(lines)


@shape
def a_block_for_each_hit(server: MCPServer[Any]) -> None:
    @server.tool(structured_output=False)
    def search(query: str) -> CallToolResult:
        texts = [f"Found {len(FOUND)} notes:", *map(json.dumps, hits())]
        blocks: list[ContentBlock] = [TextContent(type="text", text=each) for each in texts]
        return CallToolResult(content=blocks)


@shape
def list_of_lists(server: MCPServer[Any]) -> None:
    @server.tool()
    def query_documents(
        collection_name: str, query_texts: list[str], n_results: int = 3
    ) -> dict[str, Any]:
        ids = list(FOUND[:n_results])
        return {
            "ids": [ids for _ in query_texts],
            "documents": [[TITLES[each] for each in ids] for _ in query_texts],
            "distances": [[0.1, 0.2, 0.3][: len(ids)] for _ in query_texts],
        }


@shape
def rows_with_scores(server: MCPServer[Any]) -> None:
    @server.tool()
    def semantic_search(queries: list[str]) -> list[list[Any]]:
        assert isinstance(queries, list)
        return [[0.9 - place / 10, each, TITLES[each]] for place, each in enumerate(FOUND)]


class SearchParams(BaseModel):
    query: str
    limit: int = 3
    index: str = "main"


@shape
def nested_params(server: MCPServer[Any]) -> None:
    @server.tool()
    def search(params: SearchParams) -> list[dict[str, Any]]:
        return hits(params.limit)


@shape
def several_tools(server: MCPServer[Any]) -> None:
    @server.tool()
    def create_note(title: str, text: str) -> str:
        raise AssertionError("a search must not write")

    @server.tool()
    def search_tags(tag_name: str) -> list[str]:
        raise AssertionError("a query is no name of a tag")

    @server.tool()
    def search_notes(keywords: str, page_size: int = 3) -> dict[str, Any]:
        files = [f"vault/{each}.md" for each in FOUND[:page_size]]
        return {"notes": [{"id": place, "file": each} for place, each in enumerate(files)]}


@shape
def entries_as_texts(server: MCPServer[Any]) -> None:
    @server.tool()
    def find(query: str) -> list[str]:
        metadata = {each: json.dumps({"ref": each}) for each in FOUND}
        entries = [f"<entry>{TITLES[each]}<meta>{metadata[each]}</meta></entry>" for each in FOUND]
        return [f"Results for the query {query!r}", *entries]


@shape
def only_names(server: MCPServer[Any]) -> None:
    @server.tool()
    def search_collection(collection_name: str) -> list[str]:
        raise AssertionError("a query is no name of a collection")
