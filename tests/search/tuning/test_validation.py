from collections.abc import Sequence

import numpy as np
import pytest
import scipy.sparse as sparse  # type: ignore[import-untyped]
from tests.search.tuning import worlds

from assay.search.tuning.features import Integers
from assay.search.tuning.signals import RankingCandidates
from assay.search.tuning.trees import learn_ranking
from assay.search.tuning.validation import (
    FamiliarityGate,
    HeldOut,
    ValidationFold,
    _held_out_probability,
    choose_settings,
    fit_familiarity,
    gain,
    scores_by_query,
)

GRADES = sparse.csr_matrix(np.array([[2, 1, 0, 0], [0, 0, 1, 0]], np.float32))


def test_figures_agree_with_the_definition() -> None:
    (first, second) = scores_by_query([np.array([1, 0, 3]), np.array([0, 1, 3])], GRADES)
    ideal = 2 + 1 / np.log2(3)
    assert first == pytest.approx((1 + 2 / np.log2(3)) / ideal)
    assert second == 0


def test_a_loss_on_unfamiliar_queries_counts_where_it_is_no_chance() -> None:
    right, wrong = np.ones(20, np.float32), np.zeros(20, np.float32)
    odd = right.copy()
    odd[0] = 0
    assert not HeldOut("dev", gain(wrong, right), gain(right, wrong)).harmless
    assert HeldOut("dev", gain(wrong, right), gain(right, odd)).harmless
    assert HeldOut("dev", gain(wrong, right), gain(right[:5], wrong[:5])).harmless


def test_trust_grows_with_the_predicted_overlap_and_where_trees_lift_from_far_below() -> None:
    gate = FamiliarityGate((-2.0, 4.0, 0.5), trusted_from=1.0)
    shares = [gate.trust(_candidates(np.arange(150), one), 0) for one in (0.1, 0.5, 0.6, 0.9)]
    assert shares[:2] == [0, 0]
    assert 0 < shares[2] < shares[3] < 1
    same = [gate.trust(_candidates(np.arange(150), 0.6), first) for first in (0, 50, 100, 149)]
    assert same[0] < same[1] < same[2] == same[3]
    assert FamiliarityGate((-2.0, 4.0, 0.5), 0.0).trust(_candidates(np.arange(150), 0.1), 0) == 1
    assert FamiliarityGate((-2.0, 4.0, 0.5), 0.5).trust(_candidates(np.arange(150), 0.6), 0) == 1


def test_familiarity_is_a_probability_even_where_all_queries_are_familiar() -> None:
    signs = np.array([[1.0, overlap, 0.0] for overlap in np.linspace(0, 1, 200)])
    familiar = np.random.default_rng(0).random(200) < signs[:, 1]
    likely = 1 / (1 + np.exp(-signs @ fit_familiarity(signs, familiar)))
    assert likely.mean() == pytest.approx(familiar.mean(), abs=0.02)
    assert likely[160:].mean() == pytest.approx(familiar[160:].mean(), abs=0.1)
    always = fit_familiarity(signs, np.ones(200, bool))
    assert 0.9 < 1 / (1 + np.exp(-signs[0] @ always)) < 1


def test_a_query_is_told_familiar_by_the_other_folds_alone() -> None:
    signs, familiar = np.ones((40, 3)), np.repeat([True, False], 20)
    likely = _held_out_probability(signs, familiar, [20, 20])
    assert likely[:20].max() < 0.5 < likely[20:].min()


FAMILIAR, UNFAMILIAR = range(24), range(24, 36)


def test_trees_that_mislead_on_unfamiliar_queries_leave_them_to_the_zero_shot_ranking() -> None:
    gate, held_out = _choose(overlaps=(0.9, 0.3), trees_wrong=UNFAMILIAR)
    assert gate.trusted_from == 1
    assert held_out.unfamiliar.tuned > 0.95


def test_trees_that_lose_on_unfamiliar_queries_by_chance_need_no_second_search() -> None:
    gate, held_out = _choose((0.9, 0.3), trees_wrong=[24, 25], zero_shot_wrong=[26])
    assert gate.trusted_from == 0
    assert held_out.unfamiliar.tuned < held_out.unfamiliar.hybrid


def test_sharing_must_not_cost_the_familiar_queries_more_than_it_gives() -> None:
    """Where nothing tells the two kinds of query apart."""
    gate, held_out = _choose((0.6, 0.6), trees_wrong=range(24, 30), zero_shot_wrong=FAMILIAR)
    assert gate.trusted_from < 1
    assert held_out.all.tuned > 0.8


def _choose(
    overlaps: tuple[float, float],
    trees_wrong: Sequence[int] = (),
    zero_shot_wrong: Sequence[int] = (),
) -> tuple[FamiliarityGate, HeldOut]:
    """Of queries that share a topic with a remembered one (`FAMILIAR`) and that do not. Rankings
    are perfect, or from worst to best where they are wrong.
    """
    data = worlds.learnable(train=72, dev=36)
    ideal = worlds.all_knowing(data)
    dev = sorted(data.judged("dev"), key=lambda query: query % worlds.TOPICS >= 8)
    remembered = [query for query in data.judged("train") if query % worlds.TOPICS < 8]

    def ranked(queries: Sequence[int], wrong: Sequence[int]) -> list[Integers]:
        right = zip(queries, ideal(queries), strict=True)
        return [one[::-1] if dev.index(query) in wrong else one for query, one in right]

    def fold(queries: list[int]) -> ValidationFold:
        candidates = [
            _candidates(one, overlaps[dev.index(query) in UNFAMILIAR])
            for query, one in zip(queries, ranked(queries, trees_wrong), strict=True)
        ]
        rows = np.zeros((20, 1), np.float32)
        trees = learn_ranking(rows, rows[:, 0], np.ones(20, np.float32), [20], seed=0)
        return ValidationFold("dev", queries, candidates, trees, remembered)

    folds = [fold(dev[::2]), fold(dev[1::2])]
    return choose_settings(data, folds, lambda queries: ranked(queries, zero_shot_wrong))[1:]


def _candidates(ranking: Integers, overlap: float) -> RankingCandidates:
    """That constant trees leave in this order."""
    return RankingCandidates(
        features=np.zeros((len(ranking), 1), np.float32),
        sizes=np.ones(len(ranking), np.float32),
        documents=ranking,
        owners=np.arange(len(ranking)),
        zero_shot=ranking,
        familiarity=overlap,
    )
