"""What the MCP server of the tests searches: a handful of documents, with real BM25."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.data import Dataset, Document
from assay.progress import Progress
from assay.search.bm25 import Bm25Index
from assay.serve.retrieval import Retrieval, SearchHit

TEXTS = {
    "MED-1": (
        "Calcium and bone density",
        "Calcium supplements slow the loss of bone in older women. Fractures were 12% rarer.",
    ),
    "MED-2": ("Vitamin D", "Vitamin D helps the gut to take up calcium. Sunlight makes it."),
    "MED-3": ("Coffee", "Coffee widens the arteries for an hour. Decaf has no such effect."),
    "MED-4": ("Turmeric", "Turmeric contains curcumin, which gives curry its colour."),
    "../b ?": ("", "A document whose id needs quoting in an address."),
}


class Bm25:
    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents
        self._index = Bm25Index(documents.values())

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Any = "bm25",
        filters: Mapping[str, Any] | None = None,
    ) -> Sequence[SearchHit]:
        hits = []
        for doc_id, score in self._index.search(query, top_k):
            document = self._documents[doc_id]
            place = (document.title, document.text, 0, 1)
            share = score / (score + 1)
            hits.append(SearchHit(doc_id, share, *place, metadata=document.metadata))
        return hits


def make_retrieval(more: Mapping[str, tuple[str, str]] | None = None) -> Retrieval:
    texts = TEXTS | dict(more or {})
    documents = {key: Document(key, *value) for key, value in texts.items()}
    dataset = Dataset("tiny", documents, {}, {})
    return Retrieval(dataset, Bm25(documents), "bm25")


async def load_tiny(_progress: Progress) -> Retrieval:
    return make_retrieval()
