"""The metric of a corpus: what titles and their own texts differ in is damped."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import WordEmbedder, corpus, indexed

from assay.data import Document
from assay.progress import Progress, silent
from assay.search.array_store import ArrayStore
from assay.search.bm25 import Bm25Index
from assay.search.embedding import VectorCache, Vectors
from assay.search.index import build_index
from assay.search.store import CorpusMetric, IndexKey, Manifest, fit_metric

TOPICS = ("tea", "bread", "music", "rain")
STYLE = 4


@dataclass
class StyleEmbedder(WordEmbedder):
    """Four topics, and one direction that tells short texts from long ones."""

    name: str = "style"
    max_tokens: int = 64
    dimension: int = 8

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        vectors = np.full((len(texts), 8), 0.01, np.float32)
        for row, text in enumerate(texts):
            words = text.split()
            for word in words:
                if word in TOPICS:
                    vectors[row, TOPICS.index(word)] += 1 / len(words) ** 0.5
            vectors[row, STYLE] += 0.4 if len(words) < 4 else -0.4
            vectors[row, 5:] += 0.02 * np.sin(len(text) * np.arange(1, 4))
            progress("embedding", row + 1, len(texts))
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def documents(count: int = 40, *, titled: bool = True) -> list[Document]:
    return [
        Document(
            f"{number:03}",
            f"{topic} {number}" if titled else "",
            f"all that can be said of {topic} in text {number} " + "and more " * (number % 5),
        )
        for number in range(count)
        for topic in (TOPICS[number % 4],)
    ]


def fitted(some: Sequence[Document], tmp_path: Path) -> CorpusMetric:
    by_id = {one.id: one for one in some}
    return fit_metric(by_id, StyleEmbedder(), VectorCache(tmp_path / "vectors.sqlite3"))


def test_what_titles_and_texts_differ_in_is_damped_and_the_rest_is_not(tmp_path: Path) -> None:
    metric = fitted(documents(), tmp_path)
    embedder = StyleEmbedder()
    short, long = embedder.embed(["tea 1", "all that can be said of tea in text 1"])
    before, after = float(short @ long), float(metric.apply(short) @ metric.apply(long))
    assert after > before + 0.1
    basis = np.eye(8, dtype=np.float32)
    moved = basis - basis @ _damping(metric)
    assert moved[STYLE, STYLE] > 0.3
    assert np.abs(moved[:4, :4]).max() < 0.1


def _damping(metric: CorpusMetric) -> Vectors:
    axes, lost = metric._axes
    return np.asarray(np.eye(8) - (axes.T * lost) @ axes, np.float32)


def test_vectors_keep_length_one_alone_or_together(tmp_path: Path) -> None:
    metric = fitted(documents(), tmp_path)
    vectors = StyleEmbedder().embed(["tea", "bread and butter and jam"])
    together = metric.apply(vectors)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert np.allclose(metric.apply(vectors[0]), together[0], atol=1e-6)


@pytest.mark.parametrize(
    "some",
    [documents(titled=False), documents(7), [*documents(9), *documents(40, titled=False)[9:]], []],
    ids=["no titles", "few documents", "few titles", "nothing"],
)
def test_without_enough_titles_vectors_stay_as_they_are(
    some: list[Document], tmp_path: Path
) -> None:
    metric = fitted(some, tmp_path)
    assert not metric.kept
    vectors = StyleEmbedder().embed(["tea", "bread"])
    assert metric.apply(vectors) is vectors


def test_titles_that_are_the_whole_texts_damp_nothing(tmp_path: Path) -> None:
    same = [replace(one, text="") for one in documents()]
    assert not fitted(same, tmp_path).kept


def test_the_order_of_documents_does_not_matter(tmp_path: Path) -> None:
    assert fitted(documents(), tmp_path) == fitted(documents()[::-1], tmp_path)


def test_queries_and_documents_are_compared_in_the_metric(tmp_path: Path) -> None:
    """A short query is as far from every text by its style: the metric brings the topic out."""
    embedder, store = StyleEmbedder(), ArrayStore(tmp_path / "index", "c")
    with indexed(store, embedder, documents()) as retriever:
        for mode in ("dense", "hybrid"):
            hits = retriever.search("tea", 10, mode=mode)
            assert {int(hit.doc_id) % 4 for hit in hits} == {0}
        best = retriever.search("tea", 1, mode="dense")[0]
    metric = fitted(documents(), tmp_path)
    texts = [f"{one.title} {one.text}".strip() for one in documents() if one.id == best.doc_id]
    query, document = (metric.apply(one) for one in embedder.embed(["tea", *texts]))
    assert best.score == pytest.approx(float(query @ document), abs=1e-5)


def test_it_is_fitted_again_when_the_corpus_changes(tmp_path: Path) -> None:
    embedder, store = StyleEmbedder(), ArrayStore(tmp_path / "index", "c")
    for count, is_fitted in ((7, False), (40, True)):
        data = corpus(documents(count))
        build_index(data, embedder, store)
        index = store.open(IndexKey(data.corpus_fingerprint, "style"), lambda: Bm25Index([]))
        assert index is not None
        assert bool(index.manifest.metric.kept) is is_fitted


def test_a_manifest_reads_what_it_wrote() -> None:
    manifest = Manifest(IndexKey("corpus", "words"), 3, CorpusMetric("", []))
    assert Manifest.from_json(json.loads(json.dumps(manifest.as_json())), "here") == manifest
