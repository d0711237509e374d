"""RAG_ANSWER: an answer from what was found, with citations, or none where it holds none."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.answer.passages import Answer, Answerer, Passage
from assay.contract.envelope import AgentRunRequest, AgentRunResponse, Usage, succeeded
from assay.contract.refusals import read_inputs
from assay.contract.serving.execution import ReportProgress
from assay.serve.contract_agents.grounding import grounding_of, retrieval_outputs, tokens_in
from assay.serve.contract_agents.knowledge_bases import FoundChunk, KnowledgeBases
from assay.serve.contract_agents.rag_retrieve import Retrieved, provenance_of, retrieve
from assay.serve.contract_agents.retrieve_inputs import RetrieveInputs

_ANSWER_TOKENS = 500
_CUT_SHORT = "maxTokens"


@dataclass(frozen=True)
class RagAnswer:
    knowledge: KnowledgeBases
    answerer: Answerer

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        inputs = read_inputs(RetrieveInputs, request)
        found = await retrieve(self.knowledge, inputs, request.budgets.max_context_tokens, report)
        room = request.budgets.max_output_tokens or _ANSWER_TOKENS
        passages = [Passage(one.chunk_id, one.title, one.text) for one in found.chunks]
        answer = await self.answerer.answer(inputs.query, passages, room)
        report("answered", percent=95, citations=len(answer.citations))
        return _response(request, found, answer, inputs.query)


def _response(
    request: AgentRunRequest, found: Retrieved, answer: Answer, query: str
) -> AgentRunResponse:
    cited = _cited(found.chunks, answer)
    pack = grounding_of(found.chunks, found.mode, [chunk.chunk_id for chunk in cited])
    partial = found.cut or answer.stop_reason == _CUT_SHORT
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
        usage=Usage(
            input_tokens=tokens_in(query) + sum(tokens_in(one.text) for one in found.chunks),
            output_tokens=tokens_in(answer.text),
        ),
        warnings=[*found.warnings, *answer.warnings, *_shortened(answer)],
        grounding=pack,
    )


def _cited(chunks: Sequence[FoundChunk], answer: Answer) -> list[FoundChunk]:
    return [chunks[place - 1] for place in answer.citations]


def _shortened(answer: Answer) -> list[str]:
    if answer.stop_reason != _CUT_SHORT:
        return []
    return ["budgets.max_output_tokens: the answer was cut short"]
