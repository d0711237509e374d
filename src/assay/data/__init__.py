"""Data sets: documents, queries, relevance judgments, reference answers."""

from typing import TYPE_CHECKING, Any

from assay.data.dataset import Dataset, Document, Query

if TYPE_CHECKING:
    from assay.data.load import load_dataset

__all__ = ["Dataset", "Document", "Query", "load_dataset"]


def __getattr__(name: str) -> Any:
    if name != "load_dataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # What reads files is imported when it is first used: a search needs only what a document is.
    from assay.data import load

    return load.load_dataset
