"""Learns a tuned ranker, so that no query is ever answered with the help of its own judgments.

Training queries are dealt into folds. The queries of a fold see only the judgments of the other
folds, as a new query sees only those of the training queries. The trees that predict a fold's
overlaps are grown on the other folds, too (cross-fitting), so that the ranking trees learn from
predictions as uncertain as those that they will meet.

The ranking trees are one set for each fold, learned from the other folds. Together they are the
ranking; each alone says how well it ranks the fold that it has not seen.
"""

import platform
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

import numpy as np

from assay.errors import DataError
from assay.progress import Progress, silent
from assay.search.tuning.arrays import Floats, Integers, vertical_stack
from assay.search.tuning.features import (
    CorpusFeatures,
    DocumentCounts,
    QueryEncoder,
    QueryFeatures,
    TuningData,
    read_collection,
)
from assay.search.tuning.memory import Memory, remember
from assay.search.tuning.model import About, TunedRanker, second_pass
from assay.search.tuning.ranking import (
    SEEDS_APART,
    THREADS,
    RankingCandidates,
    TreeSets,
    feature_names,
    learn_overlap,
    learn_ranking,
)
from assay.search.tuning.signals import FirstPass, compare_with_judged, first_pass, true_overlap
from assay.search.tuning.trees import TreeGraph
from assay.search.tuning.validation import ValidationFold, ZeroShot, choose_settings

FOLDS = 5


@dataclass(frozen=True)
class Fold:
    """Queries to answer, and the queries whose judgments may help."""

    asked: list[int]
    """The queries that are answered."""
    remembered: list[int]
    """The queries whose judgments may be used for it."""


def split_into_folds(queries: Sequence[int], seed: int, count: int = FOLDS) -> list[Fold]:
    """Each query is asked in one fold and remembered in all others."""
    shuffled = list(queries)
    random.Random(seed).shuffle(shuffled)
    parts = [shuffled[start::count] for start in range(count)]
    return [
        Fold(part, [query for other in parts if other is not part for query in other])
        for part in parts
    ]


@dataclass(frozen=True)
class TrainingSet:
    """The data and what was computed of it once."""

    data: TuningData
    encoder: QueryEncoder
    corpus: CorpusFeatures
    counts: DocumentCounts
    questions: QueryFeatures
    """All queries of the data set."""


@dataclass(frozen=True)
class FoldFeatures:
    """The queries of a fold beside the judged queries that they may see."""

    fold: Fold
    memory: Memory
    neighbours: Integers
    features: Floats
    overlap: Floats
    """The truth about each pair of a query and a neighbour."""


def read_training_set(data: TuningData) -> TrainingSet:
    """Encode documents and queries."""
    encoder, corpus, counts = read_collection(data)
    questions = encoder.encode(data.query_texts, data.query_vectors)
    return TrainingSet(data, encoder, corpus, counts, questions)


def memory_of(training: TrainingSet, train: Sequence[int], dev: Sequence[int] = ()) -> Memory:
    """What is remembered when these queries are judged."""
    grades = [training.data.grades("train", train), training.data.grades("dev", dev)]
    questions = training.questions.take([*train, *dev])
    return remember(training.corpus, training.counts, questions, vertical_stack(grades))


def fold_features(training: TrainingSet, fold: Fold) -> FoldFeatures:
    """What the overlap trees learn from a fold."""
    memory = memory_of(training, fold.remembered)
    passes = _first_passes(training, memory, fold.asked)
    pairs = [compare_with_judged(memory, first) for first in passes]
    neighbours = np.concatenate([some.neighbours for some in pairs])
    own = training.data.grades("train", fold.asked)
    remembered = training.data.grades("train", fold.remembered)
    return FoldFeatures(
        fold=fold,
        memory=memory,
        neighbours=neighbours,
        features=np.concatenate([some.features for some in pairs]),
        overlap=true_overlap(own, remembered, neighbours),
    )


def overlap_trees(
    by_fold: Sequence[FoldFeatures], seed: int, unseen: FoldFeatures | None = None
) -> TreeSets:
    """Without the fold that the trees are for: not its queries, and not as neighbors either."""
    hidden = set(unseen.fold.asked) if unseen else set()
    features, target = [], []
    for taught in by_fold:
        if taught is unseen:
            continue
        allowed = np.array([query not in hidden for query in taught.fold.remembered])
        kept = allowed[taught.neighbours]
        features.append(taught.features[kept])
        target.append(taught.overlap[kept])
    return learn_overlap(np.concatenate(features), np.concatenate(target), seed)


def candidates_of(
    training: TrainingSet, memory: Memory, queries: Sequence[int], trees: TreeSets
) -> list[RankingCandidates]:
    """The candidates of each query, given what is remembered."""
    return [
        candidates
        for first in _first_passes(training, memory, queries)
        for candidates in second_pass(
            memory, first, partial(trees.predict, trees=-1, threads=THREADS)
        )[1]
    ]


def ranking_trees(
    training: TrainingSet,
    queries: Sequence[int],
    candidates: Sequence[RankingCandidates],
    seed: int,
) -> TreeSets:
    """LambdaMART over the candidates of the queries."""
    grades = training.data.grades("train", queries)
    labels = [
        some.mean_grades(np.asarray(grades[row].toarray(), np.float32).ravel())
        for row, some in enumerate(candidates)
    ]
    return learn_ranking(
        features=np.concatenate([some.features for some in candidates]),
        grades=np.concatenate(labels),
        sizes=np.concatenate([some.sizes for some in candidates]),
        queries=[len(some.sizes) for some in candidates],
        seed=seed,
    )


def ranking_features(training: TrainingSet, memory: Memory, trees: TreeSets) -> list[str]:
    """The names of the columns that the ranking trees see."""
    first = first_pass(training.corpus, memory, training.questions.take([0]))
    return feature_names(second_pass(memory, first, partial(trees.predict, trees=-1))[0])


def _first_passes(
    training: TrainingSet, memory: Memory, queries: Sequence[int]
) -> Iterator[FirstPass]:
    for start in range(0, len(queries), memory.batch):
        some = training.questions.take(queries[start : start + memory.batch])
        yield first_pass(training.corpus, memory, some)


TRAIN = ("train",)
MIN_QUERIES = 4 * FOLDS
# Memory grows with the square of the judged queries: of a split with more, some are drawn.
MAX_QUERIES = 4000


def fit(
    data: TuningData,
    zero_shot: ZeroShot,
    seed: int = 0,
    progress: Progress = silent,
    *,
    splits: Sequence[str] = TRAIN,
) -> TunedRanker:
    """Learns from the train split; `held_out` of the result says whether it was worth it, compared
    with `zero_shot`, which also answers the queries that nothing remembered resembles.

    `splits`: with `dev`, its judgments are remembered as well, once everything is learned and
    measured; `about.splits` says so.
    """
    if "dev" in splits and not data.judged("dev"):
        raise DataError(
            "the dev split has no judged queries to learn from: tune with --split train"
        )
    train, dev = (_drawn_queries(data, split, seed) for split in ("train", "dev"))
    progress("reading texts", 0, 1)
    training = read_training_set(data)
    progress("reading texts", 1, 1)
    by_fold = []
    folds = split_into_folds(train, seed)
    for done, fold in enumerate(folds):
        progress("comparing queries", done, FOLDS)
        by_fold.append(fold_features(training, fold))
    progress("comparing queries", FOLDS, FOLDS)
    candidates = _cross_fitted_candidates(training, by_fold, seed, progress)
    overlap = overlap_trees(by_fold, seed)
    progress("learning overlaps", FOLDS + 1, FOLDS + 1)
    memory = memory_of(training, train)
    names = ranking_features(training, memory, overlap)
    tests = _cross_validated(training, by_fold, candidates, seed, progress)
    ranking = TreeSets.joined([test.trees for test in tests])
    if dev:
        found = candidates_of(training, memory, dev, overlap)
        tests.append(ValidationFold("dev", dev, found, ranking, train))
    choice, held_out = choose_settings(data, tests, zero_shot)
    progress("learning to rank", FOLDS + 1, FOLDS + 1)
    remembered = list(train)
    if "dev" in splits:
        memory = memory_of(training, train, dev)
        remembered += dev
    return TunedRanker(
        about=About(data.fingerprint, tuple(splits), seed, tuple(names), _versions(), data.bm25),
        held_out=held_out,
        encoder=training.encoder,
        corpus=training.corpus,
        memory=memory,
        overlap_trees=TreeGraph.of(overlap),
        ranking_trees=TreeGraph.of(ranking, choice.trees, ranks=True),
        gate=choice.gate,
        judged=tuple(data.query_ids[one] for one in remembered),
    )


def _drawn_queries(data: TuningData, split: str, seed: int) -> list[int]:
    judged = data.judged(split)
    if len(judged) > MAX_QUERIES:
        judged = sorted(random.Random(seed).sample(judged, MAX_QUERIES))
    return judged


def _cross_fitted_candidates(
    training: TrainingSet,
    by_fold: Sequence[FoldFeatures],
    seed: int,
    progress: Progress,
) -> list[list[RankingCandidates]]:
    found = []
    for done, unseen in enumerate(by_fold):
        progress("learning overlaps", done, FOLDS + 1)
        trees = overlap_trees(by_fold, seed, unseen)
        found.append(candidates_of(training, unseen.memory, unseen.fold.asked, trees))
    progress("learning overlaps", FOLDS, FOLDS + 1)
    return found


def _cross_validated(
    training: TrainingSet,
    by_fold: Sequence[FoldFeatures],
    candidates: Sequence[list[RankingCandidates]],
    seed: int,
    progress: Progress,
) -> list[ValidationFold]:
    """For each fold, trees that have learned from the others."""
    tests = []
    for place, unseen in enumerate(by_fold):
        progress("learning to rank", place, FOLDS + 1)
        others = [other for other in range(len(by_fold)) if other != place]
        asked = [query for other in others for query in by_fold[other].fold.asked]
        known = [one for other in others for one in candidates[other]]
        trees = ranking_trees(training, asked, known, seed + SEEDS_APART * place)
        fold = unseen.fold
        tests.append(ValidationFold("train", fold.asked, candidates[place], trees, fold.remembered))
    return tests


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("lightgbm", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}
