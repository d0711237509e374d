"""The arrays that a tuned query is ranked by."""

from types import SimpleNamespace

import numpy as np

from assay.search.tuning.memory import RIDGE, Memory, ridge_of


def test_shares_are_those_of_kernel_ridge_regression() -> None:
    draw = np.random.default_rng(0)
    points, alike = draw.standard_normal((12, 6)), draw.random((2, 12)).astype(np.float32)
    kernel = np.asarray(points @ points.T, np.float32)
    kept, rest = ridge_of(kernel, 256)
    found = Memory.shares(SimpleNamespace(directions=kept, rest=rest), alike)  # type: ignore[arg-type]
    expected = alike @ np.linalg.inv(kernel + RIDGE * np.eye(12))
    np.testing.assert_allclose(found, expected, atol=1e-6)
