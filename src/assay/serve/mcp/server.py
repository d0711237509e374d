"""The MCP server for any transport: tools, documents as resources, answers, safe errors.

`nc_semantic_search_answer` searches, then answers with citations from what was found. If the client
offers sampling, its own model writes the answer. Until 2025-11-25 the server sends a request of its
own while the tool call is open; from 2026-07-28 on the call ends with a question, and the client
calls again with the reply. Sampling is deprecated since then, so nothing depends on it: every way
in which it fails leads to the server's own answerer.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from mcp import MCPError
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
    UnexpectedToolError,
)
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    GetPromptResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from mcp_types.version import is_version_at_least
from pydantic import AnyUrl, ValidationError

from assay.errors import AssayError
from assay.llm.answerer import ExtractiveAnswerer
from assay.llm.passages import Answer, Passage, not_found
from assay.llm.prompt import SYSTEM, question_prompt, read_generated
from assay.serve.mcp.search import (
    AnswerTokens,
    DescribedQuery,
    DocumentSearch,
    Health,
    SearchResults,
    SemanticAnswer,
    SemanticResults,
    SyncStatus,
    Threshold,
    TopK,
    found_note,
)

_INSTRUCTIONS = (
    "Searches a collection of documents. search_nfcorpus finds documents for a question; "
    "nc_semantic_search_answer answers it with citations; doc://ID returns one full document."
)
_READS_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
# An id is looked up in a table and never becomes a path, so it may look like one.
_ANY_ID = ResourceSecurity(exempt_params={"id"})


def mcp_server(documents: DocumentSearch) -> MCPServer[None]:
    """A server that starts to load its documents when it is run, on any transport.

    Where the client offers no sampling, answers quote the documents.
    """
    server = _SafeServer(
        name="assay",
        title="Assay",
        version=version("agent-assay"),
        instructions=_INSTRUCTIONS,
        lifespan=lambda _server: _loading(documents),
        subscriptions=False,  # no list ever changes
    )
    _add_tools(server, documents)
    _add_answers(server, documents)
    _add_documents(server, documents)
    return server


@asynccontextmanager
async def _loading(documents: DocumentSearch) -> AsyncIterator[None]:
    documents.loading.start()
    try:
        yield
    finally:
        await documents.loading.stop()


def _add_tools(server: MCPServer[Any], documents: DocumentSearch) -> None:
    """Register the tools. Their docstrings are what models read to choose one.

    Progress messages name the step and never what is searched for.
    """

    @server.tool(title="Search documents", annotations=_READS_ONLY)
    async def search_nfcorpus(
        query: DescribedQuery, ctx: Context[Any, Any], top_k: TopK = 5
    ) -> SearchResults:
        """Find the documents that answer a question, best first, with title, text and score."""
        await ctx.report_progress(0, 1, "searching")
        found = await documents.found_documents(query, top_k, _trace_of(ctx))
        await ctx.report_progress(1, 1, "done")
        return found

    @server.tool(title="Health", annotations=_READS_ONLY)
    async def health_check() -> Health:
        """Whether the documents have been loaded, which they are and how many."""
        return documents.health()

    @server.tool(title="Semantic search", annotations=_READS_ONLY)
    async def nc_semantic_search(
        query: DescribedQuery,
        ctx: Context[Any, Any],
        limit: TopK = 10,
        score_threshold: Threshold = 0.0,
    ) -> SemanticResults:
        """Find notes by meaning, in the shape of Nextcloud's semantic search."""
        await ctx.report_progress(0, 1, "searching")
        hits = await documents.search(query, limit, score_threshold, _trace_of(ctx))
        await ctx.report_progress(1, 1, "done")
        return SemanticResults(
            success=True,
            results=[found_note(hit) for hit in hits],
            query=query,
            total_found=len(hits),
            search_method=(await documents.retrieval()).mode,
        )

    @server.tool(title="Index status", annotations=_READS_ONLY)
    async def nc_get_vector_sync_status() -> SyncStatus:
        """How many documents are indexed, and how many are still to come."""
        return documents.sync_status()


def _trace_of(context: Context[Any, Any]) -> str:
    """The W3C trace of a call: in `_meta`, or in the header of its request."""
    found = context.request_context
    meta = found.meta or {}
    headers = found.request.headers if found.request is not None else {}
    return str(meta.get("traceparent") or headers.get("traceparent", ""))


def _add_documents(server: MCPServer[Any], documents: DocumentSearch) -> None:
    """Register documents as resources: `doc://MED-10`."""

    @server.resource(
        "doc://{id}",
        title="Document",
        description="One document by its id: its title, an empty line, its text.",
        mime_type="text/plain",
        security=_ANY_ID,
    )
    async def document(id: str) -> str:
        found = (await documents.retrieval()).dataset.documents.get(id)
        if found is None:
            raise ResourceNotFoundError("no document has that id")
        return f"{found.title}\n\n{found.text}" if found.title else found.text


class _SafeServer(MCPServer[None]):
    """Replaces error messages of the SDK, which quote invalid arguments, and lets our own errors
    through, which the SDK would report as crashes."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError) and not isinstance(error, UnexpectedToolError):
                raise ToolError(f"{name}: {all_problems(cause)}") from cause
            if isinstance(cause, AssayError):
                raise ToolError(f"{name}: {cause}") from cause
            # The SDK names a cause for every failure but an unknown tool.
            if cause is None:
                message = "there is no such tool; see tools/list"
                raise MCPError(INVALID_PARAMS, message) from None
            raise

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[None, Any] | None = None,
    ) -> GetPromptResult | InputRequiredResult:
        """The SDK's own message repeats the name, which is the caller's text."""
        raise MCPError(INVALID_PARAMS, "this server has no prompts")

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        """The SDK's own message repeats the address, which is the caller's text."""
        try:
            return await super().read_resource(uri, context)
        except ResourceNotFoundError as error:
            message = "unknown document; use doc:// with an id from a search"
            raise MCPError(INVALID_PARAMS, message) from error
        except ResourceError as error:
            cause = error.__cause__
            message = (
                str(cause) if isinstance(cause, AssayError) else "the document could not be read"
            )
            raise MCPError(INTERNAL_ERROR, message) from error


def all_problems(error: ValidationError) -> str:
    """Each argument that is wrong and why, without its value."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'the body'}: {problem['msg'].lower()}"
        for problem in problems
    )


# --- answers --------------------------------------------------------------------------------------

SAMPLING = "sampling"
# `model_used` if nothing was found, so that no model was asked.
NO_MODEL = "none"

_SAMPLING_KEY = "answer"
_MULTI_ROUND_VERSION = "2026-07-28"
# The protocol wants a person at the client who may refuse each sampling: people take time.
_SAMPLING_TIMEOUT_S = 120.0


def _add_answers(server: MCPServer[Any], documents: DocumentSearch) -> None:
    """Register the tool that answers."""

    @server.tool(title="Answer with sources", annotations=_READS_ONLY)
    async def nc_semantic_search_answer(
        query: DescribedQuery,
        ctx: Context[Any, Any],
        limit: TopK = 5,
        score_threshold: Threshold = 0.0,
        max_answer_tokens: AnswerTokens = 500,
    ) -> SemanticAnswer | InputRequiredResult:
        """Answer a question from the documents, citing them as [1], [2]; says so if it cannot."""
        await ctx.report_progress(0, 2, "searching")
        retrieval = await documents.retrieval()
        if ctx.input_responses is None:
            hits = await documents.search(query, limit, score_threshold)
        else:  # the second round of a call, whose search was counted in the first
            found = await retrieval.search(query, limit)
            hits = [hit for hit in found if hit.score >= score_threshold]
        answer, method = not_found(NO_MODEL), str(retrieval.mode)
        if hits:
            await ctx.report_progress(1, 2, "answering")
            passages = [Passage(hit.doc_id, hit.title, hit.text) for hit in hits]
            written, writer = await _written(query, passages, max_answer_tokens, ctx)
            if isinstance(written, InputRequiredResult):
                return written
            answer = written
            await ctx.report_progress(2, 2, "done")
            method = f"{retrieval.mode}+{writer}"
        # Sources are always returned; if none of them answers, `total_found` is 0.
        return SemanticAnswer(
            success=True,
            query=query,
            generated_answer=answer.text,
            sources=[found_note(hit) for hit in hits],
            total_found=len(hits) if answer.found else 0,
            search_method=method,
            model_used=answer.model,
            stop_reason=answer.stop_reason,
            citations=[hits[place - 1].doc_id for place in answer.citations],
            warnings=list(answer.warnings),
        )


async def _written(
    query: str, passages: Sequence[Passage], max_tokens: int, ctx: Context[Any, Any]
) -> tuple[Answer | InputRequiredResult, str]:
    """The answer, or the question to the client, and the method that wrote it: the client's model
    if it offers sampling, else quotations."""
    warnings: tuple[str, ...] = ()
    capabilities = ctx.client_capabilities
    if capabilities is not None and capabilities.sampling is not None:
        answer = await _sampled(ctx, question_prompt(query, passages), len(passages), max_tokens)
        if not isinstance(answer, str):
            return answer, SAMPLING
        warnings = (f"sampling was available but produced no answer: {answer}",)
    quoting = ExtractiveAnswerer()
    quoted = await quoting.answer(query, passages, max_tokens)
    return replace(quoted, warnings=(*warnings, *quoted.warnings)), quoting.name


async def _sampled(
    ctx: Context[Any, Any], prompt: str, passages: int, max_tokens: int
) -> Answer | InputRequiredResult | str:
    """The client's answer, the question that it has to answer first, or why there is no answer."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    request = CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[message],
            system_prompt=SYSTEM,
            max_tokens=max_tokens,
            temperature=0.0,
            # Any other value adds context of the client, is deprecated, and needs a capability.
            include_context="none",
        )
    )
    spoken = ctx.protocol_version
    if spoken is None or not is_version_at_least(spoken, _MULTI_ROUND_VERSION):
        try:
            reply: CreateMessageResult = await ctx.session.send_request(
                request,
                CreateMessageResult,
                request_read_timeout_seconds=_SAMPLING_TIMEOUT_S,
                # Over HTTP the question has to go out on the stream of the call that is open.
                metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        except MCPError as error:  # the client's own message may quote the prompt
            return f"the client refused or failed (code {error.code})"
        except ValidationError:
            return "the client's reply is not valid MCP"
    elif ctx.input_responses is None:
        return InputRequiredResult(input_requests={_SAMPLING_KEY: request})
    else:
        given = ctx.input_responses.get(_SAMPLING_KEY)
        if not isinstance(given, CreateMessageResult):
            return "the client's reply contains no message"
        reply = given
    if not isinstance(reply.content, TextContent) or not reply.content.text.strip():
        return "the client's model wrote no text"
    stop_reason = reply.stop_reason or "endTurn"
    return read_generated(reply.content.text, passages, model=reply.model, stop_reason=stop_reason)
