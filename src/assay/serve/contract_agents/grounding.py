"""Found chunks as the contract shows them, within the tokens that a caller allows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.contract.envelope import (
    GroundingChunk,
    GroundingPack,
    GroundingSource,
    RetrievalTrace,
)
from assay.search.fuse import DEPTH
from assay.serve.contract_agents.knowledge_bases import FoundChunk

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
