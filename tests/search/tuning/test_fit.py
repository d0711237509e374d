import dataclasses

import numpy as np
import pytest
from tests.search.tuning import worlds

from assay.search.tuning import fit as tuning_fit
from assay.search.tuning.features import TuningData
from assay.search.tuning.fit import (
    TrainingSet,
    fit,
    overlap_trees,
    split_queries,
)
from assay.search.tuning.model import TunedRanker


def test_learns_what_only_judgments_tell(ranker: TunedRanker) -> None:
    held_out = ranker.held_out
    assert held_out.split == "train and dev"
    assert held_out.better
    assert held_out.all.tuned > held_out.all.hybrid + 0.2


def test_says_so_when_there_is_nothing_to_learn() -> None:
    data = worlds.unlearnable()
    assert not fit(data, worlds.by_vectors(data)).held_out.better


def test_is_compared_with_the_zero_shot_ranking_that_was_given(
    ranker: TunedRanker, data: TuningData
) -> None:
    beaten = fit(data, worlds.all_knowing(data), seed=0).held_out
    assert beaten.all.hybrid == pytest.approx(1)
    assert not beaten.better
    assert ranker.held_out.better


def test_without_a_dev_split_every_training_query_is_held_out_once() -> None:
    data = worlds.learnable(train=48, dev=0)
    held_out = fit(data, worlds.by_vectors(data)).held_out
    assert (held_out.split, held_out.all.queries) == ("train", 48)
    assert held_out.better


def test_of_a_large_split_some_queries_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    data = worlds.learnable(train=48, dev=40)
    monkeypatch.setattr(tuning_fit, "MAX_QUERIES", 30)
    ranker = fit(data, worlds.by_vectors(data))
    assert ranker.held_out.all.queries == 60
    drawn = [data.query_ids.index(each) for each in ranker.judged]
    assert len(drawn) == 30
    assert drawn == sorted(set(drawn) & set(data.judged("train")))


def test_a_query_never_sees_its_own_judgments(data: TuningData) -> None:
    asked, remembered = split_queries(data.judged("train"), seed=0)[0]
    judged = {query_id: dict(grades) for query_id, grades in data.judgments["train"].items()}
    for query in asked:
        judged[data.query_ids[query]] = {data.doc_ids[0]: 1}
    changed = dataclasses.replace(data, judgments={**data.judgments, "train": judged})

    before, after = (_described(version, asked, remembered) for version in (data, changed))

    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def _described(data: TuningData, asked: list[int], remembered: list[int]) -> list[np.ndarray]:
    """All that is computed for the queries of a fold, with trees grown on other queries."""
    training = TrainingSet.read(data)
    others = [training.fold(*parts) for parts in split_queries(remembered, seed=1)]
    own = training.fold(asked, remembered)
    candidates = training.candidates(own.memory, asked, overlap_trees(others, 0))
    return [own.features, own.neighbours, *(one.features for one in candidates)]


def test_trees_for_a_fold_learn_from_no_pair_with_its_queries(data: TuningData) -> None:
    training = TrainingSet.read(data)
    by_fold = [training.fold(*parts) for parts in split_queries(data.judged("train"), seed=0)[:3]]
    spoiled = []
    for taught in by_fold:
        hidden = np.isin(taught.remembered, by_fold[0].asked)[taught.neighbours]
        spoiled.append(dataclasses.replace(taught, overlap=np.where(hidden, 1, taught.overlap)))
    spoiled[0] = dataclasses.replace(spoiled[0], overlap=np.ones_like(spoiled[0].overlap))
    trees, clean = (overlap_trees(some, 0, unseen=some[0]) for some in (spoiled, by_fold))
    for one, other in zip(trees.sets, clean.sets, strict=True):
        assert one.model_to_string() == other.model_to_string()
