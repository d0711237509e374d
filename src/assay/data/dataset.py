"""What is asked and what is right: documents, queries, graded judgments, reference answers."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from assay.errors import UsageError

Judgments = Mapping[str, Mapping[str, int]]
"""query id -> document id -> grade; a grade of 0 or less is judged and not relevant."""

UNANSWERABLE = "unanswerable"
"""The tag of queries that the documents cannot answer: asked of agents that answer, not ranked."""


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        return f"{self.title} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class Query:
    id: str
    text: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a right answer must state; any of `accept` in the answer's text states it."""

    text: str
    accept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReferenceAnswer:
    """What a right answer says. `answer` is None where the documents hold no answer."""

    query_id: str
    answer: str | None
    facts: tuple[Fact, ...] = ()
    documents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """`judgments` by split name; `queries` in the order of their file, which sampling relies on."""

    name: str
    documents: Mapping[str, Document]
    queries: Mapping[str, Query]
    judgments: Mapping[str, Judgments]
    answers: Mapping[str, ReferenceAnswer] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def queries_in(self, split: str) -> list[Query]:
        """The queries that a ranking can be measured on: those with a relevant document."""
        judged = self.judgments_in(split)
        return [
            query
            for query in self.queries.values()
            if any(grade > 0 for grade in judged.get(query.id, {}).values())
        ]

    def judgments_in(self, split: str) -> Judgments:
        if split not in self.judgments:
            known = ", ".join(sorted(self.judgments)) or "none"
            raise UsageError(f"data set {self.name!r} has no split {split!r}; it has: {known}")
        return self.judgments[split]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a score depends on, so that two runs are known to be comparable."""
        digest = hashlib.sha256()
        for document in self.documents.values():
            _feed(digest, (document.id, document.title, document.text))
        for query in self.queries.values():
            _feed(digest, (query.id, query.text))
        for split in sorted(self.judgments):
            for query_id, grades in self.judgments[split].items():
                _feed(digest, (split, query_id, *(f"{d}={g}" for d, g in grades.items())))
        return digest.hexdigest()


def _feed(digest: "hashlib._Hash", fields: Iterable[str]) -> None:
    digest.update("\x1f".join(fields).encode("utf-8", "surrogatepass") + b"\x1e")
