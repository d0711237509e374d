"""What the MCP server searches, and the arguments and results of its tools, shared with REST."""

import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from assay.contract.envelope import NO_FLAG
from assay.errors import AssayError, SearchError
from assay.progress import Progress
from assay.serve.readiness import Loading
from assay.serve.retrieval import QueryText, Retrieval, SearchHit
from assay.steps import SearchStep, served_line

DescribedQuery = Annotated[QueryText, Field(description="The query, in plain words.")]
TopK = Annotated[int, Field(ge=1, le=100, description="Maximum number of documents."), NO_FLAG]
Threshold = Annotated[
    float, Field(ge=0.0, le=1.0, description="Omit documents with a lower score.")
]
AnswerTokens = Annotated[
    int, Field(ge=1, le=4000, description="Maximum length of the answer in tokens."), NO_FLAG
]


class SearchRequest(BaseModel):
    """Arguments of `search_nfcorpus`."""

    query: DescribedQuery
    top_k: TopK = 5


class FoundDocument(BaseModel):
    """One document that a search found."""

    doc_id: str
    score: float = Field(description="From 0 to 1, higher is better.")
    title: str
    text: str


class SearchResults(BaseModel):
    """Result of `search_nfcorpus`."""

    results: list[FoundDocument] = Field(description="Best first, each document once.")


class Health(BaseModel):
    """Result of `health_check`."""

    status: Literal["healthy", "loading", "unhealthy"]
    ready: bool = Field(description="Whether the server is ready to search.")
    dataset: str | None = Field(description="The data set being searched; null until it is loaded.")
    documents: int
    mode: str | None = Field(description="The search mode: hybrid, tuned, dense or bm25.")
    version: str


class FoundNote(BaseModel):
    """A document in the shape of Nextcloud's semantic search."""

    id: str
    doc_type: str
    title: str
    category: str
    excerpt: str
    score: float
    chunk_index: int
    total_chunks: int


class SemanticResults(BaseModel):
    """Result of `nc_semantic_search`."""

    success: bool
    results: list[FoundNote]
    query: str
    total_found: int
    search_method: str


class SemanticAnswer(BaseModel):
    """Result of `nc_semantic_search_answer`."""

    success: bool
    query: str
    generated_answer: str = Field(description="Cites its sources as [1], [2], by their position.")
    sources: list[FoundNote] = Field(
        description="The documents that the answer was written from, best first."
    )
    total_found: int = Field(description="The number of sources; 0 if they contain no answer.")
    search_method: str = Field(description="The search mode and the writer: hybrid+sampling.")
    model_used: str
    stop_reason: str
    citations: list[str] = Field(description="Ids of the documents that the answer cites.")
    warnings: list[str]


SyncActivity = Literal["idle", "syncing", "disabled"]


class SyncStatus(BaseModel):
    """Result of `nc_get_vector_sync_status`."""

    indexed_documents: int
    indexed_chunks: int
    pending_count: int
    status: SyncActivity
    enabled: bool


LoadRetrieval = Callable[[Progress], Awaitable[Retrieval]]


class DocumentSearch:
    """Search over documents that load in the background; shared by MCP and REST.

    `search_calls` counts the searches that callers made; they are appended to the file `record`.
    """

    def __init__(self, load: LoadRetrieval, record: Path | None = None) -> None:
        self.loading: Loading[Retrieval] = Loading(lambda: load(self.loading.note))
        self.search_calls = 0
        self._record = record

    async def retrieval(self) -> Retrieval:
        """The documents, once loaded. Raises `SearchError` if loading failed."""
        try:
            return await self.loading.get()
        except AssayError as error:  # our own message, which holds nothing of a request
            raise SearchError(f"the documents could not be loaded: {error}") from error
        except Exception as error:
            raise SearchError("the documents could not be loaded") from error

    async def search(
        self, query: str, top_k: int, threshold: float = 0.0, traceparent: str = ""
    ) -> Sequence[SearchHit]:
        """Best first, without documents that score below `threshold`."""
        self.search_calls += 1
        started = time.perf_counter()
        retrieval = await self.retrieval()
        hits = await retrieval.search(query, top_k)
        hits = [hit for hit in hits if hit.score >= threshold] if threshold else hits
        if self._record is not None:
            step = SearchStep(
                tool="search",
                query=query,
                doc_ids=tuple(hit.doc_id for hit in hits),
                scores=tuple(hit.score for hit in hits),
                ms=round(1000 * (time.perf_counter() - started), 3),
                bytes=sum(len(f"{hit.title} {hit.text}".encode()) for hit in hits),
            )
            with self._record.open("ab") as file:
                file.write(served_line(step, traceparent))
        return hits

    async def found_documents(self, query: str, top_k: int, traceparent: str = "") -> SearchResults:
        """A search in the shape of `search_nfcorpus`."""
        hits = await self.search(query, top_k, traceparent=traceparent)
        return SearchResults.model_validate({"results": hits}, from_attributes=True)

    def health(self) -> Health:
        """Whether the documents have been loaded, which they are and how many."""
        there, is_loading = self.loading.value, self.loading.status == "loading"
        return Health(
            status="healthy" if there else "loading" if is_loading else "unhealthy",
            ready=there is not None,
            dataset=there.dataset.name if there else None,
            documents=len(there.dataset.documents) if there else 0,
            mode=there.mode if there else None,
            version=version("agent-assay"),
        )

    def sync_status(self) -> SyncStatus:
        """How much is indexed. An index is built as a whole: nothing is pending afterwards."""
        status: SyncActivity = "disabled"
        documents = chunks = pending = 0
        there = self.loading.value
        if there is not None:
            status, documents = "idle", len(there.dataset.documents)
            chunks = int(getattr(there.searcher, "chunks", documents))
        elif self.loading.status == "loading":
            _, documents, total = self.loading.stage or ("", 0, 0)
            status, chunks = "syncing", documents
            pending = max(1, (total or documents) - documents)  # zero would say that all is done
        return SyncStatus(
            indexed_documents=documents,
            indexed_chunks=chunks,
            pending_count=pending,
            status=status,
            enabled=status != "disabled",
        )


def found_note(hit: SearchHit) -> FoundNote:
    """A hit in the shape of Nextcloud's semantic search."""
    return FoundNote(
        id=hit.doc_id,
        doc_type=str(hit.metadata.get("doc_type") or "note"),
        title=hit.title,
        category=str(hit.metadata.get("category") or hit.metadata.get("folder") or ""),
        excerpt=hit.text,
        score=hit.score,
        chunk_index=hit.chunk_index,
        total_chunks=hit.total_chunks,
    )
