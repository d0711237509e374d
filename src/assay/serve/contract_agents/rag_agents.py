"""The agents over knowledge bases: RAG_RETRIEVE, RAG_ANSWER, RAG_INGEST and LIT_RETRIEVAL.

With a grounding pack in its request, RAG_ANSWER uses only that and searches nothing. So the same
question can be asked with other documents, to measure retrieval and answer apart.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Annotated
from urllib.parse import unquote

from pydantic import Field, StringConstraints

from assay.contract.envelope import (
    NO_FLAG,
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    Count,
    ErrorCode,
    GroundingChunk,
    GroundingPack,
    GroundingSource,
    Identifier,
    Positive,
    RetrievalTrace,
    TaskError,
    Usage,
    chunk_id,
    field_named,
    read_inputs,
    split_chunk_id,
    succeeded,
    without_nulls,
)
from assay.contract.server import ReportProgress
from assay.data.dataset import Document
from assay.llm.passages import Answerer, Passage
from assay.net.json import JsonObject
from assay.search import Mode
from assay.search.retriever import DEPTH, MAX_TOP_K
from assay.serve.contract_agents.knowledge_bases import (
    CHARACTERS_PER_TOKEN,
    NAME,
    FoundChunk,
    KnowledgeBase,
    KnowledgeBases,
)
from assay.serve.retrieval import SEARCHABLE, QueryText
from assay.text import strip_controls

MAX_DOCUMENTS = 1000
# The name, in `databases`, of the literature that the server was started with.
INDEX = "index"

_ANSWER_TOKENS = 500
_TRUNCATED = "maxTokens"
_GIVEN = "given"
_STAGES = {
    "bm25": ["bm25"],
    "dense": ["dense"],
    "hybrid": ["bm25", "dense", "fusion", "feedback"],
    "tuned": ["bm25", "dense", "tuned"],
}
_RERANK_MODES = {"hybrid": "fusion", "tuned": "learned"}
_SENTENCE_END = re.compile(r"[.!?。！？](?=\s)|\n")
_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)\b")
_PUBMED_URL = re.compile(r"(?:ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/(\d{1,9})")


# --- RAG_RETRIEVE ---------------------------------------------------------------------------------


class RetrieveInputs(ContractModel):
    """The inputs, in either dialect: `query, knowledgeBase, topK, ...` or `query_text, collection,
    top_k, ...`."""

    query: QueryText = field_named("query", "query_text")
    knowledge_base: str | None = field_named(
        "knowledgeBase", "collection", "knowledge_base", default=None, max_length=256
    )
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K), NO_FLAG] = field_named(
        "topK", "top_k", default=10
    )
    filters: JsonObject | None = field_named("metadataFilters", "where", "filter", default=None)
    semantic_weight: float | None = Field(default=None, ge=0, le=1)
    semantic_k: Positive | None = None
    rerank_mode: str | None = field_named("rerankMode", "rerank_mode", default=None)
    domain_id: str | None = field_named("domainId", "domain_id", default=None)
    project_id: str | None = field_named("projectId", "project_id", default=None)

    @property
    def asked_mode(self) -> Mode | None:
        """The mode for a weight of 0 or 1; between them, the server's own fusion is used."""
        ends: dict[float | None, Mode] = {0.0: "bm25", 1.0: "dense"}
        return ends.get(self.semantic_weight)

    def warnings(self, mode: Mode) -> list[str]:
        """What was asked for and has no effect."""
        ignored = {
            "semantic_weight": self.semantic_weight is not None and self.asked_mode != mode,
            "semantic_k": self.semantic_k is not None,
            "rerankMode": self.rerank_mode not in (None, "", "none"),
            "domainId": self.domain_id is not None,
            "projectId": self.project_id is not None,
        }
        names = [name for name, is_ignored in ignored.items() if is_ignored]
        return [f"inputs.{name} has no effect on this search in mode {mode}" for name in names]


@dataclass(frozen=True, slots=True)
class RetrievedChunks:
    """The chunks for a run, how they were found, and whether a budget cut them."""

    chunks: Sequence[FoundChunk]
    mode: str
    knowledge_base: str
    warnings: Sequence[str]
    cut: bool

    @property
    def provenance(self) -> dict[str, str]:
        """The provenance of a response that rests on these chunks."""
        return {
            "knowledge_base": self.knowledge_base,
            "search_mode": self.mode,
            "rerank_mode": _RERANK_MODES.get(self.mode, "none"),
        }


async def rag_retrieve(
    knowledge: KnowledgeBases, request: AgentRunRequest, report: ReportProgress
) -> AgentRunResponse:
    """The chunks of a knowledge base that match a query, as a grounding pack."""
    inputs = read_inputs(RetrieveInputs, request)
    found = await _retrieve(knowledge, inputs, request.budgets.max_context_tokens, report)
    pack = _grounding(found, [chunk.chunk_id for chunk in found.chunks])
    return succeeded(
        request,
        _retrieval_outputs(pack),
        status="degraded" if found.cut else "ok",
        artifacts=pack.citations,
        provenance=found.provenance,
        warnings=list(found.warnings),
        grounding=pack,
    )


async def _retrieve(
    knowledge: KnowledgeBases,
    inputs: RetrieveInputs,
    max_tokens: int | None,
    report: ReportProgress,
) -> RetrievedChunks:
    base = await knowledge.find(inputs.knowledge_base)
    mode = base.mode_for(inputs.asked_mode)
    found = await _search(base, inputs.query, inputs.top_k, mode, inputs.filters, report)
    chunks, cut = _fit_context(found, max_tokens)
    return RetrievedChunks(chunks, mode, base.name, [*inputs.warnings(mode), *cut], bool(cut))


async def _search(
    base: KnowledgeBase,
    query: str,
    top_k: int,
    mode: Mode,
    filters: JsonObject | None,
    report: ReportProgress,
) -> list[FoundChunk]:
    """The best chunks. As many as possible are asked for, to report how many candidates there were
    and which signals found them."""
    report("index ready", percent=10, documents=base.size)
    candidates = await base.search(query, MAX_TOP_K, mode, filters)
    signals = Counter(signal for one in candidates for signal in one.found_by)
    report("candidates found", percent=60, candidates=len(candidates), **signals)
    kept = candidates[:top_k]
    report("reranked" if mode in _RERANK_MODES else "ranked", percent=70, chunks=len(kept))
    return kept


def _tokens_in(text: str) -> int:
    """An estimate of the tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _fit_context(
    chunks: Sequence[FoundChunk], max_tokens: int | None
) -> tuple[Sequence[FoundChunk], list[str]]:
    """The best chunks whose text stays within the budget, and a warning if that leaves any out;
    a first one that is too long is cut."""
    if max_tokens is None:
        return chunks, []
    kept: list[FoundChunk] = []
    left = max_tokens
    for chunk in chunks:
        left -= _tokens_in(chunk.text)
        if left < 0:
            break
        kept.append(chunk)
    if len(kept) == len(chunks):
        return kept, []
    cut = ""
    if not kept:
        kept = [replace(chunks[0], text=chunks[0].text[: max_tokens * CHARACTERS_PER_TOKEN])]
        cut = "; the first chunk was cut"
    count = len(chunks) - len(kept)
    return kept, [f"budgets.max_context_tokens: {count} chunks were left out{cut}"]


def _grounding(found: RetrievedChunks, citations: list[str]) -> GroundingPack:
    """The chunks as the contract shows them, with the stages and depths of their search."""
    stages = _STAGES.get(found.mode, [found.mode])
    titles = {chunk.doc_id: chunk.title for chunk in found.chunks}
    return GroundingPack(
        chunks=[
            GroundingChunk(
                chunk_id=chunk.chunk_id,
                doc_id=chunk.doc_id,
                text=chunk.text,
                score=round(chunk.score, 6),
                metadata={**({"title": chunk.title} if chunk.title else {}), **chunk.metadata},
            )
            for chunk in found.chunks
        ],
        citations=citations,
        retrieval_trace=RetrievalTrace(
            stages=stages,
            semantic_k=DEPTH if "dense" in stages else 0,
            bm25_k=DEPTH if "bm25" in stages else 0,
            rerank_k=2 * DEPTH if "fusion" in stages else 0,
        ),
        sources=[
            GroundingSource(id=doc_id, doc_id=doc_id, text=title)
            for doc_id, title in titles.items()
        ],
    )


def _retrieval_outputs(pack: GroundingPack) -> JsonObject:
    """The outputs, under every name that callers look for."""
    document = pack.model_dump(exclude_none=True)
    return {
        "chunks": document["chunks"],
        "count": len(pack.chunks),
        "chunk_count": len(pack.chunks),
        "citation_count": len(pack.citations),
        "groundingPack": document,
        "retrieval_trace": document["retrieval_trace"],
    }


# --- RAG_ANSWER -----------------------------------------------------------------------------------


class AnswerInputs(RetrieveInputs):
    """The inputs: those of RAG_RETRIEVE, and optionally the grounding to answer from."""

    grounding: GroundingPack | None = field_named(
        "groundingPack", "grounding_pack", "grounding", default=None
    )


async def rag_answer(
    knowledge: KnowledgeBases,
    answerer: Answerer,
    request: AgentRunRequest,
    report: ReportProgress,
) -> AgentRunResponse:
    """An answer from chunks, with citations, or an abstention."""
    inputs, budgets = read_inputs(AnswerInputs, request), request.budgets
    if inputs.grounding is None:
        found = await _retrieve(knowledge, inputs, budgets.max_context_tokens, report)
    else:
        given = [
            FoundChunk(
                chunk_id=chunk.chunk_id,
                doc_id=chunk.doc_id or split_chunk_id(chunk.chunk_id)[0],
                title=str(chunk.metadata.get("title", "")),
                text=chunk.text,
                score=1.0 if chunk.score is None else chunk.score,
                metadata=chunk.metadata,
            )
            for chunk in inputs.grounding.chunks
        ]
        chunks, cut = _fit_context(given, budgets.max_context_tokens)
        found = RetrievedChunks(chunks, _GIVEN, _GIVEN, cut, bool(cut))
    max_tokens = budgets.max_output_tokens or _ANSWER_TOKENS
    passages = [Passage(chunk.chunk_id, chunk.title, chunk.text) for chunk in found.chunks]
    answer = await answerer.answer(inputs.query, passages, max_tokens)
    report("answered", percent=95, citations=len(answer.citations))
    cited = [found.chunks[place - 1] for place in answer.citations]
    pack = _grounding(found, [chunk.chunk_id for chunk in cited])
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
            **_retrieval_outputs(pack),
        },
        status="degraded" if found.cut or truncated else "ok",
        artifacts=pack.citations,
        provenance={**found.provenance, "answerer": answer.model},
        # An estimate by length, which the limit that the answerer kept bounds; the marks of
        # citations are not generated.
        usage=Usage(
            input_tokens=sum(map(_tokens_in, [inputs.query, *(one.text for one in found.chunks)])),
            output_tokens=min(_tokens_in(answer.text), max_tokens),
        ),
        warnings=warnings,
        grounding=pack,
    )


# --- RAG_INGEST -----------------------------------------------------------------------------------


class DocumentInput(ContractModel):
    """One document to ingest."""

    doc_id: Identifier = field_named("docId", "doc_id", "id")
    title: str = ""
    source: str | None = None
    text: str = ""
    metadata: JsonObject = Field(default_factory=dict)


class ChunkConfig(ContractModel):
    """In characters."""

    size: Annotated[int, Field(ge=50, le=20_000), NO_FLAG] = field_named(
        "chunkSize", "chunk_size", default=1000
    )
    overlap: Count = field_named("chunkOverlap", "chunk_overlap", default=100)


class IngestInputs(ContractModel):
    """The inputs of the task."""

    documents: list[DocumentInput] = Field(max_length=MAX_DOCUMENTS)
    knowledge_base: Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")] = field_named(
        "knowledgeBase", "collection", "knowledge_base"
    )
    chunk_config: ChunkConfig = field_named("chunkConfig", "chunk_config", default=ChunkConfig())


async def rag_ingest(
    knowledge: KnowledgeBases, request: AgentRunRequest, report: ReportProgress
) -> AgentRunResponse:
    """Cut documents into chunks and write them to a knowledge base, all or nothing."""
    inputs = read_inputs(IngestInputs, request)
    config = inputs.chunk_config
    if config.overlap > config.size // 2:
        message = "inputs.chunkConfig.chunkOverlap should be at most half of chunkSize"
        raise TaskError(ErrorCode.VALIDATION_ERROR, message)
    if knowledge.is_data_set(inputs.knowledge_base):
        # The index of a data set is built from its files: what is added would be lost.
        message = "inputs.knowledgeBase names a data set, which is read-only; use another name"
        raise TaskError(ErrorCode.VALIDATION_ERROR, message)
    taken, chunks, errors = await asyncio.to_thread(_cut, inputs)
    if inputs.documents and not taken:
        raise TaskError(ErrorCode.VALIDATION_ERROR, "inputs.documents: none has any text")
    report("cut", percent=50, documents=len(taken), chunks=len(chunks))
    changes: dict[str, int] = {}
    warnings = ["inputs.documents is empty: nothing was written"] if not taken else []
    if errors:
        warnings.append(f"{len(errors)} documents were left out; outputs.errors says why")
    if taken:
        changes = await asyncio.to_thread(
            knowledge.replace_documents, inputs.knowledge_base, taken, chunks
        )
    report("written", percent=100, chunks=len(chunks))
    chunk_ids = [chunk.id for chunk in chunks]
    return succeeded(
        request,
        {
            "ingestedCount": len(taken),
            "chunkCount": len(chunk_ids),
            "collection": inputs.knowledge_base,
            "docIds": taken,
            "chunkIds": chunk_ids,
            "errors": errors,
        },
        status="degraded" if errors else "ok",
        artifacts=chunk_ids,
        provenance=changes,
        warnings=warnings,
    )


def _cut(inputs: IngestInputs) -> tuple[list[str], list[Document], list[JsonObject]]:
    """The documents taken, their chunks, and the others with what is wrong with them."""
    taken: list[str] = []
    chunks: list[Document] = []
    errors: list[JsonObject] = []
    config = inputs.chunk_config
    for index, document in enumerate(inputs.documents):
        parts = cut_text(document.text, size=config.size, overlap=config.overlap)
        repeated = document.doc_id in taken
        if repeated or not parts:
            problem = "another document has the same docId" if repeated else "the text is empty"
            errors.append({"index": index, "docId": document.doc_id, "problem": problem})
            continue
        taken.append(document.doc_id)
        title = strip_controls(document.title).strip()
        metadata: JsonObject = without_nulls({"source": document.source, **document.metadata})
        chunks += [
            Document(chunk_id(document.doc_id, place), title, part, metadata)
            for place, part in enumerate(parts)
        ]
    return taken, chunks, errors


def cut_text(text: str, *, size: int, overlap: int) -> list[str]:
    """Pieces of at most `size` characters, `overlap` of them shared; none without words.

    A piece ends after a sentence in the second half of its window, else after a word.
    """
    text, start, pieces = strip_controls(text).strip(), 0, []
    while start < len(text):
        end = start + size
        if end < len(text):
            middle = start + size // 2
            ends = [match.end() for match in _SENTENCE_END.finditer(text, middle, end)]
            space = text.rfind(" ", middle, end)
            end = ends[-1] if ends else space + 1 if space > 0 else end
        pieces.append(text[start:end].strip())
        if end >= len(text):
            break
        space = text.find(" ", end - overlap, end)
        start = max(start + 1, space + 1 if space >= 0 else end)
    return [piece for piece in pieces if piece]


# --- LIT_RETRIEVAL --------------------------------------------------------------------------------


class LiteratureInputs(ContractModel):
    """The inputs of the task."""

    query: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), SEARCHABLE
    ]
    max_results: Annotated[int, Field(ge=1, le=200), NO_FLAG] = 25
    databases: list[Annotated[str, StringConstraints(min_length=1, max_length=64)]] = Field(
        default_factory=lambda: [INDEX], min_length=1, max_length=10
    )


async def lit_retrieval(
    knowledge: KnowledgeBases, request: AgentRunRequest, report: ReportProgress
) -> AgentRunResponse:
    """Papers for a query, from the data set of the server and from knowledge bases in turns."""
    started = time.perf_counter()
    inputs = read_inputs(LiteratureInputs, request)
    warnings: list[str] = []
    found: dict[str, list[JsonObject]] = {}
    for name in dict.fromkeys(inputs.databases):
        try:
            base = await knowledge.find(None if name == INDEX else name)
        except TaskError as error:
            warnings.append(f"a database was not searched: {error.message}")
        else:
            found[base.name] = await _papers(base, inputs, report)
    if not found:
        raise TaskError(ErrorCode.TASK_FAILED, "; ".join(dict.fromkeys(warnings)))
    in_turns = [paper for paper in chain(*zip_longest(*found.values())) if paper is not None]
    wanted = papers = in_turns[: inputs.max_results]
    if (left := request.budgets.max_context_tokens) is not None:
        papers = []
        for paper in wanted:
            left -= _tokens_in(f"{paper.get('title', '')}{paper.get('abstract', '')}")
            if left < 0:
                break
            papers.append(paper)
    if len(papers) < len(wanted):
        left_out = len(wanted) - len(papers)
        warnings.append(f"budgets.max_context_tokens: {left_out} papers were left out")
    report("merged", percent=95, papers=len(papers))
    return succeeded(
        request,
        {
            "papers": papers,
            "count": len(papers),
            "duration_ms": round((time.perf_counter() - started) * 1000),
        },
        status="degraded" if warnings else "ok",
        artifacts=[paper["doc_id"] for paper in papers],
        provenance={"databases": list(found)},
        warnings=warnings,
    )


async def _papers(
    base: KnowledgeBase, inputs: LiteratureInputs, report: ReportProgress
) -> list[JsonObject]:
    """One paper for each document, by its best chunk."""
    top_k, mode = min(inputs.max_results, MAX_TOP_K), base.mode_for(None)
    best: dict[str, FoundChunk] = {}
    for chunk in await _search(base, inputs.query, top_k, mode, None, report):
        best.setdefault(chunk.doc_id, chunk)
    return [_paper(chunk, base) for chunk in best.values()]


def _paper(chunk: FoundChunk, base: KnowledgeBase) -> JsonObject:
    """What is known of a paper, with the complete abstract if the base has it."""
    metadata, document = chunk.metadata, base.document(chunk.doc_id)

    def text(name: str) -> str | None:
        value = metadata.get(name)
        known = isinstance(value, str | int) and not isinstance(value, bool)
        return str(value).strip() if known else None

    pubmed = _PUBMED_URL.search(unquote(text("url") or ""))
    dates = " ".join(str(metadata.get(name, "")) for name in ("year", "date", "published"))
    year = _YEAR.search(dates)
    authors = metadata.get("authors", metadata.get("author"))
    if isinstance(authors, str):
        authors = [name.strip() for name in authors.split(";" if ";" in authors else ",")]
    fields = {
        "title": chunk.title,
        "abstract": chunk.text if document is None else document.text,
        "authors": [str(name) for name in authors if name] if isinstance(authors, list) else [],
        "year": int(year[1]) if year else None,
        "journal": text("journal"),
        "doi": text("doi"),
        "pmid": text("pmid") or (pubmed[1] if pubmed else None),
        "source": base.name,
        "url": text("url"),
        "doc_id": chunk.doc_id,
    }
    return {name: value for name, value in fields.items() if value}
