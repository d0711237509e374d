"""What RAG_RETRIEVE and RAG_ANSWER take: two dialects of callers, read as one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AliasChoices, Field, StringConstraints

from assay.contract.envelope import (
    NO_FLAG,
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    GroundingChunk,
    GroundingPack,
    GroundingSource,
    Positive,
    RetrievalTrace,
    succeeded,
)
from assay.contract.server.runs import ReportProgress
from assay.contract.validation import read_inputs
from assay.search.fusion import DEPTH
from assay.search.retriever import MOST, Mode
from assay.serve.contract_agents.knowledge_bases import (
    FoundChunk,
    KnowledgeBase,
    KnowledgeBases,
    Wanted,
    check_filters,
)
from assay.serve.retrieval import SEARCHABLE

QueryText = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10000), SEARCHABLE
]


class RetrieveInputs(ContractModel):
    """`query, knowledgeBase, topK, ...` or `query_text, collection, top_k, ...`."""

    query: QueryText = Field(validation_alias=AliasChoices("query", "query_text"))
    knowledge_base: str | None = Field(
        default=None,
        max_length=256,
        validation_alias=AliasChoices("knowledgeBase", "collection", "knowledge_base"),
    )
    top_k: Annotated[int, Field(ge=1, le=MOST), NO_FLAG] = Field(
        default=10, validation_alias=AliasChoices("topK", "top_k")
    )
    filters: dict[str, Any] | None = Field(
        default=None, validation_alias=AliasChoices("metadataFilters", "where", "filter")
    )
    semantic_weight: float | None = Field(default=None, ge=0, le=1)
    semantic_k: Positive | None = None
    rerank_mode: str | None = Field(
        default=None, validation_alias=AliasChoices("rerankMode", "rerank_mode")
    )
    domain_id: str | None = Field(
        default=None, validation_alias=AliasChoices("domainId", "domain_id")
    )
    project_id: str | None = Field(
        default=None, validation_alias=AliasChoices("projectId", "project_id")
    )

    @property
    def asked_mode(self) -> Mode | None:
        """The ends of the scale are kinds of search; between them, our own mixture is used."""
        if self.semantic_weight is None:
            return None
        ends: dict[float, Mode] = {0.0: "bm25", 1.0: "dense"}
        return ends.get(self.semantic_weight)

    def wanted(self, mode: Mode) -> Wanted:
        check_filters(self.filters, "inputs.metadataFilters")
        return Wanted(self.query, self.top_k, mode, self.filters)

    def unheeded(self, mode: Mode) -> Iterator[str]:
        """What the caller asked for and will not get, in words for `warnings`."""
        if self.semantic_weight is not None and self.asked_mode is None:
            yield "inputs.semantic_weight is heeded at 0 (words only) and 1 (meaning only)"
        elif self.asked_mode not in (None, mode):
            yield f"inputs.semantic_weight is not heeded: this server searches with {mode} alone"
        if self.semantic_k is not None:
            yield "inputs.semantic_k is not heeded; retrieval_trace says how deep was searched"
        if self.rerank_mode not in (None, "", "none"):
            yield "inputs.rerankMode is not heeded; retrieval_trace says how chunks were ranked"
        for name, given in (("domainId", self.domain_id), ("projectId", self.project_id)):
            if given is not None:
                yield f"inputs.{name} does not narrow the search; metadataFilters do"


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


# English text has about four characters in a token of the usual models.
CHARACTERS_PER_TOKEN = 4

_STAGES = {
    "bm25": ["bm25"],
    "dense": ["dense"],
    "hybrid": ["bm25", "dense", "fusion", "feedback"],
    "tuned": ["bm25", "dense", "tuned"],
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """`warning` says what was left out, where something was."""

    chunks: tuple[FoundChunk, ...]
    warning: str | None = None


def tokens_in(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def fit_context(chunks: Sequence[FoundChunk], max_tokens: int | None) -> Fitted:
    """The best chunks whose text stays within the budget; a first one that is too long is cut."""
    if max_tokens is None:
        return Fitted(tuple(chunks))
    kept: list[FoundChunk] = []
    left = max_tokens
    for chunk in chunks:
        if tokens_in(chunk.text) > left:
            break
        kept.append(chunk)
        left -= tokens_in(chunk.text)
    if len(kept) == len(chunks):
        return Fitted(tuple(kept))
    if not kept:
        text = chunks[0].text[: max_tokens * CHARACTERS_PER_TOKEN]
        kept = [replace(chunks[0], text=text)]
        return Fitted(tuple(kept), _left_out(len(chunks) - 1) + "the first chunk was cut")
    return Fitted(tuple(kept), _left_out(len(chunks) - len(kept)).rstrip("; "))


def _left_out(count: int) -> str:
    return f"budgets.max_context_tokens: {count} chunks were left out; "


def grounding_of(
    chunks: Iterable[FoundChunk], mode: str, citations: Sequence[str] | None = None
) -> GroundingPack:
    """`citations` are chunk ids; all chunks where nothing was answered from them yet."""
    chunks = list(chunks)
    titles = {chunk.doc_id: chunk.title for chunk in chunks}
    return GroundingPack(
        chunks=[_grounding_chunk(chunk) for chunk in chunks],
        citations=[chunk.chunk_id for chunk in chunks] if citations is None else list(citations),
        retrieval_trace=trace_of(mode),
        sources=[
            GroundingSource(id=doc_id, doc_id=doc_id, text=title)
            for doc_id, title in titles.items()
        ],
    )


def trace_of(mode: str) -> RetrievalTrace:
    stages = _STAGES.get(mode, [mode])
    return RetrievalTrace(
        stages=stages,
        semantic_k=DEPTH if "dense" in stages else 0,
        bm25_k=DEPTH if "bm25" in stages else 0,
        rerank_k=2 * DEPTH if "fusion" in stages else 0,
    )


def reranks(mode: str) -> bool:
    """Whether what a signal found is put into another order."""
    return len(_STAGES.get(mode, ())) > 1


def shown(pack: GroundingPack) -> dict[str, Any]:
    return pack.model_dump(exclude_none=True)


def retrieval_outputs(pack: GroundingPack) -> dict[str, Any]:
    """Under every name by which callers look for them."""
    whole = shown(pack)
    return {
        "chunks": whole["chunks"],
        "count": len(pack.chunks),
        "chunk_count": len(pack.chunks),
        "citation_count": len(pack.citations),
        "groundingPack": whole,
        "retrieval_trace": whole.get("retrieval_trace", {}),
    }


def _grounding_chunk(chunk: FoundChunk) -> GroundingChunk:
    metadata = {"title": chunk.title, **chunk.metadata} if chunk.title else dict(chunk.metadata)
    return GroundingChunk(
        chunk_id=chunk.chunk_id,
        doc_id=chunk.doc_id,
        text=chunk.text,
        score=round(chunk.score, 6),
        metadata=metadata,
    )
