"""A few documents, and an embedder that needs no model."""

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.data import Dataset, Document
from assay.progress import Progress, silent
from assay.search import embedding
from assay.search.bm25 import Bm25Settings
from assay.search.embedding import NO_PROMPTS, Prompts, Vectors
from assay.search.index import open_retriever
from assay.search.retriever import Retriever
from assay.search.store import Store

_DIMENSION = 512


@dataclass
class WordEmbedder:
    """Texts with like words have like vectors: enough to tell right from wrong, in microseconds.

    `seen` are the texts that were embedded, so that a test can tell what a cache spared.
    """

    name: str = "words"
    max_tokens: int = 24
    seen: list[str] = field(default_factory=list)
    dimension: int = _DIMENSION
    prompts: Prompts = NO_PROMPTS
    texts_at_once: int = 256

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(_words(text)) for text in texts]

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        self.seen += texts
        vectors = np.full((len(texts), _DIMENSION), 0.01, np.float32)
        for row, text in enumerate(texts):
            for word in _words(text)[: self.max_tokens]:
                vectors[row, zlib.crc32(word.encode()) % _DIMENSION] += 1
            progress("embedding", row + 1, len(texts))
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


DOCUMENTS = (
    Document("tea", "Green tea", "Green tea is steeped in hot water.", {"year": 2019, "kind": "x"}),
    Document("coffee", "Coffee", "Coffee is brewed from roasted beans.", {"year": 2020}),
    Document("bread", "Bread", "Bread is baked from flour, water and yeast.", {"year": 2021}),
    Document("beer", "Beer", "Beer is brewed from barley, hops and water.", {"year": 2020}),
    Document(
        "soup",
        "Soup",
        "Soup begins with onions. " * 12 + "Late in the pot comes saffron from Kashmir.",
        {"year": 2022, "tags": ["hot", "wet"]},
    ),
)


def corpus(documents: Iterable[Document] = DOCUMENTS, name: str = "test") -> Dataset:
    return Dataset(name, {one.id: one for one in documents}, {}, {})


def indexed(
    store: Store,
    embedder: embedding.Embedder,
    documents: Iterable[Document] = DOCUMENTS,
    bm25: Bm25Settings | None = None,
) -> Retriever:
    return open_retriever(corpus(documents), embedder=embedder, store=store, bm25=bm25)
