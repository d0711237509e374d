import numpy as np
import pytest

from assay.search.tuning.arrays import sparse_matrix
from assay.search.tuning.validation import compare_rankings, scores_by_query

GRADES = sparse_matrix([2, 1, 1], [0, 0, 1], [0, 1, 2], (2, 4))


def test_figures_agree_with_the_definition() -> None:
    (first, second) = scores_by_query([np.array([1, 0, 3]), np.array([0, 1, 3])], GRADES)
    ideal = 2 + 1 / np.log2(3)
    assert first == pytest.approx([(1 + 2 / np.log2(3)) / ideal] * 2 + [1.0])
    assert second.tolist() == [0, 0, 0]


def test_unfamiliar_queries_are_counted_apart() -> None:
    right = [np.array([0, 1]), np.array([2])]
    wrong = [np.array([3]), np.array([3])]
    held_out = compare_rankings("dev", wrong, right, GRADES, np.array([True, False]))
    assert (held_out.all.queries, held_out.unfamiliar.queries) == (2, 1)
    assert held_out.all.ndcg_10 == held_out.unfamiliar.ndcg_10 == 1


def test_no_gain_is_not_better() -> None:
    same = [np.array([0, 1]), np.array([2])]
    assert not compare_rankings("dev", same, same, GRADES, np.ones(2, bool)).better
