"""What the trees learn from: queries, described with the help of other queries' judgments only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import lightgbm
import numpy as np

from assay.search.tuning.arrays import Floats, Integers, one_below_the_other
from assay.search.tuning.boosting import THREADS, learn_overlap, learn_ranking
from assay.search.tuning.candidates import Candidates, feature_names
from assay.search.tuning.collection import TuningData
from assay.search.tuning.first_pass import FirstPass, first_pass
from assay.search.tuning.folds import Fold
from assay.search.tuning.memory import Memory, remember
from assay.search.tuning.model import second_pass
from assay.search.tuning.overlap import compare_with_judged, true_overlap
from assay.search.tuning.reading import Corpus, DocumentCounts, Questions, Reader, read_collection


@dataclass(frozen=True)
class Material:
    data: TuningData
    reader: Reader
    corpus: Corpus
    counts: DocumentCounts
    questions: Questions
    """All queries of the data set."""


@dataclass(frozen=True)
class Lesson:
    """The queries of a fold beside the judged queries that they may see."""

    fold: Fold
    memory: Memory
    neighbours: Integers
    features: Floats
    overlap: Floats
    """The truth about each pair of a query and a neighbour."""


def prepare(data: TuningData) -> Material:
    reader, corpus, counts = read_collection(data)
    return Material(data, reader, corpus, counts, reader.read(data.query_texts, data.query_vectors))


def memory_of(material: Material, train: Sequence[int], dev: Sequence[int] = ()) -> Memory:
    grades = [material.data.grades("train", train), material.data.grades("dev", dev)]
    questions = material.questions.take([*train, *dev])
    return remember(material.corpus, material.counts, questions, one_below_the_other(grades))


def lesson(material: Material, fold: Fold) -> Lesson:
    memory = memory_of(material, fold.remembered)
    pairs = [compare_with_judged(memory, first) for first in _looks(material, memory, fold.asked)]
    neighbours = np.concatenate([some.neighbours for some in pairs])
    own = material.data.grades("train", fold.asked)
    remembered = material.data.grades("train", fold.remembered)
    return Lesson(
        fold=fold,
        memory=memory,
        neighbours=neighbours,
        features=np.concatenate([some.features for some in pairs]),
        overlap=true_overlap(own, remembered, neighbours),
    )


def overlap_trees(
    lessons: Sequence[Lesson], seed: int, unseen: Lesson | None = None
) -> lightgbm.Booster:
    """Without the fold that the trees are for: not its queries, and not as neighbours either."""
    hidden = set(unseen.fold.asked) if unseen else set()
    features, target = [], []
    for taught in lessons:
        if taught is unseen:
            continue
        allowed = np.array([query not in hidden for query in taught.fold.remembered])
        kept = allowed[taught.neighbours]
        features.append(taught.features[kept])
        target.append(taught.overlap[kept])
    return learn_overlap(np.concatenate(features), np.concatenate(target), seed)


def candidates_of(
    material: Material, memory: Memory, queries: Sequence[int], trees: lightgbm.Booster
) -> list[Candidates]:
    return [
        candidates
        for first in _looks(material, memory, queries)
        for candidates in second_pass(memory, first, trees, threads=THREADS)[1]
    ]


def ranking_trees(
    material: Material, queries: Sequence[int], candidates: Sequence[Candidates], seed: int
) -> lightgbm.Booster:
    grades = material.data.grades("train", queries)
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


def ranking_features(material: Material, memory: Memory, trees: lightgbm.Booster) -> list[str]:
    first = first_pass(material.corpus, memory, material.questions.take([0]))
    return feature_names(second_pass(memory, first, trees)[0])


def _looks(material: Material, memory: Memory, queries: Sequence[int]) -> Iterator[FirstPass]:
    for start in range(0, len(queries), memory.batch):
        some = material.questions.take(queries[start : start + memory.batch])
        yield first_pass(material.corpus, memory, some)
