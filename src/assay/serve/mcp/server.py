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
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
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
from mcp.server.transport_security import TransportSecuritySettings
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
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from assay.errors import AssayError
from assay.llm.answerer import ExtractiveAnswerer
from assay.llm.passages import Answer, Passage, not_found
from assay.llm.prompt import SYSTEM, question_prompt, read_generated
from assay.net.json import parse_json
from assay.net.redact import ADMIN_TOKEN_VARIABLE
from assay.serve.guards import AllowedHosts, BearerToken, guarded, json_error
from assay.serve.mcp.search import (
    AnswerTokens,
    DescribedQuery,
    DocumentSearch,
    Health,
    LoadRetrieval,
    SearchRequest,
    SearchResults,
    SemanticAnswer,
    SemanticResults,
    SyncStatus,
    Threshold,
    TopK,
    found_note,
)
from assay.serve.readiness import health_routes
from assay.serve.retrieval import load_retrieval

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


RESET_PATH = "/stats/reset"
SESSION_IDLE_S = 1800.0
MAX_SESSIONS = 1000

HOSTS_VARIABLE = "MCP_ALLOWED_HOSTS"
SERVICES = ("mcp-server", "green-agent", "purple-agent", "host.docker.internal")

_BODY_LIMIT = 1024 * 1024
# `guarded` checks Host and Origin, for REST as well: the SDK would check /mcp alone.
_NO_SECOND_CHECK = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def mcp_app(
    load: LoadRetrieval,
    *,
    token: str | None = None,
    admin_token: str | None = None,
    hosts: Sequence[str] = SERVICES,
    record: Path | None = None,
    session_idle_s: float = SESSION_IDLE_S,
    max_sessions: int = MAX_SESSIONS,
) -> ASGIApp:
    """MCP and REST over HTTP.

    `load` loads the documents; it starts with the server and may take minutes, calls wait for it.
    Resetting the counts needs `admin_token`. `hosts` are names by which clients may reach the
    server, besides this machine's. Every search is appended to the file `record`.
    """
    documents = DocumentSearch(load, record)
    server = mcp_server(documents)
    inner = server.streamable_http_app(
        transport_security=_NO_SECOND_CHECK,
        session_idle_timeout=session_idle_s,
        max_sessions=max_sessions,
        max_request_body_size=_BODY_LIMIT,
    )
    routes = [
        *inner.routes,
        # Documents and clients name the server without a path as well.
        *(Route("/", route.endpoint) for route in inner.routes if isinstance(route, Route)),
        *rest_routes(documents, may_reset=admin_token is not None),
    ]
    app: ASGIApp = Starlette(
        routes=routes,
        # Without it every call to /mcp fails.
        lifespan=lambda _app: server.session_manager.run(),
        exception_handlers={HTTPException: json_error},
    )
    return guarded(
        app,
        AllowedHosts(hosts, check_host=True, hint=f"allow it with {HOSTS_VARIABLE}"),
        BearerToken(token, admin_token=admin_token, admin_paths={RESET_PATH}),
        body_limit=_BODY_LIMIT,
    )


async def serve_stdio(dataset: str, mode: str) -> None:
    """Serve one client on stdin and stdout, until it closes them."""
    search = DocumentSearch(partial(load_retrieval, dataset, mode))
    await mcp_server(search).run_stdio_async()


def rest_routes(documents: DocumentSearch, *, may_reset: bool) -> list[BaseRoute]:
    """The tools as plain REST, for agents that do not speak MCP."""

    async def search(request: Request) -> Response:
        try:
            wanted = SearchRequest.model_validate(parse_json(await request.body()))
        except orjson.JSONDecodeError:
            return _refusal(400, "the body is not valid JSON")
        except ValidationError as error:
            return _refusal(422, all_problems(error))
        try:
            trace = request.headers.get("traceparent", "")
            found = await documents.found_documents(wanted.query, wanted.top_k, trace)
        except AssayError as error:
            return _refusal(503, str(error))
        return _json(found.model_dump_json())

    async def health_check(_request: Request) -> Response:
        health = documents.health()
        return _json(health.model_dump_json(), 200 if health.ready else 503)

    async def stats(_request: Request) -> Response:
        return JSONResponse({"search_call_count": documents.search_calls})

    async def reset(_request: Request) -> Response:
        if not may_reset:
            message = (
                f"set {ADMIN_TOKEN_VARIABLE} on the server to allow resets, and send that token: "
                "with the search token, an agent under test could reset its own count"
            )
            return _refusal(403, message)
        documents.search_calls = 0
        return JSONResponse({"search_call_count": 0})

    return [
        Route("/search_nfcorpus", search, methods=["POST"]),
        Route("/health_check", health_check, methods=["GET", "POST"]),
        Route("/stats", stats, methods=["GET"]),
        Route(RESET_PATH, reset, methods=["POST"]),
        *health_routes("mcp", documents.loading),
    ]


def _json(body: str, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)
