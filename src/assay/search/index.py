"""The retriever over a data set: `open_retriever` builds the index that it needs."""

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache as cached
from itertools import islice
from pathlib import Path

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset, Document
from assay.data.stored_documents import StoredDocuments
from assay.errors import SearchUnavailable, TuningDeclined
from assay.progress import Progress, silent
from assay.search import Mode
from assay.search.bm25 import Bm25Index, Bm25Settings, open_bm25
from assay.search.chunks import Chunk, split_documents
from assay.search.embedding import (
    BUILTIN_EMBEDDER,
    Embedder,
    TextLimits,
    VectorCache,
    open_embedder,
)
from assay.search.retriever import Retriever
from assay.search.sealed_folder import DamagedIndexError
from assay.search.store import (
    CorpusMetric,
    EmbeddedPart,
    Index,
    IndexKey,
    Manifest,
    Store,
    fit_metric,
)
from assay.search.workers import Workers, ahead, integer_setting, usable_cores

_log = logging.getLogger(__name__)

# Bounds the memory that a large corpus takes while it is indexed.
_DOCUMENTS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What building an index took; `embedded`: texts whose vectors were not in the cache."""

    documents: int
    embedded: int
    rebuilt: bool
    seconds: float
    bm25_language: str


def open_retriever(
    dataset: Dataset,
    mode: Mode = "hybrid",
    *,
    embedder: Embedder | None = None,
    url: str | None = None,
    store: Store | None = None,
    bm25: Bm25Settings | None = None,
    progress: Progress = silent,
) -> Retriever:
    """open_retriever(dataset, "hybrid").search("green tea")  # indexes what is new

    `mode`: the most that searches will ask for. `bm25` embeds nothing; `tuned` opens the ranking of
    `assay tune`, or learns one now, which takes minutes. `url`: see `open_store`.
    """
    bm25 = bm25 or Bm25Settings.from_environment()
    if mode == "bm25":
        return Retriever(dataset.documents, open_bm25(dataset, bm25, progress), mode="bm25")
    dataset.require_documents("an index")
    embedder = embedder or open_embedder()
    if mode == "tuned":
        check_train_judgments(dataset)
    store = store or open_store(dataset.name, embedder, url)
    words, index, _ = _open_index(dataset, embedder, store, progress, bm25, VectorCache())
    retriever = Retriever(dataset.documents, words, index, embedder, mode)
    if mode != "tuned":
        return retriever
    from assay.search.tuning.tune import open_tuned  # brings scipy, for this mode alone

    retriever.ranker = open_tuned(dataset, embedder, retriever, progress)
    return retriever


def build_index(
    dataset: Dataset,
    embedder: Embedder,
    store: Store,
    progress: Progress = silent,
    *,
    bm25: Bm25Settings | None = None,
    cache: VectorCache | None = None,
) -> IndexReport:
    """Bring the store's index up to the documents. Searches see the old one until the end."""
    started, cache = time.monotonic(), cache or VectorCache()
    bm25 = bm25 or Bm25Settings.from_environment()
    words, _, rebuilt = _open_index(dataset, embedder, store, progress, bm25, cache, deep=True)
    seconds = time.monotonic() - started
    return IndexReport(len(words.ids), cache.computed, rebuilt, seconds, words.model.language)


def _open_index(
    dataset: Dataset,
    embedder: Embedder,
    store: Store,
    progress: Progress,
    bm25: Bm25Settings,
    cache: VectorCache,
    *,
    deep: bool = False,
) -> tuple[Bm25Index, Index, bool]:
    """The words and the vectors of these documents, and whether an index had to be built."""
    key = IndexKey(dataset.corpus_fingerprint, embedder.name)
    words = cached(lambda: open_bm25(dataset, bm25, progress))
    with suppress(DamagedIndexError):
        if found := store.open(key, words, deep=deep):
            return words(), found, False
    with store.lock(progress):
        try:
            if found := store.open(key, words, deep=deep):
                return words(), found, False  # another process was quicker
        except DamagedIndexError as error:
            _log.warning("%s: it is rebuilt, with vectors from the cache", error.damage)
        # Documents that do not stay in memory are read by other processes as well as by this one.
        documents = dataset.documents
        on_disk = isinstance(documents, StoredDocuments)
        context = _Corpus(
            replace(dataset, queries={}, judgments={}, answers={}),
            documents if isinstance(documents, StoredDocuments) else list(documents.values()),
            TextLimits.of(embedder),
            bm25,
        )
        with Workers(context, 1 + usable_cores() if on_disk else 0) as workers:
            counted = workers.submit(_count_words) if on_disk else None
            metric = fit_metric(documents, embedder, cache, progress)
            with cache.written_by(workers):
                parts = _embedded(dataset, embedder, metric, cache, workers, progress)
                manifest = Manifest(key, embedder.dimension, metric)
                store.write(manifest, ahead(parts) if on_disk else parts)
            if counted is not None:
                progress("counting words", 0, None)
                counted.result()  # they are in the cache now
        if found := store.open(key, words):
            return words(), found, True
    raise SearchUnavailable(
        f"another command has replaced the index at {store.where} in the meantime: run this again"
    )


@dataclass(frozen=True)
class _Corpus:
    """What another process needs to know of a corpus."""

    dataset: Dataset
    rows: StoredDocuments | list[Document]
    limits: TextLimits
    bm25: Bm25Settings


def _count_words(corpus: _Corpus) -> None:
    open_bm25(corpus.dataset, corpus.bm25)


def _split(corpus: _Corpus, rows: slice) -> list[list[Chunk]]:
    if isinstance(corpus.rows, StoredDocuments):
        return split_documents(list(corpus.rows.read(rows)), corpus.limits)
    return split_documents(corpus.rows[rows], corpus.limits)


def _embedded(
    dataset: Dataset,
    embedder: Embedder,
    metric: CorpusMetric,
    cache: VectorCache,
    workers: Workers,
    progress: Progress,
) -> Iterator[EmbeddedPart]:
    """All documents with their vectors, at least some hundred at a time."""
    total, size = len(dataset.documents), max(_DOCUMENTS_AT_ONCE, embedder.texts_at_once)
    ids = iter(dataset.documents)
    rows = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    for part, chunks in zip(rows, workers.map(_split, ((one,) for one in rows)), strict=True):
        counts = [len(one) for one in chunks]
        texts, spans = zip(*(chunk for one in chunks for chunk in one), strict=True)
        progress("embedding documents", part.start, total)
        vectors = metric.apply(cache.embed(texts, embedder))
        progress("indexing documents", part.stop, total)
        yield EmbeddedPart(list(islice(ids, len(counts))), counts, spans, vectors)


def check_train_judgments(dataset: Dataset) -> None:
    """Before anything is embedded to learn from them: `TuningDeclined` if they are too few."""
    from assay.search.tuning.tune import MIN_QUERIES

    documents, train = dataset.documents, dataset.judgments.get("train", {})
    asked = (train[query] for query in train if query in dataset.queries)
    relevant = ({one for one in grades if grades[one] > 0} for grades in asked)
    judged = sum(any(one in documents for one in some) for some in relevant)
    if judged < MIN_QUERIES:
        raise TuningDeclined(
            f"tuning needs at least {MIN_QUERIES} judged queries in the train split, "
            f"{dataset.name} has {judged}: use the zero-shot ranking `hybrid`",
            "too few train queries",
        )


def open_store(name: str, embedder: Embedder, url: str | None = None) -> Store:
    """A Qdrant server at `url` or QDRANT_URL, else a folder: QDRANT_PATH, or one in the cache.

    The collection is COLLECTION_NAME, else the name; each embedder has one for itself.
    """
    name = os.environ.get("COLLECTION_NAME") or name
    collection = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:100] or "documents"
    # A folder of the built-in model's name has no integer products.
    builtin = embedder.name.startswith(f"{BUILTIN_EMBEDDER}@") and "int8 products" in embedder.name
    if not builtin:
        collection = f"{collection[:90]}-{hashlib.sha256(embedder.name.encode()).hexdigest()[:8]}"
    if url := url or os.environ.get("QDRANT_URL"):
        from assay.search.qdrant import ServerStore

        return ServerStore(
            url,
            collection,
            api_key=os.environ.get("QDRANT_API_KEY") or None,
            shards=integer_setting("QDRANT_SHARD_NUMBER"),
            copies=integer_setting("QDRANT_REPLICATION_FACTOR"),
        )
    from assay.search.array_store import ArrayStore

    path = os.environ.get("QDRANT_PATH")
    return ArrayStore(Path(path) if path else cache_folder() / "index", collection)
