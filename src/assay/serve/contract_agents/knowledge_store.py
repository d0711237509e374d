"""Writing to an ingested knowledge base: all of a request, or nothing.

The chunks are the documents of an index, each small enough to be one point of it. So the index is
the only record: what is in it can be read back whole and written again with what is new, and the
switch from one generation to the next is the moment at which everything becomes true.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from assay.contract.chunk_ids import split_chunk_id
from assay.data.cache import cache_folder
from assay.data.dataset import Document
from assay.progress import Progress, silent
from assay.search.embedding import Embedder
from assay.search.index import IndexReport, build_index
from assay.search.store import Store, point_id
from assay.search.writer_lock import writer_lock

# Apart from the indexes of data sets, which may have any name.
_PREFIX = "kb-"
_AT_ONCE = 1000


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

    What was there is read and written back under one lock, so that two requests at once do not
    undo each other. (The lock is of this machine: one machine writes a knowledge base.)
    """
    with writer_lock(cache_folder() / f"ingest-{name}.lock", silent):
        kept = [
            chunk for chunk in stored_chunks(store) if split_chunk_id(chunk.id)[0] not in doc_ids
        ]
        # In the order of ids: the same chunks are the same index, however they got there.
        everything = sorted([*kept, *chunks], key=lambda chunk: chunk.id)
        return build_index(everything, embedder, store, progress)


def stored_chunks(store: Store) -> Iterator[Document]:
    if store.manifest() is None:
        return
    ids = [point_id(name, 0) for name in store.contents()]
    searcher = store.open()
    try:
        for start in range(0, len(ids), _AT_ONCE):
            for stored in searcher.fetch(ids[start : start + _AT_ONCE]):
                payload = stored.payload
                yield Document(
                    payload["doc_id"], payload["title"], payload["text"], payload["metadata"]
                )
    finally:
        searcher.close()
