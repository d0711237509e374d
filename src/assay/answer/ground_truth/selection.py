"""Which questions get a reference answer, and from which documents."""

import random
from collections.abc import Sequence

from assay.data.dataset import Dataset, Document, Query
from assay.errors import UsageError

SELECTED = ("PLAIN-2630", "PLAIN-2660", "PLAIN-2510", "PLAIN-2430", "PLAIN-2690")
"""The five questions of NFCorpus that the tests of retrieval and answers are about."""

FEWEST, MOST = 3, 5


def choose_queries(
    dataset: Dataset, split: str, ids: Sequence[str] = (), number: int | None = None, seed: int = 42
) -> list[Query]:
    """By their ids; or `number` of them, drawn as an evaluation draws; or all that are judged.

    On the test split of NFCorpus, nothing said means the five that the tests ask.
    """
    judged = {query.id: query for query in dataset.queries_in(split)}
    if not ids and number is None and dataset.name == "nfcorpus" and split == "test":
        ids = SELECTED
    if ids:
        return [_judged(query_id, judged, dataset, split) for query_id in dict.fromkeys(ids)]
    valid = list(judged.values())
    if number is None:
        return valid
    if not 1 <= number <= len(valid):
        raise UsageError(
            f"{number!r} queries cannot be drawn: split {split!r} of {dataset.name!r} has "
            f"{len(valid)} with a relevant document"
        )
    return random.Random(seed).sample(valid, number)


def _judged(query_id: str, judged: dict[str, Query], dataset: Dataset, split: str) -> Query:
    if query_id in judged:
        return judged[query_id]
    known = query_id in dataset.queries
    why = f"has no relevant document in split {split!r}" if known else "is not in the data set"
    raise UsageError(f"query {query_id!r} {why}; see the ids in queries.jsonl of {dataset.name!r}")


def expected_ids(dataset: Dataset, split: str, query_id: str) -> tuple[str, ...]:
    """The documents of the highest grade that the query has, in the order of its judgments."""
    grades = _relevant(dataset, split, query_id)
    best = max(grades.values())
    return tuple(doc_id for doc_id, grade in grades.items() if grade == best)


def source_documents(dataset: Dataset, split: str, query_id: str, most: int) -> list[Document]:
    """The most relevant that the corpus holds: by grade, then in the order of the judgments."""
    if not FEWEST <= most <= MOST:
        raise UsageError(f"an answer is made from {FEWEST} to {MOST} documents, got {most!r}")
    grades = _relevant(dataset, split, query_id)
    ranked = sorted(grades, key=lambda doc_id: -grades[doc_id])  # stable, so ties keep their order
    found = [dataset.documents[doc_id] for doc_id in ranked if doc_id in dataset.documents]
    return [document for document in found if document.full_text][:most]


def _relevant(dataset: Dataset, split: str, query_id: str) -> dict[str, int]:
    judged = dataset.judgments_in(split).get(query_id, {})
    return {doc_id: grade for doc_id, grade in judged.items() if grade > 0}
