"""BM25 in memory: exact, no model, ready in about a second for a few thousand documents."""

import threading
from collections.abc import Iterable, Sequence

import bm25s
import numpy as np
import Stemmer

from assay.data.dataset import Document
from assay.search.plain_text import plain

# Robertson's k1 and b as Anserini sets them for BEIR (Thakur et al. 2021).
K1 = 0.9
B = 0.4


class LexicalIndex:
    """Searches title and text together; safe to ask from several threads."""

    def __init__(self, documents: Iterable[Document], *, k1: float = K1, b: float = B) -> None:
        # By id, so that the stable sort below breaks ties by it.
        documents = sorted(documents, key=lambda document: document.id)
        self._ids = [document.id for document in documents]
        self._stemmer = Stemmer.Stemmer("english")
        self._stemming = threading.Lock()  # PyStemmer is not safe for threads
        tokens = self._tokenize([document.full_text for document in documents])
        self._words = {word for document in tokens for word in document}
        self._bm25 = bm25s.BM25(k1=k1, b=b)
        if self._words:
            self._bm25.index(tokens, show_progress=False)

    def search(self, query: str, top_k: int) -> list[tuple[str, float]]:
        """Documents that share a word with the query, best first; ties in the order of ids."""
        terms = [word for word in self._tokenize([query])[0] if word in self._words]
        if not terms:
            return []
        scores = self._bm25.get_scores(terms)
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [(self._ids[i], float(scores[i])) for i in best if scores[i] > 0]

    def _tokenize(self, texts: Sequence[str]) -> list[list[str]]:
        with self._stemming:
            tokens: list[list[str]] = bm25s.tokenize(
                [plain(text) for text in texts],
                stopwords="en",
                stemmer=self._stemmer,
                return_ids=False,
                show_progress=False,
            )
        return tokens
