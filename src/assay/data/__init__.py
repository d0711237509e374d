"""Data sets: documents, queries, relevance judgments, reference answers."""

# What reads files is imported when it is first used: a search needs only what a document is.

from importlib import import_module
from typing import TYPE_CHECKING, Any

from assay.data.cache import cache_folder
from assay.data.dataset import (
    UNANSWERABLE,
    Dataset,
    Document,
    Fact,
    Judgments,
    Query,
    ReferenceAnswer,
)

if TYPE_CHECKING:
    from assay.data.load import load_dataset
    from assay.data.qrels import read_qrels, read_run

__all__ = [
    "UNANSWERABLE",
    "Dataset",
    "Document",
    "Fact",
    "Judgments",
    "Query",
    "ReferenceAnswer",
    "cache_folder",
    "load_dataset",
    "read_qrels",
    "read_run",
]

_LAZY = {"load_dataset": "load", "read_qrels": "qrels", "read_run": "qrels"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"assay.data.{_LAZY[name]}"), name)
