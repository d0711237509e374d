"""`nc_semantic_search_answer`: search, then an answer with citations from what was found."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcp.server.mcpserver import Context
from mcp_types import InputRequiredResult

from assay.answer.passages import Answer, Answerer, Passage, not_found
from assay.answer.prompt import question_prompt
from assay.serve.mcp.library import Library, found_note
from assay.serve.mcp.rounds import KeptHits
from assay.serve.mcp.sampling import NoSample, offers_sampling, sampled_answer
from assay.serve.mcp.shapes import SemanticAnswer
from assay.serve.retrieval import Hit

SAMPLING = "sampling"
NOBODY = "none"
"""`model_used` where nothing was found, so that nobody was asked."""


class AnswerDesk:
    """By the client's model where it offers one, else by the server's own `answerer`."""

    def __init__(self, library: Library, answerer: Answerer) -> None:
        self._library = library
        self._answerer = answerer
        self._kept = KeptHits()

    async def answer(
        self,
        query: str,
        limit: int,
        score_threshold: float,
        max_answer_tokens: int,
        ctx: Context[Any, Any],
    ) -> SemanticAnswer | InputRequiredResult:
        await ctx.report_progress(0, 2, "searching")
        hits = self._kept.take(ctx.request_state)
        if hits is None:
            hits = await self._library.search(query, limit, score_threshold)
        mode = (await self._library.retrieval()).mode
        if not hits:
            return _shaped(query, hits, mode, not_found(NOBODY))
        await ctx.report_progress(1, 2, "answering")
        passages = [Passage(hit.doc_id, hit.title, hit.text) for hit in hits]
        answer, way = await self._written(query, passages, max_answer_tokens, ctx)
        if isinstance(answer, InputRequiredResult):
            return answer.model_copy(update={"request_state": self._kept.keep(hits)})
        await ctx.report_progress(2, 2, "done")
        return _shaped(query, hits, f"{mode}+{way}", answer)

    async def _written(
        self, query: str, passages: Sequence[Passage], max_tokens: int, ctx: Context[Any, Any]
    ) -> tuple[Answer | InputRequiredResult, str]:
        """The answer and who wrote it."""
        warnings: tuple[str, ...] = ()
        if offers_sampling(ctx):
            prompt = question_prompt(query, passages)
            try:
                return await sampled_answer(ctx, prompt, len(passages), max_tokens), SAMPLING
            except NoSample as reason:
                warnings = (f"sampling was offered but gave no answer: {reason}",)
        answer = await self._answerer.answer(query, passages, max_tokens)
        answer = replace(answer, warnings=(*warnings, *answer.warnings))
        return answer, self._answerer.name


def _shaped(query: str, hits: Sequence[Hit], method: str, answer: Answer) -> SemanticAnswer:
    """Sources are returned whatever came of them; none counts as found where none answers."""
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
