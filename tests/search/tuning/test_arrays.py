"""Products and orders of the arrays that a tuned query is ranked by."""

import numpy as np
import pytest
import scipy.sparse as sparse  # type: ignore[import-untyped]

from assay.search.tuning.features import best_columns, product


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
