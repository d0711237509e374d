"""The agents over knowledge bases: RAG_RETRIEVE, RAG_INGEST and LIT_RETRIEVAL.

A knowledge base is the data set of the server, or what was ingested: a file of chunks,
`NAME.jsonl`, in which each chunk is a document. A write makes a new file and renames it, so that
readers see all of a request or nothing. It is searched like any data set; its index is brought up
to date by the first search after a write.
"""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import orjson
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
    RetrievalTrace,
    TaskError,
    chunk_id,
    field_named,
    read_inputs,
    split_chunk_id,
    succeeded,
    without_nulls,
)
from assay.contract.server import ReportProgress
from assay.data.dataset import Dataset, Document
from assay.data.load import KNOWN
from assay.errors import UsageError
from assay.files import FileLock, atomic_write, make_private_folder, read_lines
from assay.net.json import JsonObject, parse_json
from assay.progress import Progress
from assay.search import Mode
from assay.search.filters import conditions
from assay.search.retriever import DEPTH, MAX_TOP_K
from assay.serve.readiness import Loading
from assay.serve.retrieval import SEARCHABLE, QueryText, Retrieval, SearchHit
from assay.text import strip_controls

# Names of ingested knowledge bases: they become parts of file names.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Means the data set that the server serves, unless something was ingested under this name.
DEFAULT = "default"
# The name, in `databases`, of the literature that the server was started with.
INDEX = "index"
MAX_DOCUMENTS = 1000

_MAX_OPEN = 8
_STAGES = {
    "bm25": ["bm25"],
    "dense": ["dense"],
    "hybrid": ["bm25", "dense", "fusion", "feedback"],
    "tuned": ["bm25", "dense", "tuned"],
}
# Names in requests that callers send; how to search is the server's choice.
_IGNORED = (
    *("semantic_weight", "semantic_k", "rerankMode", "rerank_mode"),
    *("domainId", "domain_id", "projectId", "project_id"),
)
_SENTENCE_END = re.compile(r"[.!?。！？](?=\s)|\n")
_PUBMED_URL = re.compile(r"(?:ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/(\d{1,9})")


@dataclass(frozen=True)
class KnowledgeBase:
    """What the agents search. The documents of an ingested one are chunks, under their own ids."""

    name: str
    retrieval: Retrieval
    is_ingested: bool = False

    async def search(
        self, query: str, top_k: int, filters: Mapping[str, Any] | None = None
    ) -> list[GroundingChunk]:
        """The chunks that match, best first."""
        try:
            conditions(filters)
        except UsageError:  # whose message quotes the filter
            field = "inputs.metadataFilters"
            message = (
                f"{field}: each value should be a string, a number, true or false, "
                "a list of strings or integers, or a range of gt, gte, lt, lte"
            )
            details = {"fields": [{"field": field, "problem": "is not a filter"}]}
            raise TaskError(ErrorCode.VALIDATION_ERROR, message, details=details) from None
        hits = await self.retrieval.search(query, top_k, filters=filters)
        return [self._chunk(hit) for hit in hits]

    def _chunk(self, hit: SearchHit) -> GroundingChunk:
        name, doc_id, text = chunk_id(hit.doc_id, hit.chunk_index), hit.doc_id, hit.text
        if self.is_ingested:
            # The index may have cut a long chunk; its caller knows the whole one by this id.
            name, doc_id = hit.doc_id, split_chunk_id(hit.doc_id)[0]
            text = self.retrieval.dataset.documents[hit.doc_id].text
        metadata = {**({"title": hit.title} if hit.title else {}), **hit.metadata}
        score = round(hit.score, 6)
        return GroundingChunk(
            chunk_id=name, doc_id=doc_id, text=text, score=score, metadata=metadata
        )


class KnowledgeBases:
    """The knowledge bases of one process; those that were ingested are kept in `folder`."""

    def __init__(
        self,
        load: Callable[[Progress], Awaitable[Retrieval]],
        folder: Callable[[], Path],
        open_base: Callable[[Dataset], Retrieval],
    ) -> None:
        self.loading: Loading[Retrieval] = Loading(lambda: load(self.loading.note))
        self._folder = folder
        self._open_base = open_base
        self._lock = threading.Lock()
        self._open: dict[str, tuple[object, Retrieval]] = {}

    async def find(self, name: str | None) -> KnowledgeBase:
        """The knowledge base of this name; the data set for None, `default` and its own name.

        An unknown name is an error: an empty result would say that nothing was found in it.
        """
        if name is not None and NAME.fullmatch(name) and not self.is_data_set(name):
            ingested = await asyncio.to_thread(self._ingested, name)
            if ingested is not None:
                return KnowledgeBase(name, ingested, is_ingested=True)
        retrieval = await self.loading.get()
        if name not in (None, DEFAULT, retrieval.dataset.name):
            raise TaskError(ErrorCode.TASK_FAILED, "there is no knowledge base of this name")
        return KnowledgeBase(retrieval.dataset.name, retrieval)

    def is_data_set(self, name: str) -> bool:
        """Whether the name is a data set's, also one that another server may serve."""
        loaded = self.loading.value
        return name in KNOWN or (loaded is not None and name == loaded.dataset.name)

    def replace_documents(
        self, name: str, doc_ids: Collection[str], chunks: Sequence[Document]
    ) -> None:
        """Replace the documents named by `doc_ids` with `chunks`. Blocks."""
        path = self._path(name)
        make_private_folder(path.parent)
        with FileLock(path.with_suffix(".lock")):
            before = _read_chunks(path)
            kept = {
                id_: one for id_, one in before.items() if split_chunk_id(id_)[0] not in doc_ids
            }
            after = kept | {chunk.id: chunk for chunk in chunks}
            if after != before:
                rows = (
                    {"_id": x.id, "title": x.title, "text": x.text, "metadata": dict(x.metadata)}
                    for x in after.values()
                )
                atomic_write(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def _path(self, name: str) -> Path:
        return self._folder() / f"{name}.jsonl"

    def _ingested(self, name: str) -> Retrieval | None:
        """What searches the file as it is now; kept until another write replaces it."""
        path = self._path(name)
        # One at a time: two searches must not build the same index.
        with self._lock:
            try:
                found = path.stat()
            except FileNotFoundError:
                return None
            # A write renames a new file: its inode tells even two writes in one tick of the clock.
            version = (found.st_ino, found.st_mtime_ns, found.st_size)
            known, retrieval = self._open.pop(name, (None, None))
            if retrieval is None or known != version:
                documents = _read_chunks(path)
                retrieval = self._open_base(Dataset(f"kb-{name}", documents, {}, {}))
            self._open[name] = (version, retrieval)
            if len(self._open) > _MAX_OPEN:
                del self._open[next(iter(self._open))]
            return retrieval


def _read_chunks(path: Path) -> dict[str, Document]:
    if not path.exists():
        return {}
    rows = [parse_json(line) for line in read_lines(path)]
    return {
        row["_id"]: Document(row["_id"], row["title"], row["text"], row["metadata"]) for row in rows
    }


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


async def rag_retrieve(
    knowledge: KnowledgeBases, request: AgentRunRequest, report: ReportProgress
) -> AgentRunResponse:
    """The chunks of a knowledge base that match a query, as a grounding pack."""
    inputs = read_inputs(RetrieveInputs, request)
    base = await knowledge.find(inputs.knowledge_base)
    report("index ready", percent=10, documents=len(base.retrieval.dataset.documents))
    found = await base.search(inputs.query, inputs.top_k, inputs.filters)
    report("ranked", percent=70, chunks=len(found))
    chunks = found[: request.budgets.count_in_context(chunk.text for chunk in found)]
    is_cut = len(chunks) < len(found)
    given = [name for name in _IGNORED if request.inputs.get(name) not in (None, "", "none")]
    warnings = [f"inputs.{name} has no effect on this search" for name in given]
    if is_cut:
        left_out = len(found) - len(chunks)
        warnings.append(f"budgets.max_context_tokens: {left_out} chunks were left out")
    pack = _grounding(chunks, base.retrieval.mode)
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
        provenance={"knowledge_base": base.name, "search_mode": base.retrieval.mode},
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
    problem, config = "", inputs.chunk_config
    if config.overlap > config.size // 2:
        problem = "inputs.chunkConfig.chunkOverlap should be at most half of chunkSize"
    elif knowledge.is_data_set(inputs.knowledge_base):
        # The index of a data set is built from its files: what is added would be lost.
        problem = "inputs.knowledgeBase names a data set, which is read-only; use another name"
    elif inputs.documents and not any(strip_controls(x.text).strip() for x in inputs.documents):
        problem = "inputs.documents: none has any text"
    if problem:
        raise TaskError(ErrorCode.VALIDATION_ERROR, problem)
    taken, chunks, errors = await asyncio.to_thread(_cut, inputs)
    report("cut", percent=50, documents=len(taken), chunks=len(chunks))
    warnings = ["inputs.documents is empty: nothing was written"] if not taken else []
    if errors:
        warnings.append(f"{len(errors)} documents were left out; outputs.errors says why")
    if taken:
        base = inputs.knowledge_base
        await asyncio.to_thread(knowledge.replace_documents, base, taken, chunks)
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
            end = ends[-1] if ends else text.rfind(" ", middle, end) + 1 or end
        pieces.append(text[start:end].strip())
        if end >= len(text):
            break
        # The next one begins with a word, at most `overlap` characters before the end.
        space = text.find(" ", end - overlap, end)
        start = max(start + 1, space + 1 if space >= 0 else end)
    return [piece for piece in pieces if piece]


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
            best: dict[str, GroundingChunk] = {}  # of each document
            for chunk in await base.search(inputs.query, min(inputs.max_results, MAX_TOP_K)):
                best.setdefault(str(chunk.doc_id), chunk)
            found[base.name] = [_paper(doc_id, chunk, base) for doc_id, chunk in best.items()]
            report("database searched", percent=60, papers=len(found[base.name]))
    if not found:
        raise TaskError(ErrorCode.TASK_FAILED, "; ".join(dict.fromkeys(warnings)))
    # In turns: scores from collections with other word frequencies cannot be compared.
    merged = [paper for paper in chain(*zip_longest(*found.values())) if paper is not None]
    merged = merged[: inputs.max_results]
    texts = (f"{paper.get('title', '')}{paper.get('abstract', '')}" for paper in merged)
    papers = merged[: request.budgets.count_in_context(texts)]
    if left_out := len(merged) - len(papers):
        warnings.append(f"budgets.max_context_tokens: {left_out} papers were left out")
    report("merged", percent=95, papers=len(papers))
    duration_ms = round((time.perf_counter() - started) * 1000)
    return succeeded(
        request,
        {"papers": papers, "count": len(papers), "duration_ms": duration_ms},
        status="degraded" if warnings else "ok",
        artifacts=[paper["doc_id"] for paper in papers],
        provenance={"databases": list(found)},
        warnings=warnings,
    )


def _paper(doc_id: str, chunk: GroundingChunk, base: KnowledgeBase) -> JsonObject:
    """What is known of a paper, with the complete abstract if the base has it."""
    metadata = chunk.metadata
    document = None if base.is_ingested else base.retrieval.dataset.documents.get(doc_id)
    known = {
        name: str(metadata[name]).strip()
        for name in ("title", "year", "journal", "doi", "pmid", "url")
        if isinstance(metadata.get(name), str | int)
    }
    pubmed = _PUBMED_URL.search(unquote(known.get("url", "")))
    authors = metadata.get("authors")
    if isinstance(authors, str):
        authors = [name.strip() for name in authors.split(";")]
    fields = {
        **known,
        "abstract": chunk.text if document is None else document.text,
        "authors": [str(name) for name in authors] if isinstance(authors, list) else [],
        "year": int(known["year"]) if known.get("year", "").isdecimal() else None,
        "pmid": known.get("pmid") or (pubmed[1] if pubmed else None),
        "source": base.name,
        "doc_id": doc_id,
    }
    return {name: value for name, value in fields.items() if value}
