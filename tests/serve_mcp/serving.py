"""What the MCP server of the tests searches: a handful of documents, with real BM25."""

from assay.data import Dataset, Document
from assay.progress import Progress
from assay.search.index import open_retriever
from assay.serve.retrieval import Retrieval

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


def make_retrieval() -> Retrieval:
    documents = {key: Document(key, *value) for key, value in TEXTS.items()}
    dataset = Dataset("tiny", documents, {}, {})
    return Retrieval(dataset, open_retriever(dataset, "bm25"), "bm25")


async def load_tiny(_progress: Progress) -> Retrieval:
    return make_retrieval()
