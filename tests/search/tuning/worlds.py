"""Small made-up collections in which it is known what can be learned."""

import random
from collections.abc import Sequence

import numpy as np

from assay.data import Document, Query
from assay.search.tuning.features import Integers, TuningData
from assay.search.tuning.validation import ZeroShot

TOPICS = 12
DOCUMENTS_PER_TOPIC = 20
DIMENSIONS = 16


def learnable(train: int = 48, dev: int = 24, seed: int = 0) -> TuningData:
    """Queries and documents of a topic share no word: only judgments connect them."""
    chance, noise = random.Random(seed), np.random.default_rng(seed)
    count = TOPICS * DOCUMENTS_PER_TOPIC
    texts = [
        " ".join(f"doc{chance.randrange(40)}of{number % TOPICS}" for _ in range(12))
        for number in range(count)
    ]
    documents = [
        Document(f"d{number:03}", text.split()[0], text) for number, text in enumerate(texts)
    ]
    directions = noise.normal(size=(TOPICS, DIMENSIONS))
    queries, vectors = [], []
    judgments: dict[str, dict[str, dict[str, int]]] = {"train": {}, "dev": {}}
    for number in range(train + dev):
        topic = number % TOPICS
        text = " ".join(f"ask{chance.randrange(8)}about{topic}" for _ in range(3))
        queries.append(Query(f"q{number:03}", text))
        vectors.append(directions[topic] + noise.normal(size=DIMENSIONS))
        relevant = [one.id for one in chance.sample(documents[topic::TOPICS], 6)]
        judgments["train" if number < train else "dev"][queries[-1].id] = dict.fromkeys(relevant, 1)
    if not dev:
        del judgments["dev"]
    return TuningData(
        documents=documents,
        doc_vectors=noise.normal(size=(count, DIMENSIONS)).astype(np.float32),
        queries=queries,
        query_vectors=np.array(vectors, np.float32),
        judgments=judgments,
    )


def by_vectors(data: TuningData) -> ZeroShot:
    """The ranking that a tuned one is compared with here."""
    return lambda queries: [
        np.argsort(-(data.doc_vectors @ data.query_vectors[query])) for query in queries
    ]


def all_knowing(data: TuningData) -> ZeroShot:
    def rank(queries: Sequence[int]) -> list[Integers]:
        grades = sum(data.grades(split, queries).toarray() for split in data.judgments)
        return list(np.argsort(-grades, axis=1, kind="stable"))

    return rank
