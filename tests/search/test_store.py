"""The metric of a corpus: what titles and their own texts differ in is damped."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import WordEmbedder

from assay.data import Document
from assay.progress import Progress, silent
from assay.search.embedding import VectorCache, Vectors
from assay.search.store import CorpusMetric, fit_metric

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
    axes, lost = metric._axes
    moved = (axes.T * lost) @ axes
    assert moved[STYLE, STYLE] > 0.3
    assert np.abs(moved[:4, :4]).max() < 0.1


@pytest.mark.parametrize(
    "some",
    [documents(titled=False), documents(7), [*documents(9), *documents(40, titled=False)[9:]], []],
    ids=["no titles", "few documents", "few titles", "nothing"],
)
def test_without_titles_vectors_stay_as_they_are(some: list[Document], tmp_path: Path) -> None:
    metric = fitted(some, tmp_path)
    assert not metric.kept
    vectors = StyleEmbedder().embed(["tea", "bread"])
    assert metric.apply(vectors) is vectors
