"""`assay index --engine ray`: documents embedded by all CPUs and GPUs of a Ray cluster."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assay.data.dataset import Corpus, Document
from assay.errors import AssayError, SearchError
from assay.progress import Progress, silent
from assay.ray_cluster import RayCluster
from assay.search.bm25 import Bm25Settings
from assay.search.chunks import split_documents
from assay.search.embedding import Embedder, EmbedderSettings, VectorCache, Vectors, open_embedder
from assay.search.index import (
    IndexReport,
    build_index,
    describe_index,
    is_ready,
    live_manifest,
    points_of,
)
from assay.search.index_changes import IndexChanges, WrittenDocuments, batches, find_changes
from assay.search.store import Manifest, Store
from assay.search.vector_metric import fit_metric

if TYPE_CHECKING:
    from assay.search.server_store import ServerStore

_DOCUMENTS_IN_A_PART = 256


@dataclass(frozen=True, slots=True)
class ClusterWork:
    """What every worker is given: how to embed, and that it has to be the same model as here."""

    settings: EmbedderSettings
    embedder: str


def build_on_cluster(
    documents: Corpus,
    settings: EmbedderSettings,
    store: Store,
    engine: str,
    progress: Progress = silent,
    *,
    bm25: Bm25Settings | None = None,
    cache: VectorCache | None = None,
) -> IndexReport:
    """As `build_index`, with the embedding done by a Ray cluster.

    Where the index is on a Qdrant server, the workers write their points straight into it; else
    their vectors come into the cache here. Either way a part that is finished is not computed again
    after an interruption.
    """
    embedder, cache = open_embedder(settings), cache or VectorCache()
    with RayCluster(engine, {"ASSAY_THREADS": "1"}) as cluster:
        progress(f"using {cluster.cpus} CPUs and {cluster.gpus} GPUs of Ray", 0, None)
        if os.environ.get("QDRANT_URL"):
            from assay.search.server_store import ServerStore

            assert isinstance(store, ServerStore)
            return _write_on_cluster(
                documents, settings, embedder, store, cluster, progress, bm25, cache
            )
        embed_on_cluster(documents, settings, embedder, cluster, cache, progress)
    return build_index(documents, embedder, store, progress, bm25=bm25, cache=cache)


def embed_on_cluster(
    documents: Corpus,
    settings: EmbedderSettings,
    embedder: Embedder,
    cluster: RayCluster,
    cache: VectorCache,
    progress: Progress = silent,
) -> None:
    """Have the cluster embed what is not in the cache, and keep the vectors as they come."""
    sizes: list[int] = []
    finished = 0

    def parts() -> Iterator[tuple[object, ...]]:
        nonlocal finished
        for some in batches(documents, _DOCUMENTS_IN_A_PART):
            texts = [chunk.embedded for one in split_documents(some, embedder) for chunk in one]
            if missing := cache.missing(texts, embedder):
                sizes.append(len(some))
                yield missing, work
            else:
                finished += len(some)

    work = cluster.share(ClusterWork(settings, embedder.name))
    for place, vectors in _results(cluster, _embed_texts, parts(), settings):
        cache.add(vectors, embedder)
        finished += sizes[place]
        progress("embedding documents", finished, len(documents))


def _results(
    cluster: RayCluster,
    function: Callable[..., Any],
    parts: Iterator[tuple[object, ...]],
    settings: EmbedderSettings,
) -> Iterator[tuple[int, Any]]:
    on_gpu = settings.embedder.startswith("st:") or bool(settings.model)
    for place, result in cluster.map(function, parts, gpus=int(on_gpu and cluster.gpus > 0)):
        if isinstance(result, AssayError):
            raise result
        yield place, result


def _write_on_cluster(
    documents: Corpus,
    settings: EmbedderSettings,
    embedder: Embedder,
    store: "ServerStore",
    cluster: RayCluster,
    progress: Progress,
    bm25: Bm25Settings | None,
    cache: VectorCache,
) -> IndexReport:
    started = time.monotonic()
    chosen = bm25 or Bm25Settings.from_environment()
    manifest = describe_index(documents, embedder, chosen, live_manifest(store))
    if is_ready(store, manifest):
        return IndexReport(0, 0, 0, len(documents), time.monotonic() - started)
    if manifest.metric is None:
        metric = fit_metric(documents, embedder, cache, progress)
        manifest = replace(manifest, metric=metric)
    with closing(find_changes(documents, manifest, store)) as changes:
        _write_changes(changes, manifest, settings, embedder, store, cluster, progress)
    unchanged = len(documents) - changes.added - changes.changed
    seconds = time.monotonic() - started
    return IndexReport(changes.added, changes.changed, changes.removed, unchanged, seconds)


def _write_changes(
    changes: IndexChanges,
    manifest: Manifest,
    settings: EmbedderSettings,
    embedder: Embedder,
    store: "ServerStore",
    cluster: RayCluster,
    progress: Progress,
) -> None:
    total = changes.added + changes.changed
    sizes: list[int] = []
    with (
        store.writer(manifest, from_live=changes.from_live) as writer,
        closing(WrittenDocuments(store.entries(writer.collection))) as written,
    ):
        writer.delete(changes.outdated())
        writer.delete(written.points())
        work = cluster.share(ClusterWork(settings, embedder.name))
        about, target = cluster.share(manifest), cluster.share(store.connection)

        def parts() -> Iterator[tuple[object, ...]]:
            todo = (one for one in changes.written() if one not in written)
            for some in batches(todo, _DOCUMENTS_IN_A_PART):
                sizes.append(len(some))
                yield some, work, about, target, writer.collection

        finished = 0
        for place, points in _results(cluster, _write_points, parts(), settings):
            writer.delete(points)  # of the live index: these were written anew
            finished += sizes[place]
            progress("embedding documents", finished, total)
        writer.commit()


def _embed_texts(texts: Sequence[str], work: ClusterWork) -> dict[str, Vectors]:
    """On a worker: the vector of each text."""
    return dict(zip(texts, _worker_embedder(work).embed(list(texts)), strict=True))


def _write_points(
    documents: Sequence[Document],
    work: ClusterWork,
    manifest: Manifest,
    connection: dict[str, str],
    collection: str,
) -> list[str]:
    """On a worker: embed documents and write their points; the ids of these."""
    from assay.search.server_store import ServerStore

    embedder = _worker_embedder(work)
    store = ServerStore(connection["url"], collection, api_key=connection["api_key"] or None)
    written = []
    for points in points_of(documents, embedder, manifest, None, silent, len(documents)):
        store.write(collection, points)
        written += [point.id for point in points]
    return written


_opened: dict[EmbedderSettings, Embedder] = {}


def _worker_embedder(work: ClusterWork) -> Embedder:
    """Kept, because a worker computes many parts."""
    if work.settings not in _opened:
        _opened[work.settings] = open_embedder(work.settings)
    embedder = _opened[work.settings]
    if embedder.name != work.embedder:
        raise SearchError(
            f"a node of the cluster embeds with {embedder.name!r}, not with {work.embedder!r}; "
            "install the same version of Assay and of the model on all nodes"
        )
    return embedder
