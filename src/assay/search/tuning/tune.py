"""The tuned ranking of a data set: learned when it is first asked for, then kept in the cache.

No query is answered with the help of its judgments: those of a fold see only the judgments of the
other folds, and the overlaps that they are ranked by are predicted by trees of the other folds.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset
from assay.errors import TuningDeclined, UsageError
from assay.progress import Progress, silent
from assay.search.chunks import document_vectors
from assay.search.embedding import Embedder, VectorCache
from assay.search.retriever import MAX_TOP_K, Retriever
from assay.search.tuning.features import (
    CorpusFeatures,
    Floats,
    Integers,
    QueryEncoder,
    QueryFeatures,
    Sparse,
    TuningData,
    read_collection,
)
from assay.search.tuning.memory import Memory, remember
from assay.search.tuning.model import TunedRanker, load_model, save_model
from assay.search.tuning.signals import (
    FirstPass,
    RankingCandidates,
    compare_with_judged,
    first_pass,
    second_pass,
    true_overlap,
)
from assay.search.tuning.trees import (
    SEEDS_APART,
    TreeGraph,
    TreeSets,
    learn_overlap,
    learn_ranking,
    mean_prediction,
)
from assay.search.tuning.validation import HeldOut, ValidationFold, ZeroShot, choose_settings

FOLDS = 5
MIN_QUERIES = 4 * FOLDS
# Memory grows with the square of the judged queries: of a split with more, some are drawn.
MAX_QUERIES = 4000


@dataclass(frozen=True)
class Fold:
    """Queries that are `asked`, each with its neighbors among those that are `remembered`."""

    asked: list[int]
    remembered: list[int]
    memory: Memory
    neighbours: Integers
    features: Floats  # of each pair of a query and a neighbor
    overlap: Floats  # the truth about each pair


@dataclass(frozen=True)
class TrainingSet:
    """A data set and what was computed of it once: `TrainingSet.read(data)`."""

    data: TuningData
    encoder: QueryEncoder
    corpus: CorpusFeatures
    body: Sparse
    title: Sparse
    questions: QueryFeatures  # all queries of the data set

    @classmethod
    def read(cls, data: TuningData) -> "TrainingSet":
        """Encode documents and queries."""
        encoder, corpus, body, title = read_collection(data)
        questions = encoder.encode([one.text for one in data.queries], data.query_vectors)
        return cls(data, encoder, corpus, body, title, questions)

    def memory(self, queries: Sequence[int]) -> Memory:
        """What is remembered when these train queries are judged."""
        grades = self.data.grades("train", queries)
        return remember(self.corpus, self.body, self.title, self.questions.take(queries), grades)

    def first_passes(self, memory: Memory, queries: Sequence[int]) -> Iterator[FirstPass]:
        """In batches, so that memory stays bounded."""
        for start in range(0, len(queries), memory.batch):
            some = self.questions.take(queries[start : start + memory.batch])
            yield first_pass(self.corpus, memory, some)

    def fold(self, asked: list[int], remembered: list[int]) -> Fold:
        """What the overlap trees learn from queries beside others."""
        memory = self.memory(remembered)
        passes = self.first_passes(memory, asked)
        pairs = [compare_with_judged(memory, first) for first in passes]
        neighbours, features = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        own, others = self.data.grades("train", asked), self.data.grades("train", remembered)
        overlap = true_overlap(own, others, neighbours)
        return Fold(asked, remembered, memory, neighbours, features, overlap)

    def candidates(
        self, memory: Memory, queries: Sequence[int], trees: TreeSets
    ) -> list[RankingCandidates]:
        """The candidates of each query, given what is remembered."""
        return [
            candidates
            for first in self.first_passes(memory, queries)
            for candidates in second_pass(memory, first, partial(mean_prediction, trees))
        ]


def split_queries(
    queries: Sequence[int], seed: int, count: int = FOLDS
) -> list[tuple[list[int], list[int]]]:
    """Each query is asked in one fold (first list) and remembered in all others (second)."""
    shuffled = list(queries)
    random.Random(seed).shuffle(shuffled)
    parts = [shuffled[start::count] for start in range(count)]
    return [(part, [q for other in parts if other is not part for q in other]) for part in parts]


def overlap_trees(folds: Sequence[Fold], seed: int, unseen: Fold | None = None) -> TreeSets:
    """Without the fold that the trees are for: not its queries, and not as neighbors either."""
    hidden = set(unseen.asked) if unseen else set()
    features, target = [], []
    for fold in folds:
        if fold is not unseen:
            kept = np.array([query not in hidden for query in fold.remembered])[fold.neighbours]
            features.append(fold.features[kept])
            target.append(fold.overlap[kept])
    return learn_overlap(np.concatenate(features), np.concatenate(target), seed)


def ranking_trees(
    training: TrainingSet,
    queries: Sequence[int],
    candidates: Sequence[RankingCandidates],
    seed: int,
) -> TreeSets:
    """LambdaMART over the candidates of the queries, graded by the means of their documents."""
    grades, labels = training.data.grades("train", queries), []
    for row, some in enumerate(candidates):
        own = np.asarray(grades[row].toarray(), np.float32).ravel()[some.documents]
        total = np.bincount(some.owners, own, minlength=len(some.sizes))
        labels.append(np.asarray(total / some.sizes, np.float32))
    return learn_ranking(
        features=np.concatenate([some.features for some in candidates]),
        grades=np.concatenate(labels),
        sizes=np.concatenate([some.sizes for some in candidates]),
        queries=[len(some.sizes) for some in candidates],
        seed=seed,
    )


def fit(
    data: TuningData, zero_shot: ZeroShot, seed: int = 0, progress: Progress = silent
) -> TunedRanker:
    """Learn from the train split; `held_out` of the result says whether it was worth it, compared
    with `zero_shot`, which also answers the queries that nothing remembered resembles.
    """
    train, dev = (_drawn_queries(data, split, seed) for split in ("train", "dev"))
    progress("reading texts", 0, None)
    training = TrainingSet.read(data)
    folds = []
    for done, (asked, remembered) in enumerate(split_queries(train, seed)):
        progress("comparing queries", done, FOLDS)
        folds.append(training.fold(asked, remembered))
    pairs = []
    for done, unseen in enumerate(folds):
        progress("learning overlaps", done, FOLDS + 1)
        trees = overlap_trees(folds, seed, unseen)
        pairs.append((unseen, training.candidates(unseen.memory, unseen.asked, trees)))
    overlap = overlap_trees(folds, seed)
    memory = training.memory(train)
    tests = []
    for place, (unseen, own) in enumerate(pairs):
        progress("learning to rank", place, FOLDS + 1)
        others = [pair for pair in pairs if pair[0] is not unseen]
        asked = [query for fold, _ in others for query in fold.asked]
        known = [one for _, candidates in others for one in candidates]
        trees = ranking_trees(training, asked, known, seed + SEEDS_APART * place)
        tests.append(ValidationFold("train", unseen.asked, own, trees, unseen.remembered))
    ranking = tuple(one for test in tests for one in test.trees)
    if dev:
        found = training.candidates(memory, dev, overlap)
        tests.append(ValidationFold("dev", dev, found, ranking, train))
    trees_used, gate, held_out = choose_settings(data, tests, zero_shot)
    progress("learning to rank", FOLDS + 1, FOLDS + 1)
    return TunedRanker(
        held_out=held_out,
        encoder=training.encoder,
        corpus=training.corpus,
        memory=memory,
        overlap_trees=TreeGraph.of(overlap),
        ranking_trees=TreeGraph.of(ranking, trees_used, ranks=True),
        gate=gate,
    )


def _drawn_queries(data: TuningData, split: str, seed: int) -> list[int]:
    judged = data.judged(split)
    if len(judged) > MAX_QUERIES:
        judged = sorted(random.Random(seed).sample(judged, MAX_QUERIES))
    return judged


def open_tuned(
    dataset: Dataset, embedder: Embedder, retriever: Retriever, progress: Progress = silent
) -> TunedRanker:
    """The model of this data set, these settings and this code; learned now if there is none."""
    # A query needs many small products: for these, threads of BLAS cost far more than they give.
    threadpool_limits(1, user_api="blas")
    path = model_path(dataset, embedder, retriever)
    if path.exists():
        return load_model(path)
    ranker = learn(dataset, embedder, retriever, progress)
    save_if_better(ranker, path)
    return ranker


def learn(
    dataset: Dataset, embedder: Embedder, retriever: Retriever, progress: Progress = silent
) -> TunedRanker:
    """Learn from the train split; the test split is never passed in, dev only measures.

    `retriever` has the same documents. What is learned has to beat its hybrid ranking.
    """
    documents, cache = list(dataset.documents.values()), VectorCache()
    judged = {
        name: dataset.judgments[name] for name in ("train", "dev") if name in dataset.judgments
    }
    asked = [
        query for query in dataset.queries.values() if any(query.id in s for s in judged.values())
    ]
    data = TuningData(
        documents=documents,
        doc_vectors=document_vectors(documents, embedder, progress, cache=cache),
        queries=asked,
        query_vectors=cache.embed(
            [embedder.prompts.query + query.text for query in asked], embedder, progress
        ),
        judgments=judged,
        language=retriever.bm25.language,
    )

    def ask_hybrid(queries: Sequence[int]) -> list[Integers]:
        found = []
        for done, query in enumerate(queries, 1):
            try:
                hits = retriever.search(asked[query].text, MAX_TOP_K, mode="hybrid")
            except UsageError:  # a query without a word: nothing is found for it
                hits = []
            found.append(np.array([data.document_index[hit.doc_id] for hit in hits], np.int64))
            progress("asking hybrid", done, len(queries))
        return found

    return fit(data, ask_hybrid, progress=progress)


def save_if_better(ranker: TunedRanker, path: Path) -> None:
    """Save a model that is worth having. Raises `TuningDeclined` for another."""
    if not ranker.held_out.better:
        raise TuningDeclined(
            f"the tuned ranking is not saved: {describe_gain(ranker.held_out)}; use hybrid for "
            "this data set",
            "not better",
        )
    save_model(ranker, path)


def describe_gain(held_out: HeldOut) -> str:
    """What tuning was worth on queries that it had not learned from."""
    gain, unfamiliar = held_out.all, held_out.unfamiliar
    cost = (
        f", but {-unfamiliar.ndcg_10:.4f} worse on the {unfamiliar.queries} of them whose relevant "
        "documents no train query shares"
    )
    return (
        f"on {gain.queries} held-out queries of {held_out.split} it reaches nDCG@10 "
        f"{gain.tuned:.4f}, against {gain.hybrid:.4f} for hybrid: it is "
        f"{'' if held_out.better else 'not significantly '}better"
        f"{'' if held_out.harmless else cost}"
    )


def model_path(dataset: Dataset, embedder: Embedder, retriever: Retriever) -> Path:
    """Named after everything that the model depends on: a stale one is never opened."""
    read = replace(retriever.bm25.settings, language=retriever.bm25.language)
    parts = (dataset.fingerprint, embedder.name, str(read), _code_version())
    name = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]
    return cache_folder() / "tuned" / f"{name}.model"


# The modules beside this package that a hybrid ranking is made by.
_HYBRID = ("analyzer", "bm25", "chunks", "retriever", "store")


def _code_version() -> str:
    here = Path(__file__).parent
    of_hybrid = (here.parent / f"{name}.py" for name in _HYBRID)
    paths = sorted([*here.glob("*.py"), *of_hybrid])
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
