"""RAG_RETRIEVE: the chunks of a knowledge base that suit a query."""

from collections import Counter
from dataclasses import dataclass, replace

from assay.contract.envelope import AgentRunRequest, AgentRunResponse, succeeded
from assay.contract.refusals import read_inputs
from assay.contract.serving.execution import ReportProgress
from assay.search.retriever import MOST
from assay.serve.contract_agents.grounding import (
    fit_context,
    grounding_of,
    reranks,
    retrieval_outputs,
)
from assay.serve.contract_agents.knowledge_bases import (
    FoundChunk,
    KnowledgeBase,
    KnowledgeBases,
    Wanted,
)
from assay.serve.contract_agents.retrieve_inputs import RetrieveInputs


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`mode` is how was searched; `warnings` what the caller should know."""

    chunks: tuple[FoundChunk, ...]
    mode: str
    knowledge_base: str
    warnings: tuple[str, ...]
    cut: bool


@dataclass(frozen=True)
class RagRetrieve:
    knowledge: KnowledgeBases

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        inputs = read_inputs(RetrieveInputs, request)
        found = await retrieve(self.knowledge, inputs, request.budgets.max_context_tokens, report)
        pack = grounding_of(found.chunks, found.mode)
        return succeeded(
            request,
            retrieval_outputs(pack),
            status="degraded" if found.cut else "ok",
            artifacts=[chunk.chunk_id for chunk in found.chunks],
            provenance=provenance_of(found),
            warnings=list(found.warnings),
            grounding=pack,
        )


async def retrieve(
    knowledge: KnowledgeBases,
    inputs: RetrieveInputs,
    max_context_tokens: int | None,
    report: ReportProgress,
) -> Retrieved:
    base = await knowledge.find(inputs.knowledge_base)
    mode = base.mode_for(inputs.asked_mode)
    wanted = inputs.wanted(mode)
    report("index ready", percent=10, documents=base.size)
    found = await found_in(base, wanted, report)
    fitted = fit_context(found, max_context_tokens)
    warnings = [*inputs.unheeded(mode), *([fitted.warning] if fitted.warning else [])]
    return Retrieved(fitted.chunks, mode, base.name, tuple(warnings), fitted.warning is not None)


async def found_in(base: KnowledgeBase, wanted: Wanted, report: ReportProgress) -> list[FoundChunk]:
    """The best of what was found. All of it is asked for: how much there was, and which signal
    brought it up, is what a caller who waits can be told."""
    candidates = await base.search(replace(wanted, top_k=MOST))
    signals = Counter(signal for one in candidates for signal in one.found_by)
    report("candidates found", percent=60, candidates=len(candidates), **signals)
    kept = candidates[: wanted.top_k]
    report("reranked" if reranks(wanted.mode) else "ranked", percent=70, chunks=len(kept))
    return kept


def provenance_of(found: Retrieved) -> dict[str, str]:
    return {"knowledge_base": found.knowledge_base, "search_mode": found.mode}
