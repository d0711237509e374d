"""RAG_INGEST: cuts documents into chunks and writes them to a knowledge base, all or nothing."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

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
from assay.contract.server import ReportProgress
from assay.data.dataset import Document
from assay.net.json import JsonObject, is_deep
from assay.serve.contract_agents.knowledge_bases import NAME, KnowledgeBases, WriteReport
from assay.text import strip_controls

MAX_DOCUMENTS = 1000

_MAX_DEPTH = 32
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
    """In characters."""

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
    """The work of the agent."""

    knowledge: KnowledgeBases

    async def __call__(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        inputs = read_inputs(IngestInputs, request)
        _check_overlap(inputs.chunk_config)
        if self.knowledge.is_data_set(inputs.knowledge_base):
            # The index of a data set is built from its files: what is added would be lost.
            message = "inputs.knowledgeBase names a data set, which is read-only; use another name"
            raise TaskError(ErrorCode.VALIDATION_ERROR, message)
        cut = await asyncio.to_thread(_cut, inputs)
        if inputs.documents and not cut.taken:
            raise TaskError(ErrorCode.VALIDATION_ERROR, "inputs.documents: none has any text")
        report("cut", percent=50, documents=len(cut.taken), chunks=len(cut.chunks))
        gone = [each for each in inputs.remove or () if each not in cut.taken]
        written = WriteReport(0, 0, 0)
        if cut.taken or gone:
            name, replaced = inputs.knowledge_base, {*cut.taken, *gone}
            written = await asyncio.to_thread(
                self.knowledge.replace_documents, name, replaced, cut.chunks
            )
        report("written", percent=100, chunks=len(cut.chunks))
        return _response(request, inputs, cut, written)


def _cut(inputs: IngestInputs) -> _Cut:
    cut, config = _Cut(), inputs.chunk_config
    for index, document in enumerate(inputs.documents):
        if document.doc_id in cut.taken:
            cut.errors.append(_error(index, document, "another document has the same docId"))
            continue
        title, metadata = strip_controls(document.title).strip(), _metadata(document)
        parts = cut_text(document.text, size=config.size, overlap=config.overlap)
        if not parts:
            cut.errors.append(_error(index, document, "the text is empty"))
            continue
        cut.taken.append(document.doc_id)
        cut.chunks += [
            Document(chunk_id(document.doc_id, place), title, part, metadata)
            for place, part in enumerate(parts)
        ]
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
    request: AgentRunRequest, inputs: IngestInputs, cut: _Cut, written: WriteReport
) -> AgentRunResponse:
    chunk_ids = [chunk.id for chunk in cut.chunks]
    removed = {} if inputs.remove is None else {"removedChunkCount": written.removed}
    warnings = []
    if cut.errors:
        warnings.append(f"{len(cut.errors)} documents were left out; outputs.errors says why")
    elif not inputs.documents and not inputs.remove:
        warnings.append("inputs.documents is empty: nothing was written")
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
        warnings=warnings,
    )


def cut_text(text: str, *, size: int, overlap: int) -> list[str]:
    """Pieces of at most `size` characters, `overlap` of them shared; none without words."""
    return [piece for piece in _windows(strip_controls(text).strip(), size, overlap) if piece]


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
