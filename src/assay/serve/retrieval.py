"""The searchable documents behind a server: a data set and the retriever over it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from assay.data import Dataset, load_dataset
from assay.progress import Progress, silent
from assay.search.lexical import LexicalIndex


@dataclass(frozen=True, slots=True)
class Hit:
    doc_id: str
    score: float
    title: str
    text: str
    chunk_index: int = 0
    total_chunks: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, int] = field(default_factory=dict)


class Searcher(Protocol):
    """Blocking and safe to call from several threads: ask it through `asyncio.to_thread`."""

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Any = "hybrid",
        filters: Mapping[str, Any] | None = None,
    ) -> Sequence[Hit]: ...


@dataclass(frozen=True)
class Retrieval:
    dataset: Dataset
    searcher: Searcher
    mode: str

    async def search(
        self, query: str, top_k: int, *, filters: Mapping[str, Any] | None = None
    ) -> Sequence[Hit]:
        """Best first, at most `top_k` distinct documents, scores in [0, 1]."""
        return await asyncio.to_thread(
            self.searcher.search, query, top_k, mode=self.mode, filters=filters
        )


async def load_retrieval(dataset: str, mode: str, progress: Progress = silent) -> Retrieval:
    """Load, and the first time build, what a server searches."""
    return await asyncio.to_thread(_load, dataset, mode, progress)


def _load(dataset: str, mode: str, progress: Progress) -> Retrieval:
    data = load_dataset(dataset, progress=progress)
    return Retrieval(data, _LexicalSearcher(data), mode)


class _LexicalSearcher:
    def __init__(self, dataset: Dataset) -> None:
        self._documents = dataset.documents
        self._index = LexicalIndex(dataset.documents.values())

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Any = "bm25",
        filters: Mapping[str, Any] | None = None,
    ) -> Sequence[Hit]:
        found = self._index.search(query, top_k)
        best = max((score for _, score in found), default=1.0)
        return [self._hit(doc_id, score / best) for doc_id, score in found]

    def _hit(self, doc_id: str, score: float) -> Hit:
        document = self._documents[doc_id]
        return Hit(doc_id, score, document.title, document.text, metadata=document.metadata)
