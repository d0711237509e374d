"""The arrays that a tuned query is ranked by: bundles and kernel ridge."""

from types import SimpleNamespace

import numpy as np
import scipy.sparse as sparse  # type: ignore[import-untyped]

from assay.search.tuning.memory import RIDGE, Memory, bundle, ridge_of


def test_documents_with_the_same_queries_are_one_bundle() -> None:
    relevant = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], np.float32)
    label = bundle(sparse.csr_matrix(relevant), 0.8).label
    assert label[0] == label[1]
    assert len({int(one) for one in label}) == 3


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
