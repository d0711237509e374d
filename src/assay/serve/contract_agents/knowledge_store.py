"""Writing to an ingested knowledge base: all of a request, or nothing.

The chunks are the documents of an index, each small enough to be one point of it. So the index is
the only record, and the switch from one generation to the next is the moment at which everything
becomes true. A write reads the chunks of its own documents alone, however many others there are.
"""

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from assay.contract.chunk_ids import chunk_id, split_chunk_id
from assay.data.cache import cache_folder
from assay.data.dataset import Document
from assay.progress import Progress, silent
from assay.search.bm25_vectors import Bm25Encoder
from assay.search.embedding import Embedder
from assay.search.index import IndexReport, content_hash
from assay.search.store import Draft, Manifest, Point, Searcher, Store, point_id
from assay.search.vector_cache import VectorCache
from assay.search.writer_lock import writer_lock
from assay.serve.contract_agents.chunk_tally import ChunkTally, Payload, text_of

# Apart from the indexes of data sets, which may have any name.
_PREFIX = "kb-"
_AT_ONCE = 500

EMBEDDING = "embedding chunks"
"""What `progress` is told while chunks are embedded."""


def store_of(name: str) -> Store:
    """On the Qdrant server that QDRANT_URL names, else in a folder: QDRANT_PATH or the cache."""
    if url := os.environ.get("QDRANT_URL"):
        from assay.search.server import ClusterSettings, ServerStore

        key = os.environ.get("QDRANT_API_KEY") or None
        cluster = ClusterSettings.from_environment()
        return ServerStore(url, _PREFIX + name, api_key=key, cluster=cluster)
    from assay.search.edge import EdgeStore

    path = os.environ.get("QDRANT_PATH")
    return EdgeStore(Path(path) if path else cache_folder() / "index", _PREFIX + name)


def replace_documents(
    name: str,
    doc_ids: Collection[str],
    chunks: Sequence[Document],
    embedder: Embedder,
    store: Store,
    progress: Progress = silent,
) -> IndexReport:
    """From now on, the documents named by `doc_ids` consist of `chunks`; the others stay.

    Read and written under one lock, so that two requests at once do not undo each other. (The lock
    is of this machine: one machine writes a knowledge base.) A `progress` that raises ends it, and
    nothing is written.
    """
    started = time.monotonic()
    new = [_payload(chunk) for chunk in chunks]
    with writer_lock(cache_folder() / f"ingest-{name}.lock", progress), store.writing(progress):
        old = _chunks_of(doc_ids, store)
        tally = _tally(store).without(old.values()).including(new)
        changed = [one for one in new if _content(one) != _content(old.get(one["doc_id"]))]
        removed = old.keys() - {one["doc_id"] for one in new}
        manifest, live = tally.manifest(embedder), store.manifest()
        fits = live is not None and live.made_like(manifest)
        if changed or removed or not fits:
            # With another model, or texts of another length, all chunks are made anew.
            written = changed if fits else [*_all_chunks_but(doc_ids, store), *new]
            with store.draft(manifest, from_live=fits) as draft:
                if fits:
                    draft.delete([point_id(one, 0) for one in removed])
                _fill(draft, written, manifest, embedder, progress)
                draft.commit()
    added = sum(one["doc_id"] not in old for one in changed)
    return IndexReport(
        added=added,
        changed=len(changed) - added,
        removed=len(removed),
        unchanged=tally.chunks - len(changed),
        seconds=time.monotonic() - started,
    )


def _fill(
    draft: Draft,
    chunks: Sequence[Payload],
    manifest: Manifest,
    embedder: Embedder,
    progress: Progress,
) -> None:
    for points in _points(chunks, embedder, Bm25Encoder(manifest.average_length), progress):
        draft.write(points)
    progress("writing", len(chunks), len(chunks))  # the last moment to be called off


def _tally(store: Store) -> ChunkTally:
    live = store.manifest()
    if live is None:
        return ChunkTally()
    # An earlier version kept no sums: once, all chunks are read to make them.
    return ChunkTally.read(live) or ChunkTally().including(_all_chunks_but((), store))


def _all_chunks_but(doc_ids: Collection[str], store: Store) -> list[Payload]:
    if store.manifest() is None:
        return []
    names = [name for name in store.contents() if split_chunk_id(name)[0] not in doc_ids]
    with closing(store.open()) as searcher:
        return list(_fetched(searcher, names))


def _chunks_of(doc_ids: Collection[str], store: Store) -> dict[str, Payload]:
    """By their names, twice as many in each round until one does not exist: the chunks of a
    document are numbered without gaps."""
    found: dict[str, Payload] = {}
    if store.manifest() is None:
        return found
    pending, start, size = list(doc_ids), 0, 4
    with closing(store.open()) as searcher:
        while pending:
            names = {one: [chunk_id(one, start + n) for n in range(size)] for one in pending}
            wanted = [name for each in names.values() for name in each]
            found |= {one["doc_id"]: one for one in _fetched(searcher, wanted)}
            pending = [one for one, each in names.items() if each[-1] in found]
            start, size = start + size, size * 2
    return found


def _fetched(searcher: Searcher, names: Sequence[str]) -> Iterator[Payload]:
    """Those that exist."""
    ids = [point_id(name, 0) for name in names]
    for start in range(0, len(ids), _AT_ONCE):
        yield from (one.payload for one in searcher.fetch(ids[start : start + _AT_ONCE]))


def _points(
    chunks: Sequence[Payload], embedder: Embedder, encoder: Bm25Encoder, progress: Progress
) -> Iterator[list[Point]]:
    cache = VectorCache()
    for start in range(0, len(chunks), _AT_ONCE):
        part = chunks[start : start + _AT_ONCE]

        def told(_what: str, done: int, _total: int | None, before: int = start) -> None:
            progress(EMBEDDING, before + done, len(chunks))

        texts = [text_of(one) for one in part]
        vectors = cache.embed(texts, embedder, told)
        progress(EMBEDDING, start + len(part), len(chunks))
        yield [
            Point(point_id(one["doc_id"], 0), vector, encoder.document(text), one)
            for one, text, vector in zip(part, texts, vectors, strict=True)
        ]


def _payload(chunk: Document) -> Payload:
    return {
        "doc_id": chunk.id,
        "title": chunk.title,
        "text": chunk.text,
        "chunk_index": 0,
        "total_chunks": 1,
        "metadata": dict(chunk.metadata),
        "content_hash": content_hash(chunk),
    }


def _content(chunk: Payload | None) -> str | None:
    return None if chunk is None else str(chunk["content_hash"])
