"""`nc_semantic_search_answer`: search, then an answer with citations from what was found.

Where the client offers sampling, its own model writes the answer. Until 2025-11-25 the server sends
a request of its own while the tool call is open; from 2026-07-28 on the call ends with a question,
and the client calls again with the reply. Sampling is deprecated since then, so nothing depends on
it: every way in which it fails leads to the server's own answerer.
"""

import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from assay.llm.passages import Answer, Answerer, Passage, not_found
from assay.llm.prompt import SYSTEM, question_prompt, read_generated
from assay.serve.mcp.search import DocumentSearch, SemanticAnswer, found_note
from assay.serve.retrieval import SearchHit

SAMPLING = "sampling"
NO_MODEL = "none"
"""`model_used` if nothing was found, so that no model was asked."""

_SAMPLING_KEY = "answer"
_MULTI_ROUND_VERSION = "2026-07-28"
_SAMPLING_TIMEOUT_S = 120.0
_MAX_PENDING = 256


class AnswerService:
    """Answers with the client's model if it offers sampling, else with `answerer`."""

    def __init__(self, documents: DocumentSearch, answerer: Answerer) -> None:
        self._documents = documents
        self._answerer = answerer
        self._pending = PendingHits()

    async def answer(
        self,
        query: str,
        limit: int,
        score_threshold: float,
        max_answer_tokens: int,
        ctx: Context[Any, Any],
    ) -> SemanticAnswer | InputRequiredResult:
        """Search, then answer; or the question that the client has to answer first."""
        await ctx.report_progress(0, 2, "searching")
        hits = self._pending.take(ctx.request_state)
        if hits is None:
            hits = await self._documents.search(query, limit, score_threshold)
        mode = (await self._documents.retrieval()).mode
        if not hits:
            return _shaped(query, hits, mode, not_found(NO_MODEL))
        await ctx.report_progress(1, 2, "answering")
        passages = [Passage(hit.doc_id, hit.title, hit.text) for hit in hits]
        answer, method = await self._written(query, passages, max_answer_tokens, ctx)
        if isinstance(answer, InputRequiredResult):
            return answer.model_copy(update={"request_state": self._pending.keep(hits)})
        await ctx.report_progress(2, 2, "done")
        return _shaped(query, hits, f"{mode}+{method}", answer)

    async def _written(
        self, query: str, passages: Sequence[Passage], max_tokens: int, ctx: Context[Any, Any]
    ) -> tuple[Answer | InputRequiredResult, str]:
        """The answer and the method that wrote it."""
        warnings: tuple[str, ...] = ()
        if offers_sampling(ctx):
            prompt = question_prompt(query, passages)
            try:
                return await sampled_answer(ctx, prompt, len(passages), max_tokens), SAMPLING
            except SamplingFailed as reason:
                warnings = (f"sampling was available but produced no answer: {reason}",)
        answer = await self._answerer.answer(query, passages, max_tokens)
        answer = replace(answer, warnings=(*warnings, *answer.warnings))
        return answer, self._answerer.name


def _shaped(query: str, hits: Sequence[SearchHit], method: str, answer: Answer) -> SemanticAnswer:
    """Sources are always returned; if none of them answers, `total_found` is 0."""
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


class PendingHits:
    """Hits of calls whose client is being asked, so that the second round does not search again.

    They are kept under a name that goes to the client and back, sealed by the SDK and bound to the
    call. At most `limit` calls are kept: for an older one the search is repeated.
    """

    def __init__(self, limit: int = _MAX_PENDING) -> None:
        self._limit = limit
        self._hits: OrderedDict[str, Sequence[SearchHit]] = OrderedDict()

    def keep(self, hits: Sequence[SearchHit]) -> str:
        """Remember `hits`; returns the name to `take` them by."""
        name = uuid.uuid4().hex
        self._hits[name] = hits
        if len(self._hits) > self._limit:
            self._hits.popitem(last=False)
        return name

    def take(self, name: str | None) -> Sequence[SearchHit] | None:
        """Return and forget the hits of that name; None if they are not there."""
        return None if name is None else self._hits.pop(name, None)


class SamplingFailed(Exception):
    """The client offers sampling but gave no answer. The message is safe to show."""


def offers_sampling(ctx: Context[Any, Any]) -> bool:
    """Whether the client declared that it samples."""
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


async def sampled_answer(
    ctx: Context[Any, Any], prompt: str, passages: int, max_tokens: int
) -> Answer | InputRequiredResult:
    """The client's answer, or the question that it has to answer first."""
    request = _sampling_request(prompt, max_tokens)
    if not _is_multi_round(ctx):
        return _read_reply(await _sample_now(ctx, request), passages)
    if ctx.input_responses is None:
        return InputRequiredResult(input_requests={_SAMPLING_KEY: request})
    reply = ctx.input_responses.get(_SAMPLING_KEY)
    if not isinstance(reply, CreateMessageResult):
        raise SamplingFailed("the client's reply contains no message")
    return _read_reply(reply, passages)


def _is_multi_round(ctx: Context[Any, Any]) -> bool:
    version = ctx.protocol_version
    return version is not None and is_version_at_least(version, _MULTI_ROUND_VERSION)


async def _sample_now(ctx: Context[Any, Any], request: CreateMessageRequest) -> CreateMessageResult:
    try:
        reply: CreateMessageResult = await ctx.session.send_request(
            request,
            CreateMessageResult,
            request_read_timeout_seconds=_SAMPLING_TIMEOUT_S,
            metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
        )
    except MCPError as error:  # the client's own message may quote the prompt
        raise SamplingFailed(f"the client refused or failed (code {error.code})") from error
    except ValidationError as error:
        raise SamplingFailed("the client's reply is not valid MCP") from error
    return reply


def _sampling_request(prompt: str, max_tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[message],
            system_prompt=SYSTEM,
            max_tokens=max_tokens,
            temperature=0.0,
            include_context="none",
        )
    )


def _read_reply(reply: CreateMessageResult, passages: int) -> Answer:
    if not isinstance(reply.content, TextContent) or not reply.content.text.strip():
        raise SamplingFailed("the client's model wrote no text")
    return read_generated(
        reply.content.text,
        passages,
        model=reply.model,
        stop_reason=reply.stop_reason or "endTurn",
    )
