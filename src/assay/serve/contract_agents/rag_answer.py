"""RAG_ANSWER: an answer from retrieved chunks, with citations, or an abstention.

With a grounding pack in the request, only that is used and nothing is searched. So the same
question can be asked with other documents, to measure retrieval and answer apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import AliasChoices, Field

from assay.answer.passages import Answer, Answerer, Passage
from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    GroundingChunk,
    GroundingPack,
    Usage,
    read_inputs,
    split_chunk_id,
    succeeded,
)
from assay.contract.server.runs import ReportProgress
from assay.serve.contract_agents.knowledge_bases import FoundChunk, KnowledgeBases
from assay.serve.contract_agents.rag_retrieve import (
    RetrievedChunks,
    RetrieveInputs,
    fit_context,
    grounding_of,
    provenance_of,
    retrieval_outputs,
    retrieve,
    tokens_in,
)

_ANSWER_TOKENS = 500
_TRUNCATED = "maxTokens"
_GIVEN = "given"


@dataclass(frozen=True)
class RagAnswer:
    """The work of the agent."""

    knowledge: KnowledgeBases
    answerer: Answerer

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        inputs = read_inputs(AnswerInputs, request)
        found = await self._passages(inputs, request.budgets.max_context_tokens, report)
        max_tokens = request.budgets.max_output_tokens or _ANSWER_TOKENS
        passages = [Passage(one.chunk_id, one.title, one.text) for one in found.chunks]
        answer = await self.answerer.answer(inputs.query, passages, max_tokens)
        report("answered", percent=95, citations=len(answer.citations))
        # An estimate by length, which the limit that the answerer kept bounds; the marks of
        # citations are not generated.
        spent = Usage(
            input_tokens=tokens_in(inputs.query) + sum(tokens_in(one.text) for one in found.chunks),
            output_tokens=min(tokens_in(answer.text), max_tokens),
        )
        return _response(request, found, answer, spent)

    async def _passages(
        self, inputs: "AnswerInputs", max_tokens: int | None, report: ReportProgress
    ) -> RetrievedChunks:
        if inputs.grounding is None:
            return await retrieve(self.knowledge, inputs, max_tokens, report)
        fitted = fit_context([_given(chunk) for chunk in inputs.grounding.chunks], max_tokens)
        warnings = (fitted.warning,) if fitted.warning else ()
        return RetrievedChunks(fitted.chunks, _GIVEN, _GIVEN, warnings, fitted.warning is not None)


class AnswerInputs(RetrieveInputs):
    """The inputs: those of RAG_RETRIEVE, and optionally the grounding to answer from."""

    grounding: GroundingPack | None = Field(
        default=None,
        validation_alias=AliasChoices("groundingPack", "grounding_pack", "grounding"),
    )


def _given(chunk: GroundingChunk) -> FoundChunk:
    return FoundChunk(
        chunk_id=chunk.chunk_id,
        doc_id=chunk.doc_id or split_chunk_id(chunk.chunk_id)[0],
        title=str(chunk.metadata.get("title", "")),
        text=chunk.text,
        score=1.0 if chunk.score is None else chunk.score,
        metadata=chunk.metadata,
    )


def _response(
    request: AgentRunRequest, found: RetrievedChunks, answer: Answer, spent: Usage
) -> AgentRunResponse:
    cited = _cited(found.chunks, answer)
    pack = grounding_of(found.chunks, found.mode, [chunk.chunk_id for chunk in cited])
    partial = found.cut or answer.stop_reason == _TRUNCATED
    return succeeded(
        request,
        {
            "answer": answer.text,
            "abstained": not answer.found,
            "citations": pack.citations,
            "cited_doc_ids": list(dict.fromkeys(chunk.doc_id for chunk in cited)),
            "model": answer.model,
            **retrieval_outputs(pack),
        },
        status="degraded" if partial else "ok",
        artifacts=pack.citations,
        provenance={**provenance_of(found), "answerer": answer.model},
        usage=spent,
        warnings=[*found.warnings, *answer.warnings, *_truncation(answer)],
        grounding=pack,
    )


def _cited(chunks: Sequence[FoundChunk], answer: Answer) -> list[FoundChunk]:
    return [chunks[place - 1] for place in answer.citations]


def _truncation(answer: Answer) -> list[str]:
    if answer.stop_reason != _TRUNCATED:
        return []
    return ["budgets.max_output_tokens: the answer was truncated"]
