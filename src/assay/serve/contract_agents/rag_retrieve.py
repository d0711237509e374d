"""RAG_RETRIEVE: the chunks of a knowledge base that match a query, as a grounding pack; and
RAG_ANSWER: an answer from such chunks, with citations, or an abstention.

With a grounding pack in its request, RAG_ANSWER uses only that and searches nothing. So the same
question can be asked with other documents, to measure retrieval and answer apart.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import AliasChoices, Field

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
    Usage,
    read_inputs,
    split_chunk_id,
    succeeded,
)
from assay.contract.server import ReportProgress
from assay.llm.passages import Answer, Answerer, Passage
from assay.net.json import JsonObject
from assay.search.fusion import DEPTH
from assay.search.modes import Mode
from assay.search.retriever import MAX_TOP_K
from assay.serve.contract_agents.knowledge_bases import (
    ChunkQuery,
    FoundChunk,
    KnowledgeBase,
    KnowledgeBases,
    check_filters,
)
from assay.serve.retrieval import QueryText

CHARACTERS_PER_TOKEN = 4
"""About what English text has with the tokenizers of common models."""

_ANSWER_TOKENS = 500
_TRUNCATED = "maxTokens"
_GIVEN = "given"

_STAGES = {
    "bm25": ["bm25"],
    "dense": ["dense"],
    "hybrid": ["bm25", "dense", "fusion", "feedback"],
    "tuned": ["bm25", "dense", "tuned"],
}


class RetrieveInputs(ContractModel):
    """The inputs, in either dialect: `query, knowledgeBase, topK, ...` or `query_text, collection,
    top_k, ...`."""

    query: QueryText = Field(validation_alias=AliasChoices("query", "query_text"))
    knowledge_base: str | None = Field(
        default=None,
        max_length=256,
        validation_alias=AliasChoices("knowledgeBase", "collection", "knowledge_base"),
    )
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K), NO_FLAG] = Field(
        default=10, validation_alias=AliasChoices("topK", "top_k")
    )
    filters: JsonObject | None = Field(
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
        """The mode for a weight of 0 or 1; between them, the server's own fusion is used."""
        if self.semantic_weight is None:
            return None
        ends: dict[float, Mode] = {0.0: "bm25", 1.0: "dense"}
        return ends.get(self.semantic_weight)

    def chunk_query(self, mode: Mode) -> ChunkQuery:
        """The search that these inputs ask for."""
        check_filters(self.filters, "inputs.metadataFilters")
        return ChunkQuery(self.query, self.top_k, mode, self.filters)

    def ignored_inputs(self, mode: Mode) -> Iterator[str]:
        """Warnings about inputs that have no effect."""
        if self.semantic_weight is not None and self.asked_mode is None:
            yield "inputs.semantic_weight only has an effect at 0 (BM25) and 1 (embeddings)"
        elif self.asked_mode not in (None, mode):
            yield f"inputs.semantic_weight is ignored: this server searches only with {mode}"
        if self.semantic_k is not None:
            yield "inputs.semantic_k is ignored; retrieval_trace has the depth of the search"
        if self.rerank_mode not in (None, "", "none"):
            yield "inputs.rerankMode is ignored; retrieval_trace says how chunks were ranked"
        for name, given in (("domainId", self.domain_id), ("projectId", self.project_id)):
            if given is not None:
                yield f"inputs.{name} does not narrow the search; metadataFilters do"


@dataclass(frozen=True, slots=True)
class RetrievedChunks:
    """The chunks for a run, how they were found, and whether a budget cut them."""

    chunks: tuple[FoundChunk, ...]
    mode: str
    knowledge_base: str
    warnings: tuple[str, ...]
    cut: bool


@dataclass(frozen=True)
class RagRetrieve:
    """The work of the agent."""

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
) -> RetrievedChunks:
    """Search the knowledge base that the inputs name, within the budget of tokens."""
    base = await knowledge.find(inputs.knowledge_base)
    mode = base.mode_for(inputs.asked_mode)
    query = inputs.chunk_query(mode)
    report("index ready", percent=10, documents=base.size)
    found = await search_chunks(base, query, report)
    chunks, cut = fit_context(found, max_context_tokens)
    warnings = (*inputs.ignored_inputs(mode), *cut)
    return RetrievedChunks(chunks, mode, base.name, warnings, cut=bool(cut))


async def search_chunks(
    base: KnowledgeBase, query: ChunkQuery, report: ReportProgress
) -> list[FoundChunk]:
    """The best chunks. As many as possible are asked for, to report how many candidates there were
    and which signals found them."""
    candidates = await base.search(replace(query, top_k=MAX_TOP_K))
    signals = Counter(signal for one in candidates for signal in one.found_by)
    report("candidates found", percent=60, candidates=len(candidates), **signals)
    kept = candidates[: query.top_k]
    report("reranked" if reranks(query.mode) else "ranked", percent=70, chunks=len(kept))
    return kept


def provenance_of(found: RetrievedChunks) -> dict[str, str]:
    """The provenance of a response that rests on these chunks."""
    return {
        "knowledge_base": found.knowledge_base,
        "search_mode": found.mode,
        "rerank_mode": rerank_mode(found.mode),
    }


def tokens_in(text: str) -> int:
    """An estimate of the tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def fit_context(
    chunks: Sequence[FoundChunk], max_tokens: int | None
) -> tuple[tuple[FoundChunk, ...], list[str]]:
    """The best chunks whose text stays within the budget, and a warning where that leaves any out;
    a first one that is too long is cut."""
    if max_tokens is None:
        return tuple(chunks), []
    kept: list[FoundChunk] = []
    left = max_tokens
    for chunk in chunks:
        if tokens_in(chunk.text) > left:
            break
        kept.append(chunk)
        left -= tokens_in(chunk.text)
    if len(kept) == len(chunks):
        return tuple(kept), []
    cut = ""
    if not kept:
        kept = [replace(chunks[0], text=chunks[0].text[: max_tokens * CHARACTERS_PER_TOKEN])]
        cut = "; the first chunk was cut"
    count = len(chunks) - len(kept)
    return tuple(kept), [f"budgets.max_context_tokens: {count} chunks were left out{cut}"]


def grounding_of(
    chunks: Iterable[FoundChunk], mode: str, citations: Sequence[str] | None = None
) -> GroundingPack:
    """The chunks as the contract shows them. `citations` are chunk ids; all of them by default."""
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
    """The stages and depths of a search in this mode."""
    stages = _STAGES.get(mode, [mode])
    return RetrievalTrace(
        stages=stages,
        semantic_k=DEPTH if "dense" in stages else 0,
        bm25_k=DEPTH if "bm25" in stages else 0,
        rerank_k=2 * DEPTH if "fusion" in stages else 0,
    )


def reranks(mode: str) -> bool:
    """Whether a mode reorders what its signals found."""
    return len(_STAGES.get(mode, ())) > 1


def rerank_mode(mode: str) -> str:
    """What orders the candidates that a mode's signals found; `none` with a single signal."""
    if not reranks(mode):
        return "none"
    return "learned" if mode == "tuned" else "fusion"


def retrieval_outputs(pack: GroundingPack) -> JsonObject:
    """The outputs, under every name that callers look for."""
    document = pack.model_dump(exclude_none=True)
    return {
        "chunks": document["chunks"],
        "count": len(pack.chunks),
        "chunk_count": len(pack.chunks),
        "citation_count": len(pack.citations),
        "groundingPack": document,
        "retrieval_trace": document.get("retrieval_trace", {}),
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


class AnswerInputs(RetrieveInputs):
    """The inputs: those of RAG_RETRIEVE, and optionally the grounding to answer from."""

    grounding: GroundingPack | None = Field(
        default=None,
        validation_alias=AliasChoices("groundingPack", "grounding_pack", "grounding"),
    )


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
        self, inputs: AnswerInputs, max_tokens: int | None, report: ReportProgress
    ) -> RetrievedChunks:
        if inputs.grounding is None:
            return await retrieve(self.knowledge, inputs, max_tokens, report)
        chunks, cut = fit_context([_given(chunk) for chunk in inputs.grounding.chunks], max_tokens)
        return RetrievedChunks(chunks, _GIVEN, _GIVEN, tuple(cut), cut=bool(cut))


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
    cited = [found.chunks[place - 1] for place in answer.citations]
    pack = grounding_of(found.chunks, found.mode, [chunk.chunk_id for chunk in cited])
    warnings = [*found.warnings, *answer.warnings]
    truncated = answer.stop_reason == _TRUNCATED
    if truncated:
        warnings.append("budgets.max_output_tokens: the answer was truncated")
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
        status="degraded" if found.cut or truncated else "ok",
        artifacts=pack.citations,
        provenance={**provenance_of(found), "answerer": answer.model},
        usage=spent,
        warnings=warnings,
        grounding=pack,
    )
