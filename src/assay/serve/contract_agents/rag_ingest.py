"""RAG_INGEST: cuts documents into chunks and writes them to a knowledge base, all or nothing."""

import asyncio
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field, StringConstraints

from assay.contract.envelope import (
    NO_FLAG,
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
    Count,
    ErrorCode,
    Identifier,
    TaskError,
    chunk_id,
    read_inputs,
    succeeded,
    without_nulls,
)
from assay.contract.server.runs import ReportProgress
from assay.data.dataset import Document
from assay.net.json import JsonObject, is_deep
from assay.search.embedding import Embedder
from assay.search.index import IndexReport
from assay.serve.contract_agents.knowledge_bases import NAME, KnowledgeBases
from assay.serve.contract_agents.knowledge_store import EMBEDDING, replace_documents
from assay.text import strip_controls

MAX_DOCUMENTS = 1000

_MAX_DEPTH = 32
# Tokens that a model adds around a text.
_SPECIAL_TOKENS = 2
_SENTENCE_END = re.compile(r"[.!?。！？](?=\s)|\n")

KnowledgeBaseName = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]


def _shallow(metadata: JsonObject) -> JsonObject:
    """Refuse what is nested so deeply that it could be read, but not written into a response."""
    if is_deep(metadata, _MAX_DEPTH):
        raise ValueError("nested too deeply")
    return metadata


class DocumentInput(ContractModel):
    """One document to ingest."""

    doc_id: Identifier = Field(validation_alias=AliasChoices("docId", "doc_id", "id"))
    title: str = ""
    source: str | None = None
    text: str = ""
    metadata: Annotated[JsonObject, AfterValidator(_shallow)] = Field(default_factory=dict)


class ChunkConfig(ContractModel):
    """In characters. A chunk never has more tokens than the embedding model reads, either."""

    size: Annotated[int, Field(ge=50, le=20_000), NO_FLAG] = Field(
        default=1000, validation_alias=AliasChoices("chunkSize", "chunk_size")
    )
    overlap: Count = Field(
        default=100, validation_alias=AliasChoices("chunkOverlap", "chunk_overlap")
    )


class IngestInputs(ContractModel):
    """The inputs of the task."""

    documents: list[DocumentInput] = Field(max_length=MAX_DOCUMENTS)
    remove: list[Identifier] | None = Field(
        default=None,
        max_length=MAX_DOCUMENTS,
        validation_alias=AliasChoices("remove", "removeDocIds", "remove_doc_ids"),
    )
    knowledge_base: KnowledgeBaseName = Field(
        validation_alias=AliasChoices("knowledgeBase", "collection", "knowledge_base")
    )
    chunk_config: ChunkConfig = Field(
        default_factory=lambda: ChunkConfig(),
        validation_alias=AliasChoices("chunkConfig", "chunk_config"),
    )


@dataclass
class _Cut:
    """`chunks` of the documents `taken`; `errors` name the others by index and id."""

    taken: list[str] = field(default_factory=list)
    chunks: list[Document] = field(default_factory=list)
    errors: list[JsonObject] = field(default_factory=list)


@dataclass(frozen=True)
class RagIngest:
    """The work of the agent: one write at a time.

    Embedding uses all cores anyway, and a request that only waits must not occupy a thread that a
    search could use.
    """

    knowledge: KnowledgeBases
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        inputs = read_inputs(IngestInputs, request)
        _check_overlap(inputs.chunk_config)
        self._refuse_data_set(inputs.knowledge_base)
        if not inputs.documents:
            return await self._only_remove(request, inputs, report)
        embedder = await self.knowledge.embedder.get()
        report("model ready", percent=5)
        cut = await asyncio.to_thread(_cut, inputs, embedder)
        if not cut.taken:
            raise TaskError(ErrorCode.VALIDATION_ERROR, "inputs.documents: none has any text")
        report("cut", percent=20, documents=len(cut.taken), chunks=len(cut.chunks))
        async with self.writing:
            gone = [each for each in inputs.remove or () if each not in cut.taken]
            written = await self._write(inputs.knowledge_base, cut, gone, embedder, report)
        report("written", percent=100, chunks=len(cut.chunks))
        return _response(request, inputs, cut, written)

    async def _only_remove(
        self, request: AgentRunRequest, inputs: IngestInputs, report: ReportProgress
    ) -> AgentRunResponse:
        """A knowledge base that does not exist is not created for it."""
        name, removed = inputs.knowledge_base, 0
        store = self.knowledge.store_for(name)
        if inputs.remove and await asyncio.to_thread(store.manifest) is not None:
            embedder = await self.knowledge.embedder.get()
            async with self.writing:
                written = await self._write(name, _Cut(), inputs.remove, embedder, report)
            removed = written.removed
        return _nothing(request, name, None if inputs.remove is None else removed)

    def _refuse_data_set(self, name: str) -> None:
        """The index of a data set is built from its files: what is added would be lost."""
        if self.knowledge.is_data_set(name):
            message = "inputs.knowledgeBase names a data set, which is read-only; use another name"
            raise TaskError(ErrorCode.VALIDATION_ERROR, message)

    async def _write(
        self,
        name: str,
        cut: _Cut,
        gone: Sequence[str],
        embedder: Embedder,
        report: ReportProgress,
    ) -> IndexReport:
        """In a thread, which stops without writing when the run is canceled."""
        stop = threading.Event()

        def progress(what: str, done: int, total: int | None) -> None:
            if stop.is_set():
                raise _Canceled
            if total and what == EMBEDDING:
                report("embedded", percent=round(20 + 75 * done / total), chunks=done)

        store, replaced = self.knowledge.store_for(name), [*cut.taken, *gone]
        try:
            return await asyncio.to_thread(
                replace_documents, name, replaced, cut.chunks, embedder, store, progress
            )
        finally:
            stop.set()


class _Canceled(Exception):
    """Raised inside the thread that writes."""


def _cut(inputs: IngestInputs, embedder: Embedder) -> _Cut:
    cut = _Cut()
    for index, document in enumerate(inputs.documents):
        if document.doc_id in cut.taken:
            cut.errors.append(_error(index, document, "another document has the same docId"))
            continue
        chunks = cut_document(
            document.doc_id,
            document.title,
            document.text,
            _metadata(document),
            embedder,
            size=inputs.chunk_config.size,
            overlap=inputs.chunk_config.overlap,
        )
        if not chunks:
            cut.errors.append(_error(index, document, "the text is empty"))
            continue
        cut.taken.append(document.doc_id)
        cut.chunks += chunks
    return cut


def _metadata(document: DocumentInput) -> JsonObject:
    metadata: JsonObject = without_nulls(document.metadata)
    return metadata if document.source is None else {"source": document.source, **metadata}


def _error(index: int, document: DocumentInput, problem: str) -> JsonObject:
    return {"index": index, "docId": document.doc_id, "problem": problem}


def _check_overlap(config: ChunkConfig) -> None:
    if config.overlap > config.size // 2:
        message = "inputs.chunkConfig.chunkOverlap should be at most half of chunkSize"
        raise TaskError(ErrorCode.VALIDATION_ERROR, message)


def _response(
    request: AgentRunRequest, inputs: IngestInputs, cut: _Cut, written: IndexReport
) -> AgentRunResponse:
    chunk_ids: Sequence[str] = [chunk.id for chunk in cut.chunks]
    removed = {} if inputs.remove is None else {"removedChunkCount": written.removed}
    warnings = [f"{len(cut.errors)} documents were left out; outputs.errors says why"]
    return succeeded(
        request,
        {
            "ingestedCount": len(cut.taken),
            "chunkCount": len(chunk_ids),
            "collection": inputs.knowledge_base,
            "docIds": cut.taken,
            "chunkIds": chunk_ids,
            "errors": cut.errors,
            **removed,
        },
        status="degraded" if cut.errors else "ok",
        artifacts=chunk_ids,
        provenance={
            "chunks_added": written.added,
            "chunks_changed": written.changed,
            "chunks_removed": written.removed,
        },
        warnings=warnings if cut.errors else [],
    )


def _nothing(request: AgentRunRequest, name: str, removed: int | None) -> AgentRunResponse:
    """The answer to a list without documents: nothing is added, nor a knowledge base created."""
    outputs: JsonObject = {"ingestedCount": 0, "chunkCount": 0, "collection": name}
    outputs |= {"docIds": [], "chunkIds": [], "errors": []}
    if removed is not None:
        return succeeded(request, outputs | {"removedChunkCount": removed})
    return succeeded(request, outputs, warnings=["inputs.documents is empty: nothing was written"])


def cut_document(
    doc_id: str,
    title: str,
    text: str,
    metadata: Mapping[str, Any],
    embedder: Embedder,
    *,
    size: int,
    overlap: int,
) -> list[Document]:
    """Cut a document into chunks of at most `size` characters, `overlap` of them shared.

    A chunk never has more tokens than the model reads, so that the index does not cut it again.
    Returns nothing for a text without words.
    """
    title = _short_title(strip_controls(title).strip(), embedder)
    pieces = [piece for piece in _windows(strip_controls(text).strip(), size, overlap) if piece]
    fitting = [part for piece in pieces for part in _fit(title, piece, embedder)]
    return [
        Document(chunk_id(doc_id, index), title, part, dict(metadata))
        for index, part in enumerate(fitting)
    ]


def _windows(text: str, size: int, overlap: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _good_end(text, start, start + size)
        yield text[start:end].strip()
        if end >= len(text):
            return
        start = max(start + 1, _word_start(text, end - overlap, end))


def _good_end(text: str, start: int, limit: int) -> int:
    """The end of a sentence in the second half of the window, else of a word, else the limit."""
    if limit >= len(text):
        return len(text)
    middle = (start + limit) // 2
    ends = [match.end() for match in _SENTENCE_END.finditer(text, middle, limit)]
    if ends:
        return ends[-1]
    space = text.rfind(" ", middle, limit)
    return space + 1 if space > 0 else limit


def _word_start(text: str, earliest: int, end: int) -> int:
    if earliest >= end:
        return end
    space = text.find(" ", earliest, end)
    return space + 1 if space >= 0 else end


def _fit(title: str, piece: str, embedder: Embedder) -> Sequence[str]:
    (tokens,) = embedder.count_tokens([f"{title} {piece}".strip()])
    if tokens + _SPECIAL_TOKENS <= embedder.max_tokens or len(piece) < 2:
        return [piece]
    middle = len(piece) // 2
    space = piece.rfind(" ", 1, middle)
    cut = space if space > 0 else middle
    halves = (piece[:cut].strip(), piece[cut:].strip())
    return [part for half in halves if half for part in _fit(title, half, embedder)]


def _short_title(title: str, embedder: Embedder) -> str:
    """A title may take at most half of the tokens that the model reads."""
    while title and embedder.count_tokens([title])[0] > embedder.max_tokens // 2:
        title = title[: len(title) // 2].rstrip()
    return title
