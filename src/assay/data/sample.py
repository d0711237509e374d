"""A small data set cut from a large one, to try things out in seconds."""

import random
from collections.abc import Iterable

from assay.data.dataset import Dataset
from assay.errors import UsageError


def sample_dataset(
    dataset: Dataset, queries: int, *, split: str = "test", documents: int = 1000, seed: int = 42
) -> Dataset:
    """Queries of one split, drawn at random, with all documents that are judged for them.

    Scores on it cannot be compared with those on the whole: the fewer documents, the easier.

    Args:
        dataset: What is cut.
        queries: How many queries to keep.
        split: The split that they are drawn from, and the only one that is kept.
        documents: How many documents to keep; the judged ones always, others at random.
        seed: The same seed draws the same sample.

    Raises:
        UsageError: There are not that many queries, or there is no such split.
    """
    asked = {query.id for query in (*dataset.queries_in(split), *dataset.questions_in(split))}
    valid = [query_id for query_id in dataset.queries if query_id in asked]
    if not 1 <= queries <= len(valid):
        raise UsageError(
            f"queries must be 1 to {len(valid):,}, those of split {split!r} that can be measured, "
            f"got {queries:,}"
        )
    draw = random.Random(seed)
    chosen = set(draw.sample(valid, queries))
    judgments = {
        query_id: grades
        for query_id, grades in dataset.judgments_in(split).items()
        if query_id in chosen
    }
    answers = {key: each for key, each in dataset.answers.items() if key in chosen}
    needed = {doc_id for grades in judgments.values() for doc_id in grades}
    needed |= {doc_id for each in answers.values() for doc_id in each.documents}
    kept = _kept_documents(dataset, needed, documents, draw)
    return Dataset(
        f"{dataset.name}-{queries}",
        {doc_id: each for doc_id, each in dataset.documents.items() if doc_id in kept},
        {query_id: each for query_id, each in dataset.queries.items() if query_id in chosen},
        {split: judgments},
        answers,
        judged_by=f"in {dataset.name}, {dataset.judged_by}" if dataset.judged_by else "",
    )


def _kept_documents(
    dataset: Dataset, needed: Iterable[str], documents: int, draw: random.Random
) -> set[str]:
    kept = {doc_id for doc_id in needed if doc_id in dataset.documents}
    others = [doc_id for doc_id in dataset.documents if doc_id not in kept]
    wanted = max(0, min(documents - len(kept), len(others)))
    return kept | set(draw.sample(others, wanted))
