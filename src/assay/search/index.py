"""From documents to an index that can be searched: only what changed is embedded and written.

`open_retriever` is the way in: the retriever over a data set, its index built when first needed.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.data.cache import cache_folder
from assay.data.dataset import Corpus, Dataset, Document
from assay.errors import NotTuned, SearchError, TuningDeclined
from assay.net.json import JsonObject
from assay.progress import Progress, silent
from assay.search.analyzer import ANALYZER
from assay.search.bm25 import Bm25Model, Bm25Settings
from assay.search.chunks import POLICY, Chunk, split_documents
from assay.search.embedding import (
    BUILTIN_EMBEDDER,
    Embedder,
    VectorCache,
    Vectors,
    open_embedder,
)
from assay.search.index_changes import (
    IndexChanges,
    as_corpus,
    batches,
    content_hash,
    corpus_digest,
    find_changes,
)
from assay.search.modes import Mode
from assay.search.retriever import Retriever
from assay.search.store import (
    ChunkPayload,
    DamagedIndexError,
    Manifest,
    Point,
    Store,
    collection_name,
    point_id,
)
from assay.search.vector_metric import fit_metric
from assay.text import strip_controls

if TYPE_CHECKING:
    from assay.search.qdrant_cluster import ClusterSettings  # brings the client of Qdrant

# Bounds the memory that a large corpus takes while it is indexed.
_DOCUMENTS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class IndexReport:
    """How many documents were written, taken out, and left as they were."""

    added: int
    changed: int
    removed: int
    unchanged: int
    seconds: float


def build_index(
    documents: Iterable[Document],
    embedder: Embedder,
    store: Store,
    progress: Progress = silent,
    *,
    bm25: Bm25Settings | None = None,
    cache: VectorCache | None = None,
) -> IndexReport:
    """Bring the store's index up to the documents. Searches see the old one until the end.

    Documents are read several times, a few at a time, so that those of a data set on the disk
    never are in memory together; what can be read only once is kept in a list.

    `bm25`: left out, those of the environment. An index made with others is built again; what
    was embedded comes from `cache`.
    """
    started = time.monotonic()
    corpus = as_corpus(documents)
    settings, cache = bm25 or Bm25Settings.from_environment(), cache or VectorCache()
    manifest = describe_index(corpus, embedder, settings, live_manifest(store))
    added = changed = removed = 0
    if not is_ready(store, manifest):
        with store.lock(progress):
            manifest = with_metric_of(live_manifest(store), manifest)
            if not is_ready(store, manifest):  # else another process was quicker
                if manifest.metric is None:
                    metric = fit_metric(corpus, embedder, cache, progress)
                    manifest = replace(manifest, metric=metric)
                with closing(find_changes(corpus, manifest, store)) as changes:
                    _write(changes, manifest, embedder, store, cache, progress)
                added, changed, removed = changes.added, changes.changed, changes.removed
    unchanged = len(corpus) - added - changed
    return IndexReport(added, changed, removed, unchanged, time.monotonic() - started)


def _write(
    changes: IndexChanges,
    manifest: Manifest,
    embedder: Embedder,
    store: Store,
    cache: VectorCache,
    progress: Progress,
) -> None:
    total = changes.added + changes.changed
    with store.writer(manifest, from_live=changes.from_live) as writer:
        writer.delete(changes.outdated())
        for points in points_of(changes.written(), embedder, manifest, cache, progress, total):
            writer.write(points)
        writer.commit()


def open_index(store: Store, embedder: Embedder, *, bm25: Bm25Settings | None = None) -> Retriever:
    """The index that is there. `bm25`: an index made with other settings is refused."""
    searcher = store.open()
    try:
        _require_settings(searcher.manifest, bm25)
        return Retriever(searcher, embedder)
    except BaseException:
        searcher.close()
        raise


def _require_settings(manifest: Manifest, wanted: Bm25Settings | None) -> None:
    model = manifest.bm25
    if wanted is not None and model.settings != wanted:
        raise SearchError(
            f"the index was built with BM25 {model.settings}, not with {wanted}: search with "
            "those settings, or rebuild the index with these: assay index --bm25 k1=...,b=..."
        )


def describe_index(
    documents: Corpus,
    embedder: Embedder,
    bm25: Bm25Settings,
    live: Manifest | None = None,
) -> Manifest:
    """What an index of these documents says about itself.

    `live`: what the index there says; where it is of the same documents, they are not counted
    again. For the metric see `with_metric_of`.
    """
    from importlib.metadata import version  # brings email: opening an index does not need it

    corpus = corpus_digest(documents)
    model = live.bm25 if live is not None and live.corpus == corpus else None
    if model is None or (model.settings, model.analyzer) != (bm25, ANALYZER):
        model = Bm25Model.of(documents, bm25)
    wanted = Manifest(
        corpus=corpus,
        embedder=embedder.name,
        dimension=embedder.dimension,
        chunking=POLICY,
        documents=len(documents),
        assay=version("agent-assay"),
        bm25=model,
    )
    return with_metric_of(live, wanted)


def with_metric_of(live: Manifest | None, wanted: Manifest) -> Manifest:
    """The metric of the live index is kept while most documents stay; where it has none that fits,
    the metric is still to be fitted.
    """
    metric = live.metric if live is not None and live.same_vectors(wanted) else None
    keep = metric is not None and metric.fits(wanted.documents)
    return replace(wanted, metric=metric if keep else None)


def is_ready(store: Store, manifest: Manifest) -> bool:
    """Whether the live index is that of `manifest`. Opened to see: damage may show only then."""
    if live_manifest(store) != manifest:
        return False
    try:
        store.open().close()
    except DamagedIndexError:
        return False
    return True


def live_manifest(store: Store) -> Manifest | None:
    """What the live index says of itself; None if it cannot be read, and is to be built again."""
    try:
        return store.manifest()
    except DamagedIndexError:
        return None


def points_of(
    documents: Iterable[Document],
    embedder: Embedder,
    manifest: Manifest,
    cache: VectorCache,
    progress: Progress,
    total: int,
) -> Iterator[list[Point]]:
    """The points of documents, some hundred documents at a time.

    `total`: how many documents there are, for `progress`.
    """
    bm25, metric = manifest.bm25, manifest.metric
    done = 0
    for part in batches(documents, max(_DOCUMENTS_AT_ONCE, embedder.texts_at_once)):
        chunks = split_documents(part, embedder)
        texts = [chunk.embedded for one in chunks for chunk in one]
        tracker = _InDocuments(progress, done, len(part), total)
        vectors = cache.embed(texts, embedder, tracker)
        done += len(part)
        progress("embedding documents" if tracker.embedded else "indexing documents", done, total)
        rows = iter(metric.apply(vectors) if metric else vectors)
        yield [
            _point(document, index, one, next(rows), bm25)
            for document, one in zip(part, chunks, strict=True)
            for index in range(len(one))
        ]


def _point(
    document: Document, index: int, chunks: Sequence[Chunk], vector: Vectors, bm25: Bm25Model
) -> Point:
    words = bm25.document(document) if index == 0 else None
    return Point(point_id(document.id, index), vector, words, payload_of(document, index, chunks))


def payload_of(document: Document, index: int, chunks: Sequence[Chunk]) -> ChunkPayload:
    """What is kept of the chunk with this number."""
    return {
        "doc_id": document.id,
        "title": strip_controls(document.title),
        "text": chunks[index].text,
        "chunk_index": index,
        "total_chunks": len(chunks),
        "metadata": plain_metadata(document),
        "content_hash": content_hash(document),
    }


def plain_metadata(document: Document) -> JsonObject:
    """The metadata of a document as JSON can hold it, without control characters."""
    text = json.dumps(dict(document.metadata), ensure_ascii=False, default=str)
    metadata: JsonObject = json.loads(strip_controls(text))
    return metadata


@dataclass
class _InDocuments:
    """Chunks are counted in documents: people know how many of those they have.

    `embedded`: whether anything was, or all vectors came from the cache.
    """

    progress: Progress
    before: int
    part: int
    total: int
    embedded: bool = False

    def __call__(self, _what: str, done: int, all_chunks: int | None) -> None:
        self.embedded = True
        share = done / all_chunks if all_chunks else 1.0
        self.progress("embedding documents", self.before + int(share * self.part), self.total)


def open_retriever(
    dataset: Dataset,
    mode: Mode = "hybrid",
    *,
    embedder: Embedder | None = None,
    store: Store | None = None,
    bm25: Bm25Settings | None = None,
    progress: Progress = silent,
) -> Retriever:
    """Open a retriever for these documents, indexing what is new; quick if nothing changed.

    `mode`: the most that searches will ask for. `bm25` embeds nothing if there is no index with
    vectors yet; `tuned` adds the ranking of `assay tune`, or learns one from the train split now,
    which takes minutes. `bm25`: left out, those of the environment, else the defaults.
    """
    dataset.require_documents("a search")
    embedder = embedder or open_embedder()
    if mode == "tuned":
        _require_tunable(dataset, embedder)
    store = store or open_store(dataset.name, embedder)
    bm25 = bm25 or Bm25Settings.from_environment()
    if mode == "bm25" and live_manifest(store) is None:
        from assay.search.bm25_index import open_bm25
        from assay.search.bm25_searcher import Bm25Searcher

        words = open_bm25(dataset, bm25, progress)
        return Retriever(Bm25Searcher(dataset, words, embedder), embedder)
    build_index(dataset.documents.values(), embedder, store, progress, bm25=bm25)
    retriever = open_index(store, embedder, bm25=bm25)
    if mode != "tuned":
        return retriever
    return _with_tuned(retriever, dataset, embedder, progress)


def _require_tunable(dataset: Dataset, embedder: Embedder) -> None:
    from assay.search.tuning.tune import model_path

    if not model_path(dataset, embedder).exists():
        check_train_judgments(dataset)


def check_train_judgments(dataset: Dataset) -> None:
    """Before anything is embedded to learn from them: `TuningDeclined` where they are too few."""
    from assay.search.tuning.fit import MIN_QUERIES

    documents = dataset.documents
    judged = sum(
        query in dataset.queries and any(grades[one] > 0 and one in documents for one in grades)
        for query, grades in dataset.judgments.get("train", {}).items()
    )
    if judged < MIN_QUERIES:
        raise TuningDeclined(
            f"tuning needs at least {MIN_QUERIES} judged queries in the train split, "
            f"{dataset.name} has {judged}: use the zero-shot ranking `hybrid`",
            NotTuned.TOO_FEW_QUERIES,
        )


def _with_tuned(
    retriever: Retriever,
    dataset: Dataset,
    embedder: Embedder,
    progress: Progress,
) -> Retriever:
    from assay.search.tuning.tune import (
        open_tuned,  # brings scipy, for this mode alone
    )

    try:
        ranker = open_tuned(dataset, embedder, retriever, progress=progress)
    except BaseException:
        retriever.close()
        raise
    return retriever.with_ranking(ranker, list(dataset.documents))


def open_store(name: str, embedder: Embedder, *, cluster: "ClusterSettings | None" = None) -> Store:
    """A Qdrant server where QDRANT_URL is set, else a folder: QDRANT_PATH, or one in the cache.

    The collection is COLLECTION_NAME, else the name of the data set; an embedder other than the
    built-in one has a collection of its own, so that no index replaces another's.
    """
    chosen = os.environ.get("COLLECTION_NAME")
    collection = collection_name(chosen or name)
    if not (chosen or _is_builtin(embedder.name)):
        collection = f"{collection[:90]}-{hashlib.sha256(embedder.name.encode()).hexdigest()[:8]}"
    store = configured_store(collection, cluster)
    if chosen:
        _require_embedder(store, embedder)
    return store


def _is_builtin(embedder: str) -> bool:
    # A folder of the same name has no integer products.
    return embedder.startswith(f"{BUILTIN_EMBEDDER}@") and "int8 products" in embedder


def _require_embedder(store: Store, embedder: Embedder) -> None:
    """A collection that the user named is never filled again with another model's vectors."""
    live = live_manifest(store)
    if live is None or live.embedder == embedder.name:
        return
    if not (_is_builtin(live.embedder) and _is_builtin(embedder.name)):
        raise SearchError(
            f"the index in {store.where} belongs to the embedder {live.embedder!r}, not to "
            f"{embedder.name!r}; set COLLECTION_NAME to another name, or unset it"
        )


def configured_store(collection: str, cluster: "ClusterSettings | None" = None) -> Store:
    """Where the settings of this process keep the index `collection`.

    `cluster`: how a server keeps a new one; left out, as the environment says.
    """
    if url := os.environ.get("QDRANT_URL"):
        from assay.search.qdrant_cluster import ClusterSettings
        from assay.search.server_store import ServerStore

        key = os.environ.get("QDRANT_API_KEY") or None
        kept = cluster or ClusterSettings.from_environment()
        return ServerStore(url, collection, api_key=key, cluster=kept)
    from assay.search.folder_store import FolderStore

    path = os.environ.get("QDRANT_PATH")
    return FolderStore(Path(path) if path else cache_folder() / "index", collection)
