"""The arrays that a tuned query is ranked by: products, orders, bundles, and kernel ridge."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sparse  # type: ignore[import-untyped]

from assay.search.tuning.features import best_columns, product
from assay.search.tuning.memory import RIDGE, Bundles, Memory, bundle, ridge_of


def test_the_best_columns_come_first_and_ties_go_to_the_lower_one() -> None:
    scores = np.array([[0.0, 3, -1, 3, -0.0, -2, 5], [-5, -5, -4, -6, -4, -5, -4]], np.float32)
    assert best_columns(scores, 4).tolist() == [[6, 1, 3, 0], [2, 4, 6, 0]]
    assert best_columns(scores, 9).tolist() == [[6, 1, 3, 0, 4, 2, 5], [2, 4, 6, 0, 1, 5, 3]]


@pytest.mark.parametrize("entries", [0, 3, 150])
def test_a_row_alone_is_multiplied_as_among_others(entries: int) -> None:
    draw = np.random.default_rng(0)
    dense = np.where(draw.random((200, 40)) < 0.2, draw.random((200, 40)), 0).astype(np.float32)
    dense[:, 39] = 0  # a column that nothing has
    matrix = sparse.csr_matrix(dense)
    columns = np.sort(draw.permutation(200)[:entries])
    values = draw.random(entries).astype(np.float32)
    row = sparse.csr_matrix((values, (np.zeros(entries, int), columns)), (1, 200))
    expected = values @ dense[columns]
    np.testing.assert_allclose(product(row, matrix)[0], expected, rtol=1e-5, atol=1e-6)
    two = sparse.csr_matrix((values, (np.ones(entries, int), columns)), (2, 200))
    np.testing.assert_allclose(product(two, matrix)[1], expected, rtol=1e-5, atol=1e-6)


def bundles_of(*queries: list[int], documents: int, threshold: float = 0.8) -> Bundles:
    relevant = np.zeros((len(queries), documents), np.float32)
    for row, columns in enumerate(queries):
        relevant[row, columns] = 1
    return bundle(sparse.csr_matrix(relevant), threshold)


def test_documents_with_the_same_queries_are_one_bundle() -> None:
    label = bundles_of([0, 1, 2], [0, 1], [2, 3], documents=4).label
    assert label[0] == label[1]
    assert len({int(one) for one in label}) == 3


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


def kernel(size: int) -> np.ndarray:
    points = np.random.default_rng(0).standard_normal((size, 6))
    return np.asarray(points @ points.T, np.float32)


def shares(kernel: np.ndarray, alike: np.ndarray, directions: int = 256) -> np.ndarray:
    kept, rest = ridge_of(kernel, directions)
    assert kept.shape == (len(kernel), min(directions, len(kernel)))
    return Memory.shares(SimpleNamespace(directions=kept, rest=rest), alike)  # type: ignore[arg-type]


def test_shares_are_those_of_kernel_ridge_regression() -> None:
    alike = np.random.default_rng(1).random((2, 12)).astype(np.float32)
    expected = alike @ np.linalg.inv(kernel(12) + RIDGE * np.eye(12))
    np.testing.assert_allclose(shares(kernel(12), alike), expected, atol=1e-6)


def test_of_the_ridge_the_largest_directions_are_exact_and_the_others_count_alike() -> None:
    values, vectors = np.linalg.eigh(kernel(12).astype(np.float64))
    for place in range(8, 12):
        own = vectors[:, place][None, :].astype(np.float32)
        expected = own / (values[place] + RIDGE)
        np.testing.assert_allclose(shares(kernel(12), own, 4), expected, atol=1e-6)
    rest = np.mean(1 / (values[:8] + RIDGE))
    for place in (0, 7):
        own = vectors[:, place][None, :].astype(np.float32)
        np.testing.assert_allclose(shares(kernel(12), own, 4), own * rest, atol=1e-6)
