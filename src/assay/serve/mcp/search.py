"""What the MCP server searches: documents that may still be loading, and a count of searches."""

from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import Literal

from assay.errors import AssayError, SearchError
from assay.progress import Progress
from assay.serve.mcp.models import FoundDocument, FoundNote, Health, SearchResults, SyncStatus
from assay.serve.readiness import Loading
from assay.serve.retrieval import Hit, Retrieval

LoadRetrieval = Callable[[Progress], Awaitable[Retrieval]]


class DocumentSearch:
    """Search over documents that load in the background; shared by MCP and REST.

    `search_calls` counts the searches that callers made.
    """

    def __init__(self, load: LoadRetrieval) -> None:
        self.loading: Loading[Retrieval] = Loading(self._load_once)
        self.search_calls = 0
        self._load = load
        self._retrieval: Retrieval | None = None
        self._done, self._total = 0, 0

    async def retrieval(self) -> Retrieval:
        """The documents, once loaded. Raises `SearchError` where loading failed."""
        if self._retrieval is not None:
            return self._retrieval
        try:
            return await self.loading.get()
        except AssayError as error:  # our own message, which holds nothing of a request
            raise SearchError(f"the documents could not be loaded: {error}") from error
        except Exception as error:
            raise SearchError("the documents could not be loaded") from error

    async def search(self, query: str, top_k: int, threshold: float = 0.0) -> Sequence[Hit]:
        """Best first, without documents that score below `threshold`."""
        self.search_calls += 1
        retrieval = await self.retrieval()
        hits = await retrieval.search(query, top_k)
        return [hit for hit in hits if hit.score >= threshold] if threshold else hits

    async def found_documents(self, query: str, top_k: int) -> SearchResults:
        """A search in the shape of `search_nfcorpus`."""
        hits = await self.search(query, top_k)
        return SearchResults(results=[_found_document(hit) for hit in hits])

    def health(self) -> Health:
        """Whether the documents have been loaded, which they are and how many."""
        there = self._retrieval
        return Health(
            status="healthy" if there else "loading" if self._is_loading() else "unhealthy",
            ready=there is not None,
            dataset=there.dataset.name if there else None,
            documents=len(there.dataset.documents) if there else 0,
            mode=there.mode if there else None,
            version=version("agent-assay"),
        )

    def sync_status(self) -> SyncStatus:
        """How much is indexed. An index is built as a whole: nothing is pending afterwards."""
        if self._retrieval is not None:
            documents = len(self._retrieval.dataset.documents)
            chunks = getattr(self._retrieval.searcher, "chunks", documents)
            return _sync_status("idle", documents, int(chunks), 0)
        if self._is_loading():
            # At least one is pending: zero would say that all is done.
            return _sync_status("syncing", self._done, self._done, max(1, self._total - self._done))
        return _sync_status("disabled", 0, 0, 0)

    def _is_loading(self) -> bool:
        return self.loading.status == "loading"

    async def _load_once(self) -> Retrieval:
        self._retrieval = await self._load(self._note_progress)
        return self._retrieval

    def _note_progress(self, _what: str, done: int, total: int | None) -> None:
        self._done, self._total = done, total or done


def found_note(hit: Hit) -> FoundNote:
    """A hit in the shape of Nextcloud's semantic search."""
    return FoundNote(
        id=hit.doc_id,
        doc_type=str(hit.metadata.get("doc_type") or "note"),
        title=hit.title,
        category=str(hit.metadata.get("category") or hit.metadata.get("folder") or ""),
        excerpt=hit.text,
        score=_from_0_to_1(hit.score),
        chunk_index=hit.chunk_index,
        total_chunks=hit.total_chunks,
    )


def _found_document(hit: Hit) -> FoundDocument:
    score = _from_0_to_1(hit.score)
    return FoundDocument(doc_id=hit.doc_id, score=score, title=hit.title, text=hit.text)


def _from_0_to_1(score: float) -> float:
    return min(1.0, max(0.0, score))


def _sync_status(
    status: Literal["idle", "syncing", "disabled"], documents: int, chunks: int, pending: int
) -> SyncStatus:
    return SyncStatus(
        indexed_documents=documents,
        indexed_chunks=chunks,
        pending_count=pending,
        status=status,
        enabled=status != "disabled",
    )
