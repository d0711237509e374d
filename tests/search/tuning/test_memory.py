import numpy as np
import pytest

from assay.search.tuning.arrays import sparse_matrix
from assay.search.tuning.memory import Bundles, bundle


def bundles_of(*queries: list[int], documents: int, threshold: float = 0.8) -> Bundles:
    rows = [row for row, relevant in enumerate(queries) for _ in relevant]
    columns = [document for relevant in queries for document in relevant]
    shape = (len(queries), documents)
    return bundle(sparse_matrix(np.ones(len(rows)), rows, columns, shape), threshold)


def test_documents_with_the_same_queries_are_one_bundle() -> None:
    label = bundles_of([0, 1, 2], [0, 1], [2, 3], documents=4).label
    assert label[0] == label[1]
    assert len({int(one) for one in label}) == 3


def test_unjudged_documents_stay_alone() -> None:
    assert bundles_of([0, 1], documents=5).sizes.tolist().count(1) == 3


@pytest.mark.parametrize(("threshold", "together"), [(0.6, True), (0.7, False)])
def test_nearly_the_same_queries_are_enough(threshold: float, together: bool) -> None:
    # Two of three queries in common.
    label = bundles_of([0, 1], [0, 1], [0], documents=2, threshold=threshold).label
    assert (label[0] == label[1]) is np.bool_(together)


def test_mean_and_best_pool_the_scores_of_documents() -> None:
    bundles = bundles_of([0, 2], documents=3)
    scores = np.array([[1, 5, 3]], np.float32)
    pair, single = bundles.label[0], bundles.label[1]
    assert bundles.mean(scores)[0, [pair, single]].tolist() == [2, 5]
    assert bundles.best(scores)[0, [pair, single]].tolist() == [3, 5]
