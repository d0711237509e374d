"""The tools of the MCP server. Their docstrings are what models read to choose one."""

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import InputRequiredResult, ToolAnnotations

from assay.serve.mcp.answers import AnswerDesk
from assay.serve.mcp.library import Library, found_note
from assay.serve.mcp.shapes import (
    AnswerTokens,
    Health,
    QueryText,
    SearchResults,
    SemanticAnswer,
    SemanticResults,
    SyncStatus,
    Threshold,
    TopK,
)

_READS_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def add_tools(server: MCPServer[Any], library: Library, desk: AnswerDesk) -> None:
    """Progress messages name the step and never what is searched for."""

    @server.tool(title="Search documents", annotations=_READS_ONLY)
    async def search_nfcorpus(
        query: QueryText, ctx: Context[Any, Any], top_k: TopK = 5
    ) -> SearchResults:
        """Find the documents that answer a question, best first, with title, text and score."""
        await ctx.report_progress(0, 1, "searching")
        found = await library.found_documents(query, top_k)
        await ctx.report_progress(1, 1, "done")
        return found

    @server.tool(title="Health", annotations=_READS_ONLY)
    async def health_check() -> Health:
        """Whether the documents have been loaded, which they are and how many."""
        return library.health()

    @server.tool(title="Semantic search", annotations=_READS_ONLY)
    async def nc_semantic_search(
        query: QueryText,
        ctx: Context[Any, Any],
        limit: TopK = 10,
        score_threshold: Threshold = 0.0,
    ) -> SemanticResults:
        """Find notes by meaning, in the shape of Nextcloud's semantic search."""
        await ctx.report_progress(0, 1, "searching")
        hits = await library.search(query, limit, score_threshold)
        await ctx.report_progress(1, 1, "done")
        return SemanticResults(
            success=True,
            results=[found_note(hit) for hit in hits],
            query=query,
            total_found=len(hits),
            search_method=(await library.retrieval()).mode,
        )

    @server.tool(title="Answer with sources", annotations=_READS_ONLY)
    async def nc_semantic_search_answer(
        query: QueryText,
        ctx: Context[Any, Any],
        limit: TopK = 5,
        score_threshold: Threshold = 0.0,
        max_answer_tokens: AnswerTokens = 500,
    ) -> SemanticAnswer | InputRequiredResult:
        """Answer a question from the documents, citing them as [1], [2]; says so if it cannot."""
        return await desk.answer(query, limit, score_threshold, max_answer_tokens, ctx)

    @server.tool(title="Index status", annotations=_READS_ONLY)
    async def nc_get_vector_sync_status() -> SyncStatus:
        """How many documents are indexed, and how many are still to come."""
        return library.sync_status()
