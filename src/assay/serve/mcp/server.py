"""The MCP server itself, for any transport: tools, documents, and errors in our own words."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
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
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
)
from pydantic import AnyUrl, ValidationError

from assay.answer.extractive import ExtractiveAnswerer
from assay.answer.passages import Answerer
from assay.errors import AssayError
from assay.serve.mcp.answers import AnswerDesk
from assay.serve.mcp.documents import add_documents
from assay.serve.mcp.library import Library
from assay.serve.mcp.tools import add_tools

_INSTRUCTIONS = (
    "Searches a collection of documents. search_nfcorpus finds documents for a question; "
    "nc_semantic_search_answer answers it with citations; doc://ID reads one document whole."
)


def mcp_server(library: Library, answerer: Answerer | None = None) -> MCPServer[None]:
    """Starts to load the documents when it is run, on whichever transport."""
    server = _Server(
        name="assay",
        title="Assay",
        version=version("agent-assay"),
        instructions=_INSTRUCTIONS,
        lifespan=lambda _server: _loading(library),
        subscriptions=False,  # no list ever changes
    )
    add_tools(server, library, AnswerDesk(library, answerer or ExtractiveAnswerer()))
    add_documents(server, library)
    return server


@asynccontextmanager
async def _loading(library: Library) -> AsyncIterator[None]:
    library.loading.start()
    try:
        yield
    finally:
        await library.loading.stop()


class _Server(MCPServer[None]):
    """The SDK quotes arguments that do not fit, and takes our own errors for crashes."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError) and not isinstance(error, UnexpectedToolError):
                raise ToolError(f"{name}: {problems_of(cause)}") from cause
            if isinstance(cause, AssayError):
                raise ToolError(f"{name}: {cause}") from cause
            if cause is None:
                message = "there is no such tool; tools/list names those there are"
                raise MCPError(INVALID_PARAMS, message) from None
            raise

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[None, Any] | None = None,
    ) -> GetPromptResult | InputRequiredResult:
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, AssayError | ValidationError):
                cause = cause.__cause__
            if isinstance(cause, ValidationError):
                raise MCPError(INVALID_PARAMS, problems_of(cause)) from cause
            if cause is not None:
                raise MCPError(INTERNAL_ERROR, str(cause)) from cause
            message = "no such prompt, or arguments that do not fit it; prompts/list describes them"
            raise MCPError(INVALID_PARAMS, message) from error

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        """Not found in words of ours: the SDK's repeat the address, which is the caller's text."""
        try:
            return await super().read_resource(uri, context)
        except ResourceNotFoundError as error:
            message = "there is no such document; addresses are doc:// and an id that a search gave"
            raise MCPError(INVALID_PARAMS, message) from error
        except ResourceError as error:
            cause = error.__cause__
            message = str(cause) if isinstance(cause, AssayError) else "it could not be read"
            raise MCPError(INTERNAL_ERROR, message) from error


def problems_of(error: ValidationError) -> str:
    """Which argument is wrong and why, without its value."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg'].lower()}"
        for each in problems
    )
