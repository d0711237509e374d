"""What tuning learns from: documents, queries, their vectors, and who judged what relevant."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.errors import DataError
from assay.search.tuning.arrays import Floats, Sparse, sparse_matrix

Judgments = Mapping[str, Mapping[str, int]]
"""Query id to document id to grade; a grade of 0 or less says not relevant."""


@dataclass(frozen=True)
class TuningData:
    """A data set with the vectors of its documents and queries, all in the same order."""

    doc_ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    doc_vectors: Floats
    query_ids: Sequence[str]
    query_texts: Sequence[str]
    query_vectors: Floats
    judgments: Mapping[str, Judgments]
    """By split. `train` is learned from; `dev`, where there is one, only measures."""

    def __post_init__(self) -> None:
        documents, queries = len(self.doc_ids), len(self.query_ids)
        _same_length("documents", documents, self.titles, self.texts, self.doc_vectors)
        _same_length("queries", queries, self.query_texts, self.query_vectors)
        if documents and queries and self.doc_vectors.shape[1] != self.query_vectors.shape[1]:
            raise DataError(
                f"document vectors have {self.doc_vectors.shape[1]} dimensions and query vectors "
                f"{self.query_vectors.shape[1]}: embed both with the same model"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any document: a tuned model knows documents by their place."""
        return fingerprint_of(self.doc_ids, self.titles, self.texts)

    @cached_property
    def document_index(self) -> Mapping[str, int]:
        return {doc_id: index for index, doc_id in enumerate(self.doc_ids)}

    @cached_property
    def _query_index(self) -> Mapping[str, int]:
        return {query_id: index for index, query_id in enumerate(self.query_ids)}

    def judged(self, split: str) -> list[int]:
        """The queries of a split with a known relevant document, by index, in a fixed order."""
        return sorted(
            self._query_index[query_id]
            for query_id, grades in self.judgments.get(split, {}).items()
            if query_id in self._query_index
            and any(grade > 0 and doc_id in self.document_index for doc_id, grade in grades.items())
        )

    def grades(self, split: str, queries: Sequence[int]) -> Sparse:
        """Queries by documents; what was not judged relevant is zero."""
        rows, columns, values = [], [], []
        judgments = self.judgments.get(split, {})
        for row, query in enumerate(queries):
            for doc_id, grade in judgments.get(self.query_ids[query], {}).items():
                if grade > 0 and doc_id in self.document_index:
                    rows.append(row)
                    columns.append(self.document_index[doc_id])
                    values.append(grade)
        return sparse_matrix(values, rows, columns, (len(queries), len(self.doc_ids)))


def fingerprint_of(doc_ids: Sequence[str], titles: Sequence[str], texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for fields in zip(doc_ids, titles, texts, strict=True):
        for field in fields:
            content = field.encode("utf-8", "replace")
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _same_length(what: str, count: int, *parts: Sequence[str] | Floats) -> None:
    for part in parts:
        if len(part) != count:
            raise DataError(f"{count} {what}, but {len(part)} of their texts or vectors")
    if any(isinstance(part, np.ndarray) and part.ndim != 2 for part in parts):
        raise DataError(f"vectors of {what} must be a table with one row each")
