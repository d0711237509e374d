"""Data sets: documents, queries, relevance judgments, reference answers."""

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
