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


def test_shares_are_those_of_kernel_ridge_regression() -> None:
    draw = np.random.default_rng(0)
    points, alike = draw.standard_normal((12, 6)), draw.random((2, 12)).astype(np.float32)
    kernel = np.asarray(points @ points.T, np.float32)
    kept, rest = ridge_of(kernel, 256)
    found = Memory.shares(SimpleNamespace(directions=kept, rest=rest), alike)  # type: ignore[arg-type]
    expected = alike @ np.linalg.inv(kernel + RIDGE * np.eye(12))
    np.testing.assert_allclose(found, expected, atol=1e-6)
