import numpy as np
import pytest
from tests.search.tuning import worlds

from assay.search.tuning.arrays import sparse_matrix
from assay.search.tuning.ranking import RankingCandidates, learn_ranking
from assay.search.tuning.validation import (
    TRUSTED_FROM,
    HeldOut,
    ValidationFold,
    choose_settings,
    gain,
    scores_by_query,
    trust,
)

GRADES = sparse_matrix([2, 1, 1], [0, 0, 1], [0, 1, 2], (2, 4))


def test_figures_agree_with_the_definition() -> None:
    (first, second) = scores_by_query([np.array([1, 0, 3]), np.array([0, 1, 3])], GRADES)
    ideal = 2 + 1 / np.log2(3)
    assert first == pytest.approx([(1 + 2 / np.log2(3)) / ideal] * 2 + [1.0])
    assert second.tolist() == [0, 0, 0]


def test_no_gain_is_not_better() -> None:
    same = scores_by_query([np.array([0, 1]), np.array([2])], GRADES)
    assert not HeldOut("dev", gain(same, same), gain(same[:1], same[:1])).better


def test_a_loss_on_unfamiliar_queries_counts_where_it_is_no_chance() -> None:
    right, wrong = np.ones((20, 3), np.float32), np.zeros((20, 3), np.float32)
    odd = right.copy()
    odd[0] = 0
    assert not HeldOut("dev", gain(wrong, right), gain(right, wrong)).harmless
    assert HeldOut("dev", gain(wrong, right), gain(right, odd)).harmless
    assert HeldOut("dev", gain(wrong, right), gain(right[:5], wrong[:5])).harmless


def test_trust_grows_with_the_predicted_overlap() -> None:
    assert [trust(one, 0.5) for one in (-0.1, 0.0, 0.25, 0.5, 0.9)] == [0, 0, 0.5, 1, 1]
    assert trust(0.0, 0.0) == 1


def test_trees_that_mislead_on_unfamiliar_queries_share_them_with_the_zero_shot_ranking() -> None:
    """The trees are the same; only queries that nothing judged resembles are ranked worse."""
    data = worlds.learnable()
    dev = data.judged("dev")
    ideal = worlds.all_knowing(data)

    def candidates(query: int, familiarity: float, *, reverse: bool) -> RankingCandidates:
        (best,) = ideal([query])
        count = len(best)
        return RankingCandidates(
            features=np.zeros((count, 1), np.float32),
            sizes=np.ones(count, np.float32),
            documents=best[::-1] if reverse else best,
            owners=np.arange(count),
            zero_shot=best,
            familiarity=familiarity,
        )

    known = [candidates(query, 1.0, reverse=False) for query in dev[:12]]
    strange = [candidates(query, 0.01, reverse=True) for query in dev[12:]]
    rows = np.zeros((20, 1), np.float32)
    trees = learn_ranking(rows, rows[:, 0], np.ones(20, np.float32), [20], seed=0)
    fold = ValidationFold("dev", dev, known + strange, trees, [])
    choice, held_out = choose_settings(data, [fold], ideal)
    assert choice.trusted_from in TRUSTED_FROM[1:]
    assert held_out.all.tuned.ndcg_10 > 0.9
    assert held_out.dev == held_out.all
