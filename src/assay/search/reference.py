"""The reference retriever over a data set: where its index is kept, built when first needed."""

import os
import re
from pathlib import Path

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset
from assay.progress import Progress, silent
from assay.search.bm25 import Bm25Settings
from assay.search.embedding import Embedder, open_embedder
from assay.search.index import build_index, open_index
from assay.search.retriever import Retriever
from assay.search.store import Store


def open_retriever(
    dataset: Dataset,
    *,
    embedder: Embedder | None = None,
    store: Store | None = None,
    bm25: Bm25Settings | None = None,
    tuned: bool = False,
    remember_dev: bool = False,
    progress: Progress = silent,
) -> Retriever:
    """Ready to search these documents, whatever was indexed before; quick where nothing changed.

    `bm25`: left out, ASSAY_BM25_K1 and ASSAY_BM25_B, else the defaults. `tuned` adds the ranking
    that learned from the train judgments, which takes minutes once; `remember_dev` is for one that
    knows the dev judgments as well.
    """
    embedder = embedder or open_embedder()
    store = store or open_store(dataset.name)
    bm25 = bm25 or Bm25Settings.from_environment()
    build_index(dataset.documents.values(), embedder, store, progress, bm25=bm25)
    retriever = open_index(store, embedder, bm25=bm25)
    if not tuned:
        return retriever
    return _with_tuned(retriever, dataset, embedder, remember_dev, progress)


def _with_tuned(
    retriever: Retriever,
    dataset: Dataset,
    embedder: Embedder,
    remember_dev: bool,
    progress: Progress,
) -> Retriever:
    from assay.search.tuned import open_tuned  # brings scipy and lightgbm, for this mode alone

    try:
        ranker = open_tuned(
            dataset, embedder, retriever, remember_dev=remember_dev, progress=progress
        )
    except BaseException:
        retriever.close()
        raise
    return retriever.with_ranking(ranker, list(dataset.documents))


def open_store(name: str) -> Store:
    """A Qdrant server where QDRANT_URL is set, else a folder: QDRANT_PATH, or one in the cache.

    The collection is COLLECTION_NAME, else the name of the data set.
    """
    collection = _collection(os.environ.get("COLLECTION_NAME") or name)
    if url := os.environ.get("QDRANT_URL"):
        from assay.search.server import ClusterSettings, ServerStore

        key = os.environ.get("QDRANT_API_KEY") or None
        cluster = ClusterSettings.from_environment()
        return ServerStore(url, collection, api_key=key, cluster=cluster)
    from assay.search.edge import EdgeStore

    path = os.environ.get("QDRANT_PATH")
    return EdgeStore(Path(path) if path else cache_folder() / "index", collection)


def _collection(name: str) -> str:
    """What both a folder and Qdrant accept."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:100] or "documents"
