"""How the time for a query grows with the number of documents, in the embedded engine.

    .venv/bin/python benchmarks/growth.py --sizes 3600 36000 360000

Synthetic: vectors around cluster centres, as those of texts are, and words drawn with a frequency
of one over their rank. No model runs: what is measured is the index. `found` is the share of the
ten true nearest documents among the ten that dense search returns.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.progress import Progress, silent
from assay.search.bm25 import Bm25Model
from assay.search.edge_store import EdgeStore
from assay.search.embedding import NO_PROMPTS, Vectors
from assay.search.index import open_index
from assay.search.retriever import Mode, Retriever
from assay.search.store import ChunkPayload, Manifest, Point, point_id

DIMENSION = 384
WORDS_IN_A_DOCUMENT = 60
VOCABULARY = 50_000
MODES: tuple[Mode, ...] = ("bm25", "dense", "hybrid")
POINTS_AT_ONCE = 5000


class GivenVectors:
    """An embedder that returns what it was given for a text."""

    name, dimension, max_tokens = "synthetic", DIMENSION, 256
    prompts, texts_at_once = NO_PROMPTS, 256

    def __init__(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._vectors = dict(zip(texts, vectors, strict=True))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        return np.stack([self._vectors[text] for text in texts])


class Corpus:
    """`size` documents and some queries, all from one seed."""

    def __init__(self, size: int, queries: int) -> None:
        self._rng = np.random.default_rng(0)
        self._centres = self._rng.normal(size=(size // 12, DIMENSION))
        self.size, self.vectors = size, self._draw(size)
        self.query_vectors = self._draw(queries)
        self.queries = [f"{words} number{i}" for i, words in enumerate(self._texts(queries, 6))]

    def texts(self) -> list[str]:
        return self._texts(self.size, WORDS_IN_A_DOCUMENT)

    def _draw(self, count: int) -> Vectors:
        near = self._centres[self._rng.integers(len(self._centres), size=count)]
        vectors = near + 0.8 * self._rng.normal(size=near.shape)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def _texts(self, count: int, words: int) -> list[str]:
        ranks = self._ranks(count * words).reshape(count, words)
        return [" ".join(f"w{rank}" for rank in row) for row in ranks]

    def _ranks(self, count: int) -> NDArray[np.int64]:
        return np.exp(self._rng.uniform(0, np.log(VOCABULARY), count)).astype(np.int64)


def main() -> None:
    options = _options()
    print("| documents | built in | bm25 p50 | dense p50 | hybrid p50 | hybrid p99 | found |")
    print("|---|---|---|---|---|---|---|")
    medians = [_measured(size, options.queries) for size in options.sizes]
    for (small, fast), (large, slow) in pairwise(zip(options.sizes, medians, strict=True)):
        print(f"{large / small:.0f} times the documents: {slow / fast:.1f} times the time (hybrid)")


def _measured(size: int, queries: int) -> float:
    corpus = Corpus(size, queries)
    with tempfile.TemporaryDirectory() as folder:
        store = EdgeStore(Path(folder), "growth")
        started = time.perf_counter()
        _build(store, corpus)
        built = time.perf_counter() - started
        embedder = GivenVectors(corpus.queries, corpus.query_vectors)
        with open_index(store, embedder) as retriever:
            times = {mode: _times(retriever, corpus.queries, mode) for mode in MODES}
            found = _found(retriever, corpus)
    medians = [statistics.median(times[mode]) for mode in MODES]
    worst = statistics.quantiles(times["hybrid"], n=100)[98]
    cells = [f"{one:.2f} ms" for one in (*medians, worst)]
    print(f"| {size:,} | {built:.0f} s | {' | '.join(cells)} | {found:.2f} |", flush=True)
    return medians[-1]


def _build(store: EdgeStore, corpus: Corpus) -> None:
    texts = corpus.texts()
    bm25 = Bm25Model.of(texts)
    manifest = Manifest("synthetic", "synthetic", DIMENSION, "none", corpus.size, "0", bm25)
    with store.lock(silent), store.writer(manifest, from_live=False) as writer:
        for start in range(0, corpus.size, POINTS_AT_ONCE):
            rows = range(start, min(start + POINTS_AT_ONCE, corpus.size))
            writer.write([_point(row, corpus.vectors[row], texts[row], bm25) for row in rows])
        writer.commit()


def _point(row: int, vector: Vectors, text: str, bm25: Bm25Model) -> Point:
    doc_id = f"doc-{row}"
    payload: ChunkPayload = {
        "doc_id": doc_id,
        "title": "",
        "text": text,
        "chunk_index": 0,
        "total_chunks": 1,
        "metadata": {},
        "content_hash": "",
    }
    return Point(point_id(doc_id, 0), vector, bm25.document(text), payload)


def _times(retriever: Retriever, queries: Sequence[str], mode: Mode) -> list[float]:
    for query in queries[:20]:
        retriever.search(query, 10, mode=mode)
    times = []
    for query in queries:
        started = time.perf_counter()
        retriever.search(query, 10, mode=mode)
        times.append(1000 * (time.perf_counter() - started))
    return times


def _found(retriever: Retriever, corpus: Corpus) -> float:
    shares = []
    for query, vector in zip(corpus.queries, corpus.query_vectors, strict=True):
        scores = corpus.vectors @ vector
        true = {f"doc-{row}" for row in np.argpartition(-scores, 10)[:10]}
        hits = retriever.search(query, 10, mode="dense")
        shares.append(len(true & {hit.doc_id for hit in hits}) / 10)
    return statistics.fmean(shares)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="time queries against indexes of growing size")
    parser.add_argument("--sizes", type=int, nargs="+", default=[3_600, 36_000, 360_000])
    parser.add_argument("--queries", type=int, default=200)
    return parser.parse_args()


if __name__ == "__main__":
    main()
