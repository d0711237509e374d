"""The knowledge bases that agents search: the data set of the server, and what was ingested."""

import asyncio
import re
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from assay.contract.envelope import ErrorCode, TaskError, chunk_id, split_chunk_id
from assay.data.dataset import Document
from assay.data.load import KNOWN
from assay.errors import UsageError
from assay.progress import Progress
from assay.search.embedding import Embedder
from assay.search.filters import conditions
from assay.search.index import open_index
from assay.search.modes import Mode
from assay.search.retriever import Retriever
from assay.search.store import Store
from assay.serve.contract_agents.knowledge_store import is_outdated, upgrade_index
from assay.serve.readiness import Loading
from assay.serve.retrieval import Retrieval, SearchHit

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of ingested knowledge bases: they become parts of file names."""

DEFAULT = "default"
"""Means the data set that the server serves, unless something was ingested under this name."""

_MAX_OPEN_INDEXES = 8


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A chunk that a search found; `found_by` names the signals that found it."""

    chunk_id: str
    doc_id: str
    title: str
    text: str
    score: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    found_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, hit: SearchHit, chunk: str, doc_id: str) -> "FoundChunk":
        """A hit under the ids that callers know its chunk and its document by."""
        signals = tuple(hit.signals)
        return cls(chunk, doc_id, hit.title, hit.text, hit.score, hit.metadata, signals)


@dataclass(frozen=True, slots=True)
class ChunkQuery:
    """One search of a knowledge base."""

    text: str
    top_k: int
    mode: Mode
    filters: Mapping[str, Any] | None = None


class KnowledgeBase(Protocol):
    """What the agents search."""

    @property
    def name(self) -> str:
        """Under which callers ask for it."""
        ...

    def mode_for(self, asked: Mode | None) -> Mode:
        """The mode that was asked for, where it is available, else the server's own."""
        ...

    @property
    def size(self) -> int:
        """How many documents, or chunks of ingested documents, it has."""
        ...

    async def search(self, query: ChunkQuery) -> list[FoundChunk]:
        """The chunks that match, best first."""
        ...

    def document(self, doc_id: str) -> Document | None:
        """A complete document, where more than its chunks is known."""
        ...


@dataclass
class _Open:
    retriever: Retriever
    readers: int = 0
    retired: bool = False

    def close_if_unused(self) -> None:
        if self.retired and not self.readers:
            self.retriever.close()


class OpenIndexes:
    """Ingested indexes, kept open between searches and reopened when a writer has replaced them.

    The writer may be this process or another: what counts is what the store names as live. An index
    is closed when its last reader has left. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    @contextmanager
    def reading(self, name: str, store: Store, embedder: Embedder) -> Iterator[Retriever]:
        """The live index, which stays open while the block runs."""
        entry = self._enter(name, store, embedder)
        try:
            yield entry.retriever
        finally:
            with self._lock:
                entry.readers -= 1
                entry.close_if_unused()

    def close(self) -> None:
        """Close all indexes that have no reader, and the others when it has left."""
        with self._lock:
            for name in list(self._open):
                self._retire(name)

    def _enter(self, name: str, store: Store, embedder: Embedder) -> _Open:
        live = store.manifest()
        if live is not None and is_outdated(live):
            upgrade_index(name, embedder, store)
            live = store.manifest()
        with self._lock:
            entry = self._open.get(name)
            if entry is None or entry.retriever.manifest != live:
                self._retire(name)
                entry = self._open[name] = _Open(open_index(store, embedder))
            self._open.move_to_end(name)
            if len(self._open) > _MAX_OPEN_INDEXES:
                self._retire(next(iter(self._open)))
            entry.readers += 1
            return entry

    def _retire(self, name: str) -> None:
        entry = self._open.pop(name, None)
        if entry is not None:
            entry.retired = True
            entry.close_if_unused()


class KnowledgeBases:
    """The knowledge bases of one process.

    Parameters:
        load: reads the data set, which may take minutes.
        store_for: where an ingested knowledge base of this name is kept.
        open_embedder: the model for ingested knowledge bases.
        mode: how they are searched unless a request asks otherwise.
    """

    def __init__(
        self,
        load: Callable[[Progress], Awaitable[Retrieval]],
        store_for: Callable[[str], Store],
        open_embedder: Callable[[], Embedder],
        mode: Mode = "hybrid",
    ) -> None:
        self.loading: Loading[Retrieval] = Loading(lambda: load(self.loading.note))
        self.embedder: Loading[Embedder] = Loading(lambda: asyncio.to_thread(open_embedder))
        self.store_for = store_for
        # A tuned ranking belongs to the data set that it was tuned on.
        self._mode: Mode = "hybrid" if mode == "tuned" else mode
        self._indexes = OpenIndexes()

    async def find(self, name: str | None) -> KnowledgeBase:
        """The knowledge base of this name; the data set for None, `default` and its own name.

        An unknown name is an error: an empty result would say that nothing was found in it.
        """
        if name is not None and NAME.fullmatch(name) and not self.is_data_set(name):
            manifest = await asyncio.to_thread(self.store_for(name).manifest)
            if manifest is not None:
                return _Ingested(name, self._mode, manifest.documents, self)
        retrieval = await self.loading.get()
        if name not in (None, DEFAULT, retrieval.dataset.name):
            raise TaskError(ErrorCode.TASK_FAILED, "there is no knowledge base of this name")
        return _DataSet(retrieval)

    def is_data_set(self, name: str) -> bool:
        """Whether the name is a data set's, also one that another server may serve."""
        loaded = self.loading.value
        return name in KNOWN or (loaded is not None and name == loaded.dataset.name)

    async def search_ingested(self, name: str, query: ChunkQuery) -> list[FoundChunk]:
        """Search an ingested knowledge base."""
        embedder = await self.embedder.get()

        def search() -> Sequence[SearchHit]:
            with self._indexes.reading(name, self.store_for(name), embedder) as index:
                return index.search(query.text, query.top_k, mode=query.mode, filters=query.filters)

        hits = await asyncio.to_thread(search)
        return [FoundChunk.of(hit, hit.doc_id, split_chunk_id(hit.doc_id)[0]) for hit in hits]

    async def close(self) -> None:
        """Stop loading, and close the indexes."""
        await self.loading.stop()
        await self.embedder.stop()
        await asyncio.to_thread(self._indexes.close)


@dataclass(frozen=True)
class _DataSet:
    retrieval: Retrieval

    @property
    def name(self) -> str:
        return self.retrieval.dataset.name

    def mode_for(self, asked: Mode | None) -> Mode:
        """In this mode there is no index, and so nothing but BM25."""
        return "bm25" if self.retrieval.mode == "bm25" else asked or self.retrieval.mode

    @property
    def size(self) -> int:
        return len(self.retrieval.dataset.documents)

    async def search(self, query: ChunkQuery) -> list[FoundChunk]:
        hits = await self.retrieval.search(
            query.text, query.top_k, mode=query.mode, filters=query.filters
        )
        return [
            FoundChunk.of(hit, chunk_id(hit.doc_id, hit.chunk_index), hit.doc_id) for hit in hits
        ]

    def document(self, doc_id: str) -> Document | None:
        return self.retrieval.dataset.documents.get(doc_id)


@dataclass(frozen=True)
class _Ingested:
    """The documents of its index are chunks, under their own ids."""

    name: str
    default_mode: Mode
    size: int
    home: KnowledgeBases

    def mode_for(self, asked: Mode | None) -> Mode:
        return asked or self.default_mode

    async def search(self, query: ChunkQuery) -> list[FoundChunk]:
        return await self.home.search_ingested(self.name, query)

    def document(self, doc_id: str) -> Document | None:
        return None


def check_filters(filters: Mapping[str, Any] | None, field_name: str) -> None:
    """Raise `TaskError` for a wrong filter; the error of the search itself would quote it."""
    try:
        conditions(filters)
    except UsageError:
        raise TaskError(
            ErrorCode.VALIDATION_ERROR,
            f"{field_name}: each value should be a string, a number, true or false, a list of "
            "strings or integers, or a range of gt, gte, lt, lte",
            details={"fields": [{"field": field_name, "problem": "is not a filter"}]},
        ) from None
