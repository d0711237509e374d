"""Writing to an ingested knowledge base: all of a request, or nothing.

The chunks are the documents of an index, each small enough to be one point of it. So the index is
the only record, and a write takes effect when the index switches to its next generation. A write
reads only the chunks of its own documents, however many others there are: the manifest keeps sums
over all of them (`ChunkTally`).
"""

import hashlib
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version

from assay.contract.envelope import chunk_id, split_chunk_id
from assay.data.cache import cache_folder
from assay.data.dataset import Document
from assay.progress import Progress, silent
from assay.search.analyzer import ANALYZER, AUTO, DEFAULT_LANGUAGE
from assay.search.bm25 import Bm25Model, Bm25Settings, CorpusCounts
from assay.search.chunks import POLICY
from assay.search.embedding import Embedder, VectorCache
from assay.search.index import IndexReport, configured_store
from assay.search.index_changes import content_hash
from assay.search.index_files import writer_lock
from assay.search.postings import unpack_frequencies
from assay.search.store import ChunkPayload, IndexWriter, Manifest, Point, Searcher, Store, point_id

_CORPUS = re.compile(r"chunks ([0-9a-f]{64}) words ([0-9]+) in titles ([0-9]+)")
_DIGESTS = 1 << 256
# Distinguishes them from the indexes of data sets, which may have any name.
_PREFIX = "kb-"
_BATCH = 500

EMBEDDING = "embedding chunks"
"""What `progress` reports while chunks are embedded."""


def _no_counts() -> CorpusCounts:
    """In a language that does not depend on which chunks came first: the sums must not."""
    chosen = Bm25Settings.from_environment().language
    settings = Bm25Settings(language=DEFAULT_LANGUAGE if chosen == AUTO else chosen)
    return CorpusCounts(settings, settings.language)


@dataclass(frozen=True, slots=True)
class ChunkTally:
    """Sums over all chunks of a knowledge base: what BM25 counts, and a digest of their content.

    The digest does not depend on the order of the chunks. The sums are in the manifest, where
    `corpus` is free text, and so change in the same step as the chunks.
    """

    counts: CorpusCounts = field(default_factory=_no_counts)
    digest: int = 0

    @classmethod
    def read(cls, manifest: Manifest) -> "ChunkTally | None":
        """None if written by an earlier version, which kept no sums or used another BM25."""
        found = _CORPUS.fullmatch(manifest.corpus)
        if found is None or is_outdated(manifest) or manifest.bm25 is None:
            return None
        bm25 = manifest.bm25
        counts = CorpusCounts(
            bm25.settings,
            bm25.language,
            manifest.documents,
            int(found[2]),
            int(found[3]),
            unpack_frequencies(bm25.frequencies),
        )
        return cls(counts, int(found[1], 16))

    def including(self, chunks: Collection[ChunkPayload]) -> "ChunkTally":
        """The sums with these chunks added."""
        digest = (self.digest + sum(map(_digest, chunks))) % _DIGESTS
        return ChunkTally(self.counts.including(map(_document, chunks)), digest)

    def without(self, chunks: Collection[ChunkPayload]) -> "ChunkTally":
        """The sums with these chunks removed."""
        digest = (self.digest - sum(map(_digest, chunks))) % _DIGESTS
        return ChunkTally(self.counts.without(map(_document, chunks)), digest)

    def manifest(self, embedder: Embedder) -> Manifest:
        """The manifest of an index with these chunks."""
        return Manifest(
            corpus=f"chunks {self.digest:064x} words {self.counts.terms} "
            f"in titles {self.counts.title_terms}",
            embedder=embedder.name,
            dimension=embedder.dimension,
            chunking=POLICY,
            documents=self.counts.documents,
            assay=version("agent-assay"),
            bm25=self.counts.model(),
        )


def _document(chunk: ChunkPayload) -> Document:
    return Document(chunk["doc_id"], chunk["title"], chunk["text"], chunk["metadata"])


def _digest(chunk: ChunkPayload) -> int:
    content = f"{chunk['doc_id']}\x1f{chunk['content_hash']}"
    return int.from_bytes(hashlib.sha256(content.encode()).digest())


def ingested_store(name: str) -> Store:
    """Where a knowledge base is kept.

    On the Qdrant server that QDRANT_URL names, else in a folder: QDRANT_PATH or the cache.
    """
    return configured_store(_PREFIX + name)


def replace_documents(
    name: str,
    doc_ids: Collection[str],
    chunks: Sequence[Document],
    embedder: Embedder,
    store: Store,
    progress: Progress = silent,
) -> IndexReport:
    """Replace the documents named by `doc_ids` with `chunks`; all others stay.

    Everything is read and written under one lock, so that concurrent requests do not undo each
    other. (The lock is of this machine: only one machine writes a knowledge base.) A `progress`
    that raises ends it, and nothing is written.
    """
    started = time.monotonic()
    new = [_payload(chunk) for chunk in chunks]
    with writer_lock(cache_folder() / f"ingest-{name}.lock", progress), store.lock(progress):
        old = _chunks_of(doc_ids, store)
        tally = _tally(store).without(old.values()).including(new)
        changed = [one for one in new if _content(one) != _content(old.get(one["doc_id"]))]
        removed = old.keys() - {one["doc_id"] for one in new}
        manifest, live = tally.manifest(embedder), store.manifest()
        fits = live is not None and live.compatible_with(manifest)
        if changed or removed or not fits:
            # With another model, or another BM25, all chunks are written again.
            written = changed if fits else [*_all_chunks_but(doc_ids, store), *new]
            with store.writer(manifest, from_live=fits) as writer:
                if fits:
                    writer.delete([point_id(one, 0) for one in removed])
                _fill(writer, written, manifest, embedder, progress)
                writer.commit()
    added = sum(one["doc_id"] not in old for one in changed)
    return IndexReport(
        added=added,
        changed=len(changed) - added,
        removed=len(removed),
        unchanged=tally.counts.documents - len(changed),
        seconds=time.monotonic() - started,
    )


def is_outdated(manifest: Manifest) -> bool:
    """Whether an earlier version wrote it, with another BM25."""
    return manifest.bm25 is None or manifest.bm25.analyzer != ANALYZER


def upgrade_index(name: str, embedder: Embedder, store: Store) -> None:
    """Write the chunks that an earlier version indexed once more, in today's format.

    A knowledge base of another model is left as it is: to open it is refused.
    """
    live = store.manifest()
    if live is not None and is_outdated(live) and live.embedder == embedder.name:
        replace_documents(name, (), (), embedder, store)


def _fill(
    writer: IndexWriter,
    chunks: Sequence[ChunkPayload],
    manifest: Manifest,
    embedder: Embedder,
    progress: Progress,
) -> None:
    assert manifest.bm25 is not None, "only an index of an earlier version has none"
    for points in _points(chunks, embedder, manifest.bm25, progress):
        writer.write(points)
    progress("writing", len(chunks), len(chunks))  # the last chance to cancel


def _tally(store: Store) -> ChunkTally:
    live = store.manifest()
    if live is None:
        return ChunkTally()
    # An earlier version kept no sums: once, all chunks are read to make them.
    return ChunkTally.read(live) or ChunkTally().including(_all_chunks_but((), store))


def _all_chunks_but(doc_ids: Collection[str], store: Store) -> list[ChunkPayload]:
    if store.manifest() is None:
        return []
    every = dict.fromkeys(name for name, _, _ in store.entries())
    names = [name for name in every if split_chunk_id(name)[0] not in doc_ids]
    with closing(store.open()) as searcher:
        return list(_fetched(searcher, names))


def _chunks_of(doc_ids: Collection[str], store: Store) -> dict[str, ChunkPayload]:
    """The stored chunks of these documents.

    They are fetched by name, twice as many in each round until one does not exist: the chunks of a
    document are numbered without gaps.
    """
    found: dict[str, ChunkPayload] = {}
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


def _fetched(searcher: Searcher, names: Sequence[str]) -> Iterator[ChunkPayload]:
    """Those that exist."""
    ids = [point_id(name, 0) for name in names]
    for start in range(0, len(ids), _BATCH):
        yield from (one.payload for one in searcher.fetch(ids[start : start + _BATCH]))


def _points(
    chunks: Sequence[ChunkPayload], embedder: Embedder, bm25: Bm25Model, progress: Progress
) -> Iterator[list[Point]]:
    cache = VectorCache()
    for start in range(0, len(chunks), _BATCH):
        part = chunks[start : start + _BATCH]

        def report(_what: str, done: int, _total: int | None, before: int = start) -> None:
            progress(EMBEDDING, before + done, len(chunks))

        texts = [_document(one).full_text for one in part]
        vectors = cache.embed(texts, embedder, report)
        progress(EMBEDDING, start + len(part), len(chunks))
        yield [
            Point(point_id(one["doc_id"], 0), vector, bm25.document(_document(one)), one)
            for one, vector in zip(part, vectors, strict=True)
        ]


def _payload(chunk: Document) -> ChunkPayload:
    return {
        "doc_id": chunk.id,
        "title": chunk.title,
        "text": chunk.text,
        "chunk_index": 0,
        "total_chunks": 1,
        "metadata": dict(chunk.metadata),
        "content_hash": content_hash(chunk),
    }


def _content(chunk: ChunkPayload | None) -> str | None:
    return None if chunk is None else str(chunk["content_hash"])
