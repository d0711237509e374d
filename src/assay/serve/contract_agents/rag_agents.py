"""The agents over knowledge bases: RAG_RETRIEVE, RAG_INGEST and LIT_RETRIEVAL."""

import asyncio
import re
import time
from collections.abc import Iterable
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
    chunk_id,
    field_named,
    read_inputs,
    succeeded,
    without_nulls,
)
from assay.contract.server import ReportProgress
from assay.data.dataset import Document
from assay.net.json import JsonObject
from assay.search import Mode
from assay.search.retriever import DEPTH, MAX_TOP_K
from assay.serve.contract_agents.knowledge_bases import (
    CHARACTERS_PER_TOKEN,
    NAME,
    KnowledgeBase,
    KnowledgeBases,
)
from assay.serve.retrieval import SEARCHABLE, QueryText
from assay.text import strip_controls

MAX_DOCUMENTS = 1000
# The name, in `databases`, of the literature that the server was started with.
INDEX = "index"

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


def count_within(texts: Iterable[str], max_tokens: int | None) -> int:
    """How many of the first `texts` fit into `max_tokens`, which are estimated by length."""
    count, left = 0, max_tokens
    for text in texts:
        if left is not None:
            left -= -(-len(text) // CHARACTERS_PER_TOKEN)
            if left < 0:
                break
        count += 1
    return count


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


async def rag_retrieve(
    knowledge: KnowledgeBases, request: AgentRunRequest, report: ReportProgress
) -> AgentRunResponse:
    """The chunks of a knowledge base that match a query, as a grounding pack."""
    inputs, max_tokens = read_inputs(RetrieveInputs, request), request.budgets.max_context_tokens
    base = await knowledge.find(inputs.knowledge_base)
    mode = base.mode_for(inputs.asked_mode)
    report("index ready", percent=10, documents=base.size)
    chunks = await base.search(inputs.query, inputs.top_k, mode, inputs.filters)
    report("reranked" if mode in _RERANK_MODES else "ranked", percent=70, chunks=len(chunks))
    warnings, kept = inputs.warnings(mode), count_within((one.text for one in chunks), max_tokens)
    is_cut = kept < len(chunks)
    if is_cut and max_tokens is not None:
        left_out, cut = len(chunks) - max(kept, 1), ""
        if kept == 0:
            beginning = chunks[0].text[: max_tokens * CHARACTERS_PER_TOKEN]
            chunks, cut = [chunks[0].model_copy(update={"text": beginning})], "; the first was cut"
        chunks = chunks[: max(kept, 1)]
        warnings.append(f"budgets.max_context_tokens: {left_out} chunks were left out{cut}")
    pack = _grounding(chunks, mode)
    document = pack.model_dump(exclude_none=True)
    return succeeded(
        request,
        {  # under every name that callers look for
            "chunks": document["chunks"],
            "count": len(chunks),
            "chunk_count": len(chunks),
            "citation_count": len(chunks),
            "groundingPack": document,
            "retrieval_trace": document["retrieval_trace"],
        },
        status="degraded" if is_cut else "ok",
        artifacts=pack.citations,
        provenance={
            "knowledge_base": base.name,
            "search_mode": mode,
            "rerank_mode": _RERANK_MODES.get(mode, "none"),
        },
        warnings=warnings,
        grounding=pack,
    )


def _grounding(chunks: list[GroundingChunk], mode: Mode) -> GroundingPack:
    """The chunks as the contract shows them, with the stages and depths of their search."""
    stages = _STAGES[mode]
    titles = {str(chunk.doc_id): str(chunk.metadata.get("title", "")) for chunk in chunks}
    return GroundingPack(
        chunks=chunks,
        citations=[chunk.chunk_id for chunk in chunks],
        retrieval_trace=RetrievalTrace(
            stages=stages,
            semantic_k=DEPTH if "dense" in stages else 0,
            bm25_k=DEPTH if "bm25" in stages else 0,
            rerank_k=2 * DEPTH if "fusion" in stages else 0,
        ),
        sources=[GroundingSource(id=id_, doc_id=id_, text=text) for id_, text in titles.items()],
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
            found[base.name] = await _papers(base, inputs)
            report("database searched", percent=60, papers=len(found[base.name]))
    if not found:
        raise TaskError(ErrorCode.TASK_FAILED, "; ".join(dict.fromkeys(warnings)))
    papers = [paper for paper in chain(*zip_longest(*found.values())) if paper is not None]
    papers = papers[: inputs.max_results]
    texts = (f"{paper.get('title', '')}{paper.get('abstract', '')}" for paper in papers)
    kept = count_within(texts, request.budgets.max_context_tokens)
    if kept < len(papers):
        left_out = len(papers) - kept
        warnings.append(f"budgets.max_context_tokens: {left_out} papers were left out")
    papers = papers[:kept]
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


async def _papers(base: KnowledgeBase, inputs: LiteratureInputs) -> list[JsonObject]:
    """One paper for each document, by its best chunk."""
    best: dict[str, GroundingChunk] = {}
    top_k = min(inputs.max_results, MAX_TOP_K)
    for chunk in await base.search(inputs.query, top_k, base.mode_for(None)):
        best.setdefault(str(chunk.doc_id), chunk)
    return [_paper(doc_id, chunk, base) for doc_id, chunk in best.items()]


def _paper(doc_id: str, chunk: GroundingChunk, base: KnowledgeBase) -> JsonObject:
    """What is known of a paper, with the complete abstract if the base has it."""
    metadata, document = chunk.metadata, base.document(doc_id)
    known = {
        name: str(value).strip()
        for name, value in metadata.items()
        if isinstance(value, str | int) and not isinstance(value, bool)
    }
    pubmed = _PUBMED_URL.search(unquote(known.get("url", "")))
    dates = " ".join(known.get(name, "") for name in ("year", "date", "published"))
    year = _YEAR.search(dates)
    authors = metadata.get("authors", metadata.get("author"))
    if isinstance(authors, str):
        authors = [name.strip() for name in authors.split(";" if ";" in authors else ",")]
    fields = {
        "title": known.get("title"),
        "abstract": chunk.text if document is None else document.text,
        "authors": [str(name) for name in authors if name] if isinstance(authors, list) else [],
        "year": int(year[1]) if year else None,
        "journal": known.get("journal"),
        "doi": known.get("doi"),
        "pmid": known.get("pmid") or (pubmed[1] if pubmed else None),
        "source": base.name,
        "url": known.get("url"),
        "doc_id": doc_id,
    }
    return {name: value for name, value in fields.items() if value}
