"""Learns a tuned ranker, so that no query is ever answered with the help of its own judgments.

Training queries are dealt into folds. The queries of a fold see only the judgments of the other
folds, as a new query sees only those of the training queries. The trees that predict a fold's
overlaps are grown on the other folds, too (cross-fitting), so that the ranking trees learn from
predictions as uncertain as those that they will meet.
"""

import platform
import random
from collections.abc import Sequence
from importlib.metadata import version

from assay.errors import DataError
from assay.progress import Progress, silent
from assay.search.tuning.candidates import Candidates
from assay.search.tuning.collection import TuningData
from assay.search.tuning.examination import Examination, ZeroShot, examine
from assay.search.tuning.folds import FOLDS, split_into_folds
from assay.search.tuning.lessons import (
    Lesson,
    Material,
    candidates_of,
    lesson,
    memory_of,
    overlap_trees,
    prepare,
    ranking_features,
    ranking_trees,
)
from assay.search.tuning.model import About, TunedRanker

FEWEST_QUERIES = 4 * FOLDS
# Memory grows with the square of the judged queries: of more than this, some are drawn.
MOST_QUERIES = 4000


def fit(
    data: TuningData,
    zero_shot: ZeroShot,
    seed: int = 0,
    progress: Progress = silent,
    *,
    remember_dev: bool = False,
) -> TunedRanker:
    """Learns from the train split; `held_out` of the result says whether it was worth it, compared
    with `zero_shot`, which also answers the queries that nothing remembered resembles.

    `remember_dev` adds the dev judgments to what is remembered once everything is learned and
    measured: that is another track, and `about.splits` says so.
    """
    train = _training_queries(data, seed)
    dev = data.judged("dev")
    progress("reading texts", 0, 1)
    material = prepare(data)
    progress("reading texts", 1, 1)
    lessons = []
    folds = split_into_folds(train, seed)
    for done, fold in enumerate(folds):
        progress("comparing queries", done, FOLDS)
        lessons.append(lesson(material, fold))
    progress("comparing queries", FOLDS, FOLDS)
    candidates = _cross_fitted_candidates(material, lessons, seed, progress)
    overlap = overlap_trees(lessons, seed)
    progress("learning overlaps", FOLDS + 1, FOLDS + 1)
    asked = [query for fold in folds for query in fold.asked]
    progress("learning to rank", 0, 2)
    ranking = ranking_trees(material, asked, [one for fold in candidates for one in fold], seed)
    progress("learning to rank", 1, 2)
    memory = memory_of(material, train)
    if dev:
        tests = [Examination(dev, candidates_of(material, memory, dev, overlap), ranking, train)]
    else:
        tests = _cross_validated(material, lessons, candidates, seed)
    choice, held_out = examine("dev" if dev else "train", data, tests, zero_shot)
    progress("learning to rank", 2, 2)
    known = ("train", "dev") if remember_dev and dev else ("train",)
    if "dev" in known:
        memory = memory_of(material, train, dev)
    features = tuple(ranking_features(material, memory, overlap))
    return TunedRanker(
        about=About(data.fingerprint, known, seed, features, _versions()),
        held_out=held_out,
        reader=material.reader,
        corpus=material.corpus,
        memory=memory,
        overlap_trees=overlap,
        ranking_trees=ranking,
        tree_count=choice.trees,
        familiar_from=choice.familiar_from,
    )


def _training_queries(data: TuningData, seed: int) -> list[int]:
    train = data.judged("train")
    if len(train) < FEWEST_QUERIES:
        raise DataError(
            f"tuning needs at least {FEWEST_QUERIES} judged queries in the train split, "
            f"got {len(train)}: use the zero-shot ranking `hybrid`"
        )
    if len(train) > MOST_QUERIES:
        train = sorted(random.Random(seed).sample(train, MOST_QUERIES))
    return train


def _cross_fitted_candidates(
    material: Material, lessons: Sequence[Lesson], seed: int, progress: Progress
) -> list[list[Candidates]]:
    found = []
    for done, unseen in enumerate(lessons):
        progress("learning overlaps", done, FOLDS + 1)
        trees = overlap_trees(lessons, seed, unseen)
        found.append(candidates_of(material, unseen.memory, unseen.fold.asked, trees))
    progress("learning overlaps", FOLDS, FOLDS + 1)
    return found


def _cross_validated(
    material: Material,
    lessons: Sequence[Lesson],
    candidates: Sequence[list[Candidates]],
    seed: int,
) -> list[Examination]:
    tests = []
    for place, unseen in enumerate(lessons):
        others = [other for other in range(len(lessons)) if other != place]
        asked = [query for other in others for query in lessons[other].fold.asked]
        known = [one for other in others for one in candidates[other]]
        trees = ranking_trees(material, asked, known, seed)
        tests.append(
            Examination(unseen.fold.asked, candidates[place], trees, unseen.fold.remembered)
        )
    return tests


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("lightgbm", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}
